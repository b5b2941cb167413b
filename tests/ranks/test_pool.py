"""Processes of this machine read traces: what they find, what kills them, and how they end."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsysprof.errors import OutputError, SchedulerError
from nsysprof.ranks.engine import Done, Task, plan_tasks, prepare_parts, run_parallel, run_serially
from nsysprof.ranks.identity import find_sources
from nsysprof.ranks.pool import LocalWorkers
from tests.ranks.deadly import Deadly, Greedy, Slow, deadly_tasks
from tests.ranks.job import slow_in_backward, write_job

TRACES = 12


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(folder, TRACES, slow_in_backward)
    return folder


def plan(job: Path, out: Path) -> list[Task]:
    tasks = plan_tasks(find_sources(sorted(job.iterdir()), None), out)
    prepare_parts(out, tasks, fresh=True)
    return tasks


def run(tasks: list[Task], workers: int, memory_bytes: int | None = None) -> Done:
    with LocalWorkers(workers, memory_bytes) as processes:
        return run_parallel(tasks, processes, lambda _more, _name: None)


def test_workers_find_the_same_to_the_last_bit(job: Path, tmp_path: Path) -> None:
    tasks = plan(job, tmp_path)
    serial = run_serially(tasks, lambda _more, _name: None)
    done = run(plan(job, tmp_path), 2)
    assert done.merged.rows == serial.merged.rows
    for field in dataclasses.fields(serial.merged.durations):
        ours, other = (getattr(each.merged.durations, field.name) for each in (serial, done))
        assert ours == other if isinstance(ours, tuple) else np.array_equal(ours, other), field.name
    assert serial.tasks == done.tasks == {"traces": TRACES, "merges": 2}
    assert done.where == "2 processes of this machine"
    assert len(list((tmp_path / "parts").iterdir())) == TRACES


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_trace_that_kills_its_process_is_a_row_with_a_reason(job: Path, tmp_path: Path, workers: int) -> None:
    done = run(deadly_tasks(job, tmp_path), workers)
    assert [row.is_read for row in done.merged.rows] == [True, True, True, False, True, True]
    assert "died twice" in done.merged.rows[3].reason
    assert done.tasks["traces"] == 6


def test_traces_that_were_read_beside_a_deadly_one_are_innocent(job: Path, tmp_path: Path) -> None:
    """All of the first traces are being read, or wait, when the process of the first one dies."""
    tasks = plan(job, tmp_path)
    tasks[0] = Deadly(tasks[0].source, tasks[0].folder, tasks[0].version, os.getpid())
    done = run(tasks, 4)
    assert [row.is_read for row in done.merged.rows] == [False] + [True] * (TRACES - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are for Linux")
def test_a_trace_that_takes_more_than_the_limit_is_a_row_with_a_reason(job: Path, tmp_path: Path) -> None:
    tasks = plan(job, tmp_path)[:4]
    tasks[1] = Greedy(tasks[1].source, tasks[1].folder, tasks[1].version)
    done = run(tasks, 2, 768 << 20)
    assert [row.is_read for row in done.merged.rows] == [True, False, True, True]
    assert "MemoryError" in done.merged.rows[1].reason
    assert run(tasks, 1, 3 << 30).merged.rows[1].reason == ""


def test_an_error_that_no_trace_causes_ends_the_run(job: Path, tmp_path: Path) -> None:
    tasks = [dataclasses.replace(task, version="9.9.9") for task in plan(job, tmp_path)]
    with pytest.raises(SchedulerError, match=r"needs 9\.9\.9"):
        run(tasks, 2)


def test_a_process_that_cannot_be_started_is_told(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_process: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", refuse)
    with pytest.raises(OutputError, match="cannot be started") as refusal:
        run(plan(job, tmp_path), 2)
    assert "--workers 1" in refusal.value.next_step


def test_an_interrupt_ends_the_workers_in_the_middle(job: Path, tmp_path: Path) -> None:
    def interrupt(_more: int, _name: str) -> None:
        raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    tasks: list[Task] = [Slow(task.source, task.folder, task.version) for task in plan(job, tmp_path)]
    tasks[0] = Task(tasks[0].source, tasks[0].folder, tasks[0].version)
    with pytest.raises(KeyboardInterrupt), LocalWorkers(2) as processes:
        run_parallel(tasks, processes, interrupt)
    assert set(multiprocessing.active_children()) <= before


def test_processes_end_that_were_given_nothing() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), LocalWorkers(2):
        raise KeyboardInterrupt
    assert set(multiprocessing.active_children()) <= before


PROGRAM = """
import sys
from pathlib import Path
import nsysprof
print("the program runs")
nsysprof.analyze(Path(sys.argv[1]), out=Path(sys.argv[2]), workers=2, figures=False)
"""


@pytest.mark.slow  # it starts two interpreters
def test_a_program_without_a_guard_is_run_once(job: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, str(tmp_path / "program.py"), str(job), str(tmp_path / "out")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("the program runs") == 1
    assert (tmp_path / "out/ranks.json").exists()


@pytest.fixture(scope="module")
def long_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("long")
    write_job(folder, 48, slow_in_backward, steps=40)
    yield folder


def start(job: Path, out: Path, workers: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "nsysprof", "analyze", str(job), "--out", str(out), "--no-figures"]
    return subprocess.Popen(
        [*argv, "--workers", str(workers)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(folder: Path, parts: int, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 120
    while len(list((folder / "parts").glob("*.parquet"))) < parts:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("parts", [0, 5])
def test_an_interrupted_run_continues(long_job: Path, tmp_path: Path, workers: int, parts: int) -> None:
    """Interrupt the whole group of processes, as a terminal does: while the workers start, or in the middle."""
    out = tmp_path / "out"
    process = start(long_job, out, workers)
    limit = time.monotonic() + 60
    while not (out / "parts").is_dir():
        assert time.monotonic() < limit
        time.sleep(0.02)
    wait_for(out, parts, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "of 48 traces are done and kept" in err
    assert not (out / "ranks.json").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "parts").glob("*.parquet")}
    assert parts <= len(kept) < 48
    again = start(long_job, out, workers)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert not kept or f"{len(kept)} of 48 traces were already read" in err
    assert {name: (out / "parts" / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.slow
def test_a_killed_run_leaves_no_process(long_job: Path, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    process = start(long_job, tmp_path / "out", 2)
    wait_for(tmp_path / "out", 5, process)
    others = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(others, timeout=60)
    assert not alive
