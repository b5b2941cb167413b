"""Traces are read on a real Dask scheduler with workers in processes of their own, one of them killed halfway."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nsysprof
from nsysprof.errors import SchedulerError
from nsysprof.ranks import dask_cluster
from nsysprof.ranks.dask_cluster import dask_workers
from nsysprof.ranks.engine import Done, Task, run_parallel, run_serially
from tests.ranks.deadly import deadly_tasks
from tests.ranks.job import slow_in_backward, write_job

pytest.importorskip("distributed", reason="needs the extra [ranks]")
ROOT = Path(__file__).parents[3]
TRACES = 48
TABLES = ("kernels_over_ranks.csv", "ranges_over_ranks.csv", "range_kernels_over_ranks.csv", "rank_ranges.csv",
          "api_over_ranks.csv", "memops_over_ranks.csv", "stragglers.csv", "per_rank.csv")  # fmt: skip


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(folder, TRACES, slow_in_backward, steps=40)
    return folder


@pytest.fixture(scope="module")
def serial(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serial") / "out"
    assert finish(start(job, out, "--workers", "1"))[0] == 0
    return out


def start(job: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "nsysprof", "analyze", str(job), "--out", str(out), "--no-figures", *options]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def same_tables(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in TABLES)


def wait_for(folder: Path, parts: int, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 120
    while len(list((folder / "parts").glob("*.parquet"))) < parts:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)


class Cluster:
    """`dask scheduler` and `dask worker` as a user starts them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._run("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file))
        limit = time.monotonic() + 60
        while not (self.file.exists() and self.file.read_text().rstrip().endswith("}")):  # it is not written at once
            assert time.monotonic() < limit
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]

    def worker(self, python_path: Path = ROOT, nanny: str = "--no-nanny") -> subprocess.Popen[bytes]:
        return self._run("worker", self.address, "--nthreads", "1", nanny, "--no-dashboard", path=python_path)

    def _run(self, *arguments: str, path: Path = ROOT) -> subprocess.Popen[bytes]:
        failures = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        environment = {**os.environ, **failures, "PYTHONPATH": str(path)}
        argv = [sys.executable, "-m", "dask", *arguments]
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment, cwd=self.folder)
        self.processes.append(process)
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    for process in cluster.processes:
        process.kill()
        process.wait(timeout=30)


@pytest.mark.slow
def test_a_worker_killed_halfway_changes_no_number(job: Path, serial: Path, cluster: Cluster, tmp_path: Path) -> None:
    first, _ = cluster.worker(), cluster.worker()
    out = tmp_path / "out"
    process = start(job, out, "--scheduler", cluster.address)
    wait_for(out, 10, process)
    assert len(list((out / "parts").glob("*.parquet"))) < TRACES
    first.kill()
    code, said, err = finish(process)
    assert code == 0, err
    assert "Rank 2 is a straggler" in said
    assert same_tables(out, serial)
    engine = json.loads((out / "ranks.json").read_text())["engine"]
    assert engine["ran on"] == f"Dask at {cluster.address}"
    assert engine["traces"] == TRACES


@pytest.mark.slow
def test_a_worker_with_other_code_is_refused(job: Path, cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(nsysprof.__file__).parent, other / "nsysprof", ignore=shutil.ignore_patterns("__pycache__"))
    package = other / "nsysprof" / "__init__.py"
    package.write_text(package.read_text().replace(f'"{nsysprof.__version__}"', '"9.9.9"'))
    cluster.worker(other)
    code, _, err = finish(start(job, tmp_path / "out", "--scheduler", cluster.address))
    assert code == 16
    assert "run a different version" in err
    assert "9.9.9" in err


@pytest.mark.slow
def test_a_scheduler_without_workers_is_told(job: Path, cluster: Cluster, tmp_path: Path) -> None:
    code, _, err = finish(start(job, tmp_path / "out", "--scheduler", cluster.address))
    assert code == 16
    assert "has no workers" in err


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "nonsense://x", "tcp://no.such.host.invalid:8786", "", "tcp://"]
)
def test_an_address_without_a_scheduler_is_told(job: Path, tmp_path: Path, address: str) -> None:
    code, _, err = finish(start(job, tmp_path / "out", "--scheduler", address))
    assert code == 16
    assert "cannot be reached" in err
    assert "dask scheduler" in err


def run_on_dask(tasks: list[Task], scheduler: str) -> Done:
    with dask_workers(scheduler) as workers:
        return run_parallel(tasks, workers, lambda _more, _name: None)


@pytest.mark.slow
def test_a_trace_that_kills_its_dask_workers_is_a_row_with_a_reason(
    job: Path, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.worker(nanny="--nanny")
    cluster.worker(nanny="--nanny")
    tasks = deadly_tasks(job, tmp_path / "out")
    done = run_on_dask(tasks, cluster.address)
    assert [row.is_read for row in done.merged.rows] == [True, True, True, False, True, True]
    assert "died twice" in done.merged.rows[3].reason
    innocent = run_serially([task for task in tasks if task is not tasks[3]], lambda _more, _name: None).merged
    assert np.array_equal(done.merged.durations.times, innocent.durations.times)
    assert np.array_equal(done.merged.durations.values, innocent.durations.values)


@pytest.mark.slow
def test_nobody_waits_forever_once_all_workers_are_gone(
    job: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsysprof.ranks.engine._LOOK_S", 0.2)
    monkeypatch.setattr(dask_cluster, "_ALONE_S", 1.0)
    cluster.worker()
    with pytest.raises(SchedulerError, match="All workers of the Dask scheduler are gone"):
        run_on_dask(deadly_tasks(job, tmp_path / "out"), cluster.address)
