"""`nsysprof doctor` as a user runs it; stand-ins only for tools that fail in ways which cannot be caused here."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from nsysprof.capture import doctor, ncu
from nsysprof.capture.doctor import State


def run(*arguments, **environment):
    command = [sys.executable, "-m", "nsysprof", "doctor", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)


def by_name(checks):
    return {check.name: check for check in checks}


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.nsys
def test_a_real_nsys_records_and_exports(nsys):
    done = run("--json", NSYSPROF_NSYS=str(nsys), CUDA_VISIBLE_DEVICES="")
    data = json.loads(done.stdout)
    checks = {check["name"]: check for check in data["checks"]}
    assert checks["nsys recording"]["state"] == "ok", checks
    assert checks["python"]["found"].startswith("Python 3")
    assert done.returncode == (0 if data["ok"] else 1)


def test_an_nsys_that_does_not_run_is_a_problem_with_a_fix(tmp_path):
    broken = program(tmp_path / "nsys", "exit 1")
    done = run(NSYSPROF_NSYS=str(broken))
    assert done.returncode == 1
    assert "does not run" in done.stdout
    assert "-> Install it again" in done.stdout
    assert "1 problems" in done.stdout
    named = run(NSYSPROF_NSYS=str(tmp_path / "nothing"))
    assert named.returncode == 1
    assert "which is not an nsys program" in named.stdout


def test_an_nsys_without_libdw(tmp_path):
    text = (
        'case "$1" in --version) echo "NVIDIA Nsight Systems version 2025.3.1" ;;\n'
        'profile) for a; do case "$a" in --output=*) touch "${a#--output=}.nsys-rep" ;; esac; done ;;\n'
        'export) echo "Unable to retrieve the importer version"; exit 1 ;; esac'
    )
    found = doctor._record(program(tmp_path / "nsys", text), usable=False)
    assert found.state is State.PROBLEM
    assert "libdw" in found.fix


def test_an_nsys_that_loses_kernels(tmp_path):
    text = (
        'case "$1" in profile) for a; do case "$a" in --output=*) touch "${a#--output=}.nsys-rep" ;; esac; done ;;\n'
        f'export) for a; do case "$a" in --output=*) {sys.executable} -c "import sqlite3, sys; '
        "c = sqlite3.connect(sys.argv[1]); c.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start)'); "
        "c.execute('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1)'); c.commit()\" "
        '"${a#--output=}" ;; esac; done ;; esac'
    )
    found = doctor._record(program(tmp_path / "nsys", text), usable=True)
    assert found.state is State.PROBLEM
    assert "lost kernels: 1 of at least 7" in found.found


@pytest.mark.parametrize(
    ("says", "state", "words"),
    [
        ('echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"', State.PROBLEM, "does not permit"),
        ('echo "\\"dram__bytes_read.sum\\",\\"byte\\",\\"128\\""', State.OK, "ncu reads"),
        ('echo "==ERROR== Failed to connect. Another tool holds the counters."; exit 1', State.PROBLEM, "Failed to"),
        ("exit 3", State.PROBLEM, "ncu said: nothing"),
    ],
)
def test_hardware_counters(tmp_path, says, state, words):
    found = doctor._count(program(tmp_path / "ncu", says))
    assert found.state is state
    assert words in found.found
    assert bool(found.fix) == (state is State.PROBLEM)


def test_a_program_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "_PROBE_S", 0.3)
    assert "does not end" in doctor._count(program(tmp_path / "ncu", "exec sleep 30")).found


def test_torch_that_cannot_use_the_gpu(monkeypatch):
    facts = {"torch": "2.13", "cuda": "13.0", "cuda_available": False, "architectures": ["sm_90"], "capability": None}

    def answer(code, out, err=""):
        monkeypatch.setattr(doctor, "_try", lambda _argv: SimpleNamespace(returncode=code, stdout=out, stderr=err))

    answer(0, json.dumps(facts))
    check, _ = doctor._torch(has_gpu=True)
    assert (check.state, "cannot use this GPU" in check.found) == (State.PROBLEM, True)
    answer(0, json.dumps({**facts, "cuda_available": True, "capability": "sm_120"}))
    check, _ = doctor._torch(has_gpu=True)
    assert (check.state, "no kernels of sm_120" in check.found) == (State.WARNING, True)
    answer(0, json.dumps({**facts, "cuda_available": True, "capability": "sm_90"}))
    assert doctor._torch(has_gpu=True)[0].state is State.OK
    answer(1, "", "ModuleNotFoundError: No module named 'torch'")
    assert doctor._torch(has_gpu=True)[0].state is State.ABSENT
    answer(1, "", "ImportError: libcudart.so.13: cannot open shared object file")
    assert doctor._torch(has_gpu=True)[0].state is State.PROBLEM


def test_variables_that_change_what_is_measured_are_named(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert by_name(doctor._variables())["CUDA_LAUNCH_BLOCKING"].state is State.WARNING


def test_hidden_gpus(monkeypatch):
    gpus = [{"name": "H200", "memory_bytes": 1 << 37, "driver_version": "580"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert doctor._gpu(gpus).state is State.PROBLEM
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert doctor._gpu(gpus).state is State.OK
    assert doctor._gpu([]).state is State.ABSENT


@pytest.mark.parametrize(
    ("newest", "built", "state"),
    [
        ((13, 0), "13.0", State.OK),
        ((13, 1), "12.6", State.OK),
        ((12, 4), "12.6", State.WARNING),
        ((12, 8), "13.0", State.PROBLEM),
        ((12, 8), None, State.OK),
    ],
)
def test_a_driver_older_than_torchs_cuda(newest, built, state):
    (check,) = doctor._driver(newest, built)
    assert check.state is state
    assert bool(check.fix) == (state is not State.OK)


def test_no_driver_is_said_elsewhere():
    assert list(doctor._driver(None, "13.0")) == []
