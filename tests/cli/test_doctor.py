"""`nsysprof doctor` on machines that are made up of stand-ins: programs, a torch, and what NVML answers."""

import os
import sqlite3

import pytest

from nsysprof.app.doctor import doctor
from nsysprof.capture import doctor as checks
from nsysprof.nsight import ncu
from nsysprof.results.checks import State
from tests.builders import run_command
from tests.builders.published_schema import as_published

GPU = {"name": "H200", "memory_bytes": 1 << 37, "driver_version": "580", "uuid": "GPU-1", "index": 0}
CLOCKS = {"sm_clock_mhz": 1980, "temperature_c": 40, "power_w": 100, "throttle_reasons": []}
TORCH = """
from types import SimpleNamespace
{before}
__version__ = "2.13"
version = SimpleNamespace(cuda={cuda!r})
backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91900))
cuda = SimpleNamespace(
    is_available=lambda: {available},
    get_arch_list=lambda: ["sm_80", "sm_90"],
    get_device_properties=lambda _: SimpleNamespace(name="H200", major={capability} // 10, minor={capability} % 10),
)
"""
RECORDS = 'for a; do case "$a" in --output=*) touch "${a#--output=}.nsys-rep" ;; esac; done'
COUNTS = 'echo "\\"dram__bytes_read.sum\\",\\"byte\\",\\"128\\""'


def run(*arguments, **environment):
    return run_command.run("doctor", *arguments, env={**os.environ, **environment})


