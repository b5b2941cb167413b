"""When torch's own profiler records a program in place of nsys."""

import os
import sys
from pathlib import Path

import pytest

from nsysprof.app.measuring.capture_program import choose_torch, may_use_torch, starts_python
from nsysprof.app.measuring.program_request import ProgramRequest
from nsysprof.errors import UsageError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")


@pytest.fixture
def no_nsys(monkeypatch):
    monkeypatch.setattr("nsysprof.nsight.run_tool._candidates", lambda _tool: iter(()))
    monkeypatch.delenv("NSYSPROF_NSYS", raising=False)


def request(**fields):
    return ProgramRequest(argv=fields.pop("argv", (sys.executable, "train.py")), **fields)


def test_when_it_is_asked_for_and_when_nsys_is_missing(no_nsys):
    assert choose_torch(request(profiler="torch")) == ""
    assert choose_torch(request()) == "nsys was not found"
    assert choose_torch(request(attention=True)) == "nsys was not found"
    assert choose_torch(request(profiler="nsys")) is None
    assert choose_torch(request(argv=("ls",))) is None, "it is no Python program"
    assert choose_torch(request(memory=True)) is None, "an option that only nsys follows"


def test_with_nsys_it_is_nsys_that_records(monkeypatch):
    monkeypatch.setattr("nsysprof.nsight.run_tool._candidates", lambda _tool: iter([Path(sys.executable)]))
    monkeypatch.delenv("NSYSPROF_NSYS", raising=False)
    assert choose_torch(request()) is None
    assert may_use_torch(request()), "should nsys fail to start"
    assert not may_use_torch(request(profiler="nsys"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"profiler": "ncu"}, "--profiler ncu"),
        ({"steps": 5}, "--profiler torch"),
        ({"profiler": "torch", "per_rank": True}, "--per-rank"),
        ({"profiler": "torch", "nsys_options": ("--sample=none",)}, "--nsys-option"),
        ({"profiler": "torch", "skip_steps": 2}, "--optimizer-steps"),
        ({"profiler": "torch", "steps": 2, "delay_s": 3}, "--delay"),
        ({"profiler": "torch", "forward_steps": 2, "duration_s": 3}, "--duration"),
        ({"profiler": "torch", "forward_steps": 2, "steps": 3}, "different steps"),
        ({"forward_steps": 2}, "--profiler torch"),
    ],
)
def test_what_contradicts(fields, says):
    with pytest.raises(UsageError) as error:
        choose_torch(request(**fields))
    assert says in f"{error.value.text} {error.value.next_step}"


def test_programs_that_are_python(tmp_path, monkeypatch):
    for name, text in (("script", "#!/usr/bin/env python3\n"), ("shell", "#!/bin/sh\n"), ("torchrun", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [starts_python(name) for name in ("script", "shell", "torchrun", "missing")] == [True, False, True, False]
    assert starts_python(sys.executable)


def test_a_capture_that_replaces_an_older_one_names_its_trace_where_it_is_in_the_end(tmp_path, monkeypatch):
    from nsysprof.app.measuring import capture_program as capture_torch
    from nsysprof.app.measuring.program_request import ProgramRequest
    from nsysprof.app.progress import SILENT
    from nsysprof.capture.user_program.program import CapturedProgram

    def record(_request, _plan, folder, _reason, _say):
        (folder / "torch.sqlite").write_text("trace")
        (folder / "manifest.json").write_text("{}")
        return CapturedProgram(None, None, (folder / "torch.sqlite",), None)

    monkeypatch.setattr(capture_torch, "record_with_torch", record)
    request = ProgramRequest(("python3",), out=tmp_path / "out", force=True)
    for _ in range(2):
        captured, _ = capture_torch.capture_with_torch(request, None, "", SILENT)
        assert [path.read_text() for path in captured.traces] == ["trace"]
