"""`nsysprof capture` as a user runs it, on the CPU."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")

from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run

SMALL = (
    "--seq",
    "32,64",
    "--heads",
    "2",
    "--head-dim",
    "8",
    "--samples",
    "10",
    "--device",
    "cpu",
    "--traced-calls",
    "3",
)


def test_the_main_job(tmp_path):
    done = run("capture", "--backends", "math,flash", *SMALL, "--out", tmp_path / "c", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "operators" in done.stdout
    assert "kernel" not in done.stdout
    rows = (tmp_path / "c" / "results.csv").read_text().splitlines()
    assert len(rows) == 5
    assert all(",ok," in row for row in rows[1:])
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["environment"]["comparable_hash"]
    done = run("analyze", tmp_path / "c", "--out", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "a" / "report.md").read_text()
    assert "operators" in report
    assert "S=64" in report
    assert {"timeline.png", "kernels.png", "vram.png"} <= {path.name for path in (tmp_path / "a").iterdir()}


def test_the_plan_alone(tmp_path):
    arguments = ("capture", "--backends", "math", *SMALL, "--batch", "1,2", "--dry-run", "--out", tmp_path / "c")
    done = run(*arguments)
    assert "RUN::math::S64::B=2  B=2 H=2 S=64 D=8 fp32 causal fwd" in done.stdout
    assert "4 cases on cpu" in done.stdout
    assert not (tmp_path / "c").exists()
    assert len(json.loads(run(*arguments, "--json").stdout)["cases"]) == 4


@pytest.mark.slow
def test_keys_of_another_length_are_in_names_results_and_notes(tmp_path):
    arguments = ("capture", "--backends", "math", "--seq", "4", "--kv-seq", "16", "--heads", "2", "--head-dim", "8")
    plan = run(*arguments, "--device", "cpu", "--dry-run", "--out", tmp_path / "c")
    assert "RUN::math::S4::K=16  B=1 H=2 S=4 K=16 D=8 fp32 causal fwd" in plan.stdout
    done = run(*arguments, "--device", "cpu", "--samples", "10", "--out", tmp_path / "c")
    assert done.returncode == 0, done.stderr
    assert "4 of 16 keys are seen at S=4" in done.stdout
    analysis = run("analyze", tmp_path / "c", "--out", tmp_path / "a")
    assert analysis.returncode == 0, analysis.stderr
    assert "RUN::math::S4::K=16" in (tmp_path / "a/ranges.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--backends", "quick"), 2, "Unknown backend 'quick'"),
        (("--backends", ","), 2, "is empty"),
        (("--dtype", "int8"), 2, "Unknown dtype"),
        (("--seq", "0"), 2, "--seq 0"),
        (("--seq", "-1"), 2, "--seq -1"),
        (("--seq", "many"), 2, "not an integer"),
        (("--seq", ""), 2, "is empty"),
        (("--profiler", "vtune"), 2, "Unknown profiler"),
        (("--profiler", "nsys,torch"), 2, "more than one profiler that traces"),
        (("--profiler", "torch,ncu", "--device", "cpu"), 2, "measures the CPU"),
        (("--gpu-metrics", "--device", "cpu"), 2, "measures the CPU"),
        (("--metrics", "a__b.sum", "--device", "cpu"), 2, "need ncu"),
        (("--profiler", "ncu", "--replay", "twice"), 2, "is not one of"),
        (("--device", "tpu"), 2, "is not one of"),
        (("--seq", "999999999", "--device", "cpu"), 2, "inputs and output alone"),
        (("--samples", "0", "--device", "cpu"), 2, "--samples"),
        (("--profiler", "nsys", "--nsys", "/nothing/nsys", "--device", "cpu"), 5, "--nsys names"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, arguments, code, word):
    fails(run("capture", *arguments, "--out", tmp_path / "c"), code, word)
    assert not (tmp_path / "c").exists()


def test_without_a_gpu_nsys_has_nothing_to_trace(tmp_path):
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    fails(run("capture", "--profiler", "nsys", "--out", tmp_path / "c", env=env), 5, "no NVIDIA GPU", "--device cpu")
    fails(run("capture", "--device", "cuda", "--out", tmp_path / "c", env=env), 5, "no NVIDIA GPU")


def test_without_nsys_it_says_where_to_get_one(tmp_path):
    env = {key: value for key, value in os.environ.items() if key not in ("NSYSPROF_NSYS", "CUDA_HOME", "CUDA_PATH")}
    code = (
        "import sys; import nsysprof.nsight.run_tool as f; f._candidates = lambda _tool: iter(())\n"
        "sys.argv = ['nsysprof', 'capture', '--profiler', 'nsys', '--device', 'cpu', '--out', 'c']\n"
        "from nsysprof.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    fails(done, 5, "nsys was not found", "NSYSPROF_NSYS")


def test_without_torch_it_says_which_line_installs_it(tmp_path):
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        f"sys.argv = ['nsysprof', 'capture', '--out', {str(tmp_path / 'c')!r}]\n"
        "from nsysprof.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    fails(done, 5, "torch", "pip install 'nsysprof[torch]'")


def test_a_taken_folder_is_refused_and_force_replaces_a_capture_and_json_tells_its_cases(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.txt").write_text("mine")
    fails(run("capture", "--backends", "math", *SMALL, "--out", tmp_path / "c"), 4, "did not write it as a capture")
    assert run("capture", "--backends", "math", *SMALL, "--profiler", "none", "--out", tmp_path / "d").returncode == 0
    fails(run("capture", "--backends", "math", *SMALL, "--out", tmp_path / "d"), 4, "--force")
    done = run("capture", "--backends", "flash", *SMALL, "--out", tmp_path / "d", "--force", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    cases = as_published("capture", done.stdout)["cases"]
    assert [case["status"] for case in cases] == ["ok", "ok"]
    assert cases[0]["kernel_count"] > 0
    assert "RUN::flash" in (tmp_path / "d" / "results.csv").read_text()


def test_a_grid_in_which_nothing_works_fails_with_the_reason(tmp_path):
    done = run("capture", "--backends", "cudnn", *SMALL, "--out", tmp_path / "c")
    fails(done, 11, "None of 2 cases", "results.csv")
    assert "ineligible" in (tmp_path / "c" / "results.csv").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("sent", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_an_interruption_keeps_the_finished_cases(tmp_path, sent):
    backends = "math,tests.capture.faults:hang"
    arguments = ["capture", "--backends", backends, "--seq", "32", "--device", "cpu", "--out", str(tmp_path / "c")]
    process = subprocess.Popen(
        [sys.executable, "-m", "nsysprof", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    results = tmp_path / "c" / "results.csv"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (results.exists() and ",ok," in results.read_text()):
        time.sleep(0.1)
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 of 2 cases are finished and kept" in stderr
    assert f"{results} has them; nothing was traced yet." in stderr, "analyze would find no trace"
    assert "Traceback" not in stderr
    assert ",ok," in results.read_text()


@pytest.mark.nsys
def test_nsys_on_the_cpu_records_ranges_and_claims_no_kernels(tmp_path, nsys):
    done = run("capture", "--backends", "math", *SMALL, "--profiler", "nsys", "--nsys", nsys, "--out", tmp_path / "c")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "c" / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert {row[column] for row in rows for column in ("kernel_count", "launch_count", "memcpy_bytes")} == {""}
    done = run("analyze", tmp_path / "c", "--out", tmp_path / "a")
    assert "has no GPU" in done.stdout
    assert "RUN::math::S32" in (tmp_path / "a" / "ranges.csv").read_text()


LOSSY_NSYS = """#!/bin/sh
# An nsys older than the driver: it runs the program, exits 0, and exports what it really recorded on an H200.
case "$1" in
    --version) echo "NVIDIA Nsight Systems version 2023.4.4.54-x" ;;
    profile) for a; do case "$a" in --output=*) touch "${a#--output=}.nsys-rep" ;; esac; done
        while [ "$1" != -m ]; do last=$1; shift; done; exec "$last" "$@" ;;
    export) for a; do case "$a" in --output=*) cp TRACE "${a#--output=}" ;; esac; done ;;