class Machine:
    """A machine on which everything works, until a test says otherwise."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.patch = folder, monkeypatch
        monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        for name in ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD"):
            monkeypatch.delenv(name, raising=False)
        self.gpus(GPU)
        self.torch()
        self.nsys()
        self.ncu(COUNTS)

    def gpus(self, *gpus, newest=(13, 1), clocks=CLOCKS):
        self.patch.setattr(checks, "collect_gpus", lambda: list(gpus))
        self.patch.setattr(checks, "driver_cuda_version", lambda: newest)
        self.patch.setattr(checks, "read_clocks", lambda _uuid: clocks)

    def torch(self, cuda="13.0", available=True, capability=90, before=""):
        (self.folder / "torch").mkdir(exist_ok=True)
        text = TORCH.format(cuda=cuda, available=available, capability=capability, before=before)
        (self.folder / "torch" / "__init__.py").write_text(text)

    def nsys(self, *, profile=RECORDS, kernels=8, export=None):
        trace = self.folder / "made.sqlite"
        trace.unlink(missing_ok=True)
        with sqlite3.connect(trace) as database:
            database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start)")
            database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?)", [(i,) for i in range(kernels)])
        database.close()
        copy = f'for a; do case "$a" in --output=*) cp {trace} "${{a#--output=}}" ;; esac; done'
        self._program("nsys", f'case "$1" in --version) echo "NVIDIA Nsight Systems version 2025.3.1" ;;\n'
                              f"profile) {profile} ;;\nexport) {export or copy} ;; esac")  # fmt: skip

    def ncu(self, says):
        self._program("ncu", f'case "$1" in --version) echo "Version 2025.3.0" ;;\n*) {says} ;; esac')

    def _program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        self.patch.setenv(f"NSYSPROF_{name.upper()}", str(path))

    def check(self):
        """Every check by its name."""
        return {check.name: check for check in doctor().checks}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


@pytest.mark.nsys
def test_a_real_nsys_records_and_exports(nsys):
    done = run("--json", NSYSPROF_NSYS=str(nsys), CUDA_VISIBLE_DEVICES="")
    data = as_published("doctor", done.stdout)
    found = {check["name"]: check for check in data["checks"]}
    assert found["nsys recording"]["state"] == "ok", found
    assert found["python"]["found"].startswith("Python 3")
    assert done.returncode == (0 if data["ok"] else 1)


def test_a_machine_where_everything_works_has_no_problem(machine):
    found = machine.check()
    assert {name: found[name].state for name in ("gpu", "driver", "torch", "nsys", "ncu")} == dict.fromkeys(
        ("gpu", "driver", "torch", "nsys", "ncu"), State.OK
    )
    assert found["nsys recording"].found == "records and exports; 8 kernels of 7 launches and a fill"
    assert found["hardware counters"].found == "ncu reads DRAM bytes"
    assert [name for name, check in found.items() if check.state is State.PROBLEM] == []


def test_an_nsys_that_does_not_run_is_a_problem_with_a_fix(machine, tmp_path):
    (tmp_path / "nsys").write_text("#!/bin/sh\nexit 1\n")
    done = run()
    assert done.returncode == 1
    assert "does not run" in done.stdout
    assert "-> Install it again" in " ".join(done.stdout.split()), "wherever a line is broken"
    assert "1 problem" in done.stdout.splitlines()[-1]
    (tmp_path / "nsys").unlink()
    named = run("--json")
    assert named.returncode == 1
    assert "which is not an nsys program" in named.stdout
    assert as_published("doctor", named.stdout)["ok"] is False


def test_an_nsys_without_libdw(machine):
    machine.nsys(export='echo "Unable to retrieve the importer version"; exit 1')
    found = machine.check()["nsys recording"]
    assert found.state is State.PROBLEM
    assert "libdw" in found.fix


def test_an_nsys_that_cannot_record(machine):
    machine.nsys(profile="exit 3")
    found = machine.check()["nsys recording"]
    assert (found.state, bool(found.fix)) == (State.PROBLEM, True)


def test_an_nsys_that_loses_kernels(machine):
    machine.nsys(kernels=1)
    found = machine.check()["nsys recording"]
    assert found.state is State.PROBLEM
    assert "lost kernels: 1 of at least 7" in found.found


@pytest.mark.parametrize(
    ("says", "state", "words"),
    [
        ('echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"', State.PROBLEM, "does not permit"),
        ('echo "==ERROR== Failed to connect. Another tool holds the counters."; exit 1', State.PROBLEM, "Failed to"),
        ("exit 3", State.PROBLEM, "ncu said: nothing"),
    ],
)
def test_hardware_counters_that_cannot_be_read(machine, says, state, words):
    machine.ncu(says)
    found = machine.check()["hardware counters"]
    assert found.state is state
    assert words in found.found
    assert found.fix


def test_an_ncu_that_does_not_end(machine, monkeypatch):
    monkeypatch.setattr(ncu, "_PROBE_S", 0.3)
    machine.ncu("exec sleep 30")
    assert "does not end" in machine.check()["hardware counters"].found


@pytest.mark.parametrize(
    ("torch", "state", "words"),
    [
        ({"available": False}, State.PROBLEM, "cannot use this GPU"),
        ({"available": False, "cuda": None}, State.PROBLEM, "is built without CUDA"),
        ({"capability": 120}, State.WARNING, "no kernels for sm_120"),
        ({"before": "raise ModuleNotFoundError(\"No module named 'torch'\")"}, State.ABSENT, "not installed"),
        ({"before": "raise ImportError('libcudart.so.13: cannot open')"}, State.PROBLEM, "libcudart.so.13"),
    ],
)
def test_torch_that_cannot_use_the_gpu(machine, torch, state, words):
    machine.torch(**torch)
    found = machine.check()["torch"]
    assert found.state is state
    assert words in found.found
    assert found.fix


def test_variables_that_change_what_is_measured_are_named(machine, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert machine.check()["CUDA_LAUNCH_BLOCKING"].state is State.WARNING


def test_gpus_that_are_hidden_or_not_there(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.check()["gpu"].state is State.PROBLEM
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    machine.gpus(newest=None)
    machine.torch(available=False)
    found = machine.check()
    assert found["gpu"].state is State.ABSENT
    assert "driver" not in found
    assert found["nsys recording"].found == "records and exports; there is no GPU to record here"
    assert "hardware counters" not in found


def test_a_gpu_that_is_throttled(machine):
    machine.gpus(GPU, clocks={**CLOCKS, "throttle_reasons": ["gpu_idle", "hw_thermal_slowdown"]})
    found = machine.check()["clocks of gpu 0"]
    assert (found.state, "throttled: hw_thermal_slowdown" in found.found) == (State.WARNING, True)


@pytest.mark.parametrize(
    ("newest", "built", "state"),
    [
        ((13, 1), "12.6", State.OK),
        ((12, 4), "12.6", State.WARNING),
        ((12, 8), "13.0", State.PROBLEM),
        ((12, 8), None, State.OK),
    ],
)
def test_a_driver_older_than_torchs_cuda(machine, newest, built, state):
    machine.gpus(GPU, newest=newest)
    machine.torch(cuda=built)
    found = machine.check()["driver"]
    assert found.state is state
    assert bool(found.fix) == (state is not State.OK)


def test_links_that_carry_less_than_their_nvlink_are_a_warning():
    def judged(rate, begins="cuda:0", ends="cuda:1", gpu="NVIDIA H200"):
        return checks.judge_link({"from": begins, "to": ends, "gpu": gpu, "bytes_per_s": rate})

    assert judged(390e9).state is State.OK
    assert "390 GB/s, 86.7 % of the board's NVLink" in judged(390e9).found
    assert judged(24e9).state is State.WARNING
    assert "nvidia-smi topo -m" in judged(24e9).fix
    # Nothing is compared with the NVLink that a board may not have, or that does not lead to the host.
    assert judged(24e9, gpu="NVIDIA L4").found == "24.0 GB/s"
    assert judged(24e9, begins="cpu", ends="cuda:0").state is State.OK


def test_links_are_measured_only_when_asked_and_only_with_a_gpu(machine):
    assert not any(name.startswith("link") for name in machine.check())
    machine.torch(available=False)
    found = {check.name: check for check in doctor(links=True).checks}["links"]
    assert found.state is State.ABSENT
    machine.torch()  # a torch that cannot copy
    found = {check.name: check for check in doctor(links=True).checks}["links"]
    assert found.state is State.PROBLEM
    assert "cannot be measured" in found.found
