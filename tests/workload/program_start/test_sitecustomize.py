"""A captured program records torch's allocator without knowing it; one without CUDA, or with faults, runs on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsysprof.capture.user_program.program_hook import collect_recorded, find_recorded, hook_environment
from nsysprof.torchprof.allocator_history import read_plain_pickle

TORCH = """
class _C:
    def _cuda_attach_out_of_memory_observer(observer): cuda.observer = observer
class cuda:
    queued = []
    def _lazy_call(call): cuda.queued.append(call)
    def init(): [call() for call in cuda.queued]
    class memory:
        def _record_memory_history(**options):
            print("recording", options["stacks"], options["max_entries"] > 0)
            FAULT
        def _snapshot(): return {"segments": [], "device_traces": []}
"""


def run(folder: Path, program: str, fault: str = "", more: dict[str, str] | None = None) -> tuple[str, str, list[Path]]:
    (folder / "lib").mkdir()
    (folder / "lib/torch.py").write_text(TORCH.replace("FAULT", fault))
    (folder / "lib/sitecustomize.py").write_text("print('own sitecustomize')")
    (folder / "program.py").write_text(program)
    report = folder / "nsys.nsys-rep"
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "lib"), **(more or {})}
    environment = base | hook_environment(report, base, ("memory",))
    done = subprocess.run(
        [sys.executable, str(folder / "program.py")], env=environment, capture_output=True, text=True, check=True
    )
    collect_recorded(report, ("memory",))
    return done.stdout, done.stderr, list(find_recorded(folder, "memory").values())


def test_a_snapshot_is_written_where_cuda_was_used(tmp_path: Path) -> None:
    program = """
import importlib.util, os, sys
importlib.util.find_spec("torch")  # to ask is no import
import torch
print("torch before cuda")
torch.cuda.init()
print(any("program_start" in path for path in sys.path))
if os.fork() == 0:
    sys.exit()
os.wait()
"""
    out, err, (snapshot,) = run(tmp_path, program)
    assert out.splitlines()[:4] == ["own sitecustomize", "torch before cuda", "recording python True", "False"]
    assert err == ""
    assert read_plain_pickle(snapshot) == {"segments": [], "device_traces": []}


@pytest.mark.parametrize(
    ("program", "fault", "said"),
    [
        ("import json; print('fine')", "", ""),
        ("import torch; print('fine')", "", ""),
        ("import torch; torch.cuda.init(); print('fine')", "raise RuntimeError('old torch')", "old torch"),
        ("import torch; torch.cuda.init(); torch.cuda.memory._snapshot = None; print('fine')", "", "not recorded"),
        ("try:\n    import torch.nothing\nexcept ImportError:\n    print('fine')", "", ""),
    ],
)
def test_programs_run_on_without_a_snapshot(tmp_path: Path, program: str, fault: str, said: str) -> None:
    out, err, snapshots = run(tmp_path, program, fault)
    assert out.splitlines()[-1] == "fine"
    assert said in err
    assert (err == "") == (said == "")
    assert snapshots == []


def test_a_program_without_torch_or_sitecustomize_of_its_own(tmp_path: Path) -> None:
    report = tmp_path / "nsys.nsys-rep"
    environment = {"PATH": os.environ["PATH"]}
    environment |= hook_environment(report, environment, ("memory", "stacks"))
    code = "import importlib.util, sys; print('sitecustomize' in sys.modules, importlib.util.find_spec('notorch'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True None\n", "")
    notes = collect_recorded(report, ("memory", "stacks"))
    assert [note.code for note in notes] == ["no-memory-snapshot", "no-stacks"]
    assert sorted(tmp_path.iterdir()) == []