esac
"""


# The check of a capture reads the second in test_capture_program_process_traces_check_trace.py, too.
@pytest.mark.parametrize(
    ("name", "word"),
    [("sdpa23", "hold no launch"), pytest.param("sdpa22", "not one kernel", marks=pytest.mark.slow)],
)
def test_a_profiler_that_loses_data_and_exits_0_is_an_error(tmp_path, trace_path, name, word):
    nsys = tmp_path / "nsys"
    nsys.write_text(LOSSY_NSYS.replace("TRACE", str(trace_path(name))))
    nsys.chmod(0o755)
    arguments = ("--backends", "math", "--seq", "1024", "--heads", "1", "--head-dim", "8", "--samples", "10")
    arguments += ("--device", "cpu", "--profiler", "nsys", "--nsys", nsys, "--out", tmp_path / "c")
    fails(run("capture", *arguments), 12, word, "newer nsys")
    assert ",ok," in (tmp_path / "c" / "results.csv").read_text(), "the latency is kept"
    notes = json.loads((tmp_path / "c" / "manifest.json").read_text())["notes"]
    assert [note["severity"] for note in notes if note["code"] != "noisy-machine"] == ["error"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interruption_of_the_export_keeps_the_capture(tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text(LOSSY_NSYS.replace("cp TRACE", f"touch {tmp_path}/exporting; exec sleep 60; :"))
    nsys.chmod(0o755)
    arguments = ["--backends", "math", *SMALL, "--profiler", "nsys", "--nsys", str(nsys), "--out", str(tmp_path / "c")]
    process = subprocess.Popen(
        [sys.executable, "-m", "nsysprof", "capture", *arguments], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (tmp_path / "exporting").exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "2 of 2 cases are finished and kept" in stderr
    assert (tmp_path / "c" / "results.csv").read_text().count(",ok,") == 2


@pytest.fixture
def tiny_disk(tmp_path):
    """Yield a function that mounts a file system of some KiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def mount(size):
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            pytest.skip("no mount here")
        if done.returncode != 0:
            pytest.skip("this user may not mount a small file system")
        mounted.append(folder)
        return folder

    yield mount
    for each in mounted:
        subprocess.run(["umount", str(each)], check=True)


