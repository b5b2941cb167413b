import contextlib
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nsysprof.app.measuring import capture_program as module
from nsysprof.app.measuring.capture_program import split_capture
from nsysprof.app.progress import Progress
from nsysprof.results.checks import CudaProcess
from tests.builders.build_trace import OTHER_PID, TraceBuilder


class Told(Progress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def tell(self, text: str) -> None:
        self.said.append(text)


SEEN = (CudaProcess(100, "pt_main_thread", command=("/usr/bin/python3", "-u", "train.py", "--lr", "1")),)


@pytest.fixture
def capture(tmp_path):
    """`capture(two)`: a finished capture of one process with three kernels, or of two with three and one."""

    def make(two: bool) -> Any:
        builder = TraceBuilder()
        for number in range(1, 4):
            builder.launch(1000 * number, number)
        if two:
            builder.call(9000, 9010, 1, tid=OTHER_PID | 1)
            builder.kernel(9100, 9200, 1, pid=OTHER_PID)
        builder.range(1, 9, "http", tid=(1 << 48) | (300 << 24) | 1)  # a process without work on a GPU
        return SimpleNamespace(traces=(builder.write(tmp_path / "nsys.sqlite"),), failure=None, processes=SEEN)

    return make


def split(captured: Any, folder: Path) -> list[str]:
    told = Told()
    split_capture(captured, folder, told)
    return told.said


def kernels(trace: Path) -> int:
    with contextlib.closing(sqlite3.connect(trace)) as database:
        return int(database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])


def test_each_process_with_gpu_work_has_a_trace_that_is_named_after_it(capture, tmp_path):
    assert split(capture(True), tmp_path) == ["each of 2 processes has a trace of its own in processes/"]
    found = {path.name: kernels(path) for path in (tmp_path / "processes").iterdir()}
    assert found == {"train.py-100.sqlite": 3, "process-200.sqlite": 1}
    assert kernels(tmp_path / "nsys.sqlite") == 4


def test_one_process_needs_no_second_trace(capture, tmp_path):
    assert split(capture(False), tmp_path) == []
    assert not (tmp_path / "processes").exists()


def test_a_trace_that_is_too_large_to_copy_stays_whole(capture, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_COPIED_BYTES", 1)
    (said,) = split(capture(True), tmp_path)
    assert "too large to be split" in said
    assert not (tmp_path / "processes").exists()


def test_a_folder_that_cannot_be_written_leaves_the_capture_whole(capture, tmp_path):
    captured = capture(True)
    (tmp_path / "processes").touch()
    (said,) = split(captured, tmp_path)
    assert said.startswith("no trace for each process:")
    assert kernels(tmp_path / "nsys.sqlite") == 4