def test_a_disk_that_is_full_at_once_or_halfway(tiny_disk, trace_path):
    disk = tiny_disk(48)
    fails(run("capture", "--backends", "math", *SMALL, "--out", disk / "c"), 4, "No space left")
    shutil.rmtree(disk / "c", ignore_errors=True)
    fails(run("analyze", trace_path("sdpa"), "--out", disk / "a"), 4, "No space left")


def test_a_disk_that_fills_during_the_traced_pass_keeps_the_latencies(tiny_disk):
    disk = tiny_disk(88)
    done = run("capture", "--backends", "math,flash", *SMALL, "--profiler", "torch", "--out", disk / "c")
    fails(done, 4, "No space left for the trace", "latencies are kept")
    assert (disk / "c" / "results.csv").read_text().count(",ok,") == 4


def test_layers_of_a_program_are_rows(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(LAYERS_PROGRAM)
    capture = ("capture", "--profiler", "torch", "--layers", "--out", tmp_path / "c", "--", sys.executable, program)
    done = run(*capture, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Recorded 4 modules" in done.stdout + done.stderr
    done = run("analyze", tmp_path / "c", "--out", tmp_path / "a", "--no-figures")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "a" / "layers.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "a" / "kernels.csv").open() as file:
        operators = sum(int(row["instances"]) for row in csv.DictReader(file))
    assert sum(int(row["kernel_count"]) for row in rows) == operators
    calls = {(row["layer"], row["pass"]): row["calls"] for row in rows if row["layer"]}
    assert calls == {(layer, way): "3" for layer in ("Sequential", "0", "1", "2") for way in ("forward", "backward")}


LAYERS_PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(4, 8)).square().sum().backward()
    optimizer.step()
"""


def test_a_pattern_of_layers_that_is_none_is_refused(tmp_path):
    done = run("capture", "--layers", "--layer-pattern", "layers.[0", "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2
    assert "not a regular expression" in done.stderr
    done = run("capture", "--layer-depth", "3", "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2 and "Give --layers too" in done.stderr
