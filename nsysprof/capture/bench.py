"""Run a BenchPlan: one process after the other; every finished block is on disk within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nsysprof import __version__
from nsysprof.block import OK, Block
from nsysprof.capture.bench_plan import BenchPlan, order_blocks
from nsysprof.capture.collect import HARMLESS_CLOCK_REASONS, summarize_clocks
from nsysprof.capture.passes import finish_or_kill
from nsysprof.environment import collect_gpus, collect_host, comparable_hash
from nsysprof.errors import OutputError, TraceError
from nsysprof.job import EventReader, Job
from nsysprof.output import output_error, write_whole

# History of samples.json of a bench. 1: first.
FORMAT_VERSION = 1
SAMPLES, LOGS, WORK = "samples.json", "logs", ".work"
_OURS = (
    SAMPLES,
    "results.csv",
    "report.md",
    "latency.png",
    "throughput.png",
    "scaling.png",
    "winners.png",
    "winners.csv",
    "results.json",
    "policy.json",
)
_POLL_S = 0.1
_SAVE_EVERY_S = 2.0
# What makes a case fail alike in every process; a crash or a hang may be a matter of luck, and gets a second chance.
_FOR_GOOD = frozenset({"ineligible", "wrong", "out_of_memory"})
_CHANCES = 2


@dataclass
class BenchRun:
    """What was measured so far; the same object is on disk as samples.json.

    ceilings: bytes_per_s, and flops (FLOP/s by dtype), measured on this device. clocks: samples of NVML.
    """

    plan: BenchPlan
    created_utc: str
    blocks: list[Block] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    ceilings: dict[str, Any] = field(default_factory=dict)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "bench"
    complete: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "nsysprof_version": __version__,
            "kind": self.kind,
            "created_utc": self.created_utc,
            "complete": self.complete,
            "plan": self.plan.to_json(),
            "environment": self.environment,
            "ceilings": self.ceilings,
            "blocks": [block.to_json() for block in self.blocks],
            "clocks": self.clocks,
        }

    def save(self, folder: Path) -> None:
        """Raises OutputError; what was there before stays whole."""
        text = json.dumps(self.to_json(), separators=(",", ":")).replace('},{"', '},\n{"')
        write_whole(folder / SAMPLES, (text + "\n").encode())


def new_run(plan: BenchPlan, kind: str = "bench") -> BenchRun:
    return BenchRun(plan, datetime.now(UTC).isoformat(timespec="seconds"), kind=kind)


def read_run(path: Path) -> BenchRun:
    """A bench's samples.json. Raises TraceError when it is missing, not ours or of a newer format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format_version"] > FORMAT_VERSION:
            raise TraceError(
                f"{path} was written by a newer nsysprof ({data['nsysprof_version']}).", "Update nsysprof."
            )
        return BenchRun(
            plan=BenchPlan.from_json(data["plan"]),
            created_utc=data["created_utc"],
            blocks=[Block.from_json(block) for block in data["blocks"]],
            environment=data["environment"],
            ceilings=data["ceilings"],
            clocks=data["clocks"],
            kind=data["kind"],
            complete=data["complete"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"{path} is not a bench's samples: {error}.", "Give the folder that bench wrote.") from error


def prepare_bench_folder(folder: Path, *, force: bool, keep: bool = False) -> None:
    """Make `folder` ready. Raises OutputError when it is taken or cannot be written.

    force: replace an older bench; keep: go on with it. A folder of anything else is never touched.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / SAMPLES).exists() or (folder / "manifest.json").exists():
                raise OutputError(f"{folder} exists and is not a bench of ours.", "Choose another folder with --out.")
            if not force and not keep:
                raise OutputError(f"{folder} already holds a bench.", "Give --force to replace it, or another --out.")
            for name in () if keep else _OURS:
                (folder / name).unlink(missing_ok=True)
            for log in () if keep else (folder / LOGS).glob("process-*.log"):
                log.unlink()
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
        (folder / WORK).mkdir(exist_ok=True)
        for stale in (folder / WORK).iterdir():
            stale.unlink()
        probe = folder / WORK / "probe"
        probe.write_bytes(b"\0" * 65536)  # a full disk shows here, before an hour of measuring
        probe.unlink()
    except OSError as error:
        raise output_error(folder, error) from error


OnBlock = Callable[[BenchRun, int, int | None], None]


def run_bench(run: BenchRun, folder: Path, on_block: OnBlock) -> bool:
    """Measure all of the plan into the prepared `folder`; False when Ctrl-C ended it early.

    on_block: told after each block the run, how many blocks are left in all, and the cell in work.
    """
    plan = run.plan
    cells = list(range(len(plan.cells)))
    try:
        for process in range(plan.processes):
            order = order_blocks(cells, plan.rounds, plan.seed, process, hopeless_cells(run))
            later = (plan.processes - process - 1) * plan.rounds * len(cells)
            if not run_process(run, folder, process, order, later, on_block):
                break
        else:
            run.complete = True
    except KeyboardInterrupt:  # between two processes
        pass
    run.save(folder)
    return run.complete


def hopeless_cells(run: BenchRun) -> set[int]:
    """Cells that are not tried again: refused or wrong once, or failed otherwise in two processes."""
    failures: dict[int, set[int]] = {}
    for block in run.blocks:
        if block.status != OK:
            failures.setdefault(block.cell, set()).add(block.process)
    for_good = {block.cell for block in run.blocks if block.status in _FOR_GOOD}
    return for_good | {cell for cell, processes in failures.items() if len(processes) >= _CHANCES}


def run_process(
    run: BenchRun,
    folder: Path,
    process: int,
    order: list[int],
    later: int,
    on_block: OnBlock,
    deadline: float = float("inf"),
) -> bool:
    """One process over the cells in `order`. later: blocks that come after it. False when Ctrl-C ended it.

    deadline: of time.monotonic(); the process ends then with what it has.
    """
    if not order:
        return True
    job = _write_job(run, folder, process, order)
    reader, seen = EventReader(job.events_path), _Seen(run, process, order)
    argv = [sys.executable, "-m", "nsysprof.workload.supervise", str(_job_path(folder, process))]
    saved = time.monotonic()
    with (folder / LOGS / f"process-{process}.log").open("wb") as log:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while child.poll() is None:
                if seen.take(reader) and time.monotonic() > saved + _SAVE_EVERY_S:
                    run.save(folder)
                    saved = time.monotonic()
                on_block(run, seen.left + later, seen.current)
                if time.monotonic() > deadline:
                    Path(job.stop_path).touch()
                time.sleep(_POLL_S)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
            Path(job.stop_path).touch()
            finish_or_kill(child)
        seen.take(reader)
    _mark_throttled(run, process)
    run.environment["clocks"] = summarize_clocks([{**clock, "pass": "timed"} for clock in run.clocks])
    run.save(folder)
    on_block(run, seen.left + later, None)
    return not interrupted


class _Seen:
    """Turns the events of one process into blocks of the run."""

    def __init__(self, run: BenchRun, process: int, order: list[int]) -> None:
        self._run, self._process, self._order = run, process, order
        self.left = len(order)
        self.current: int | None = None

    def take(self, reader: EventReader) -> bool:
        """Whether anything new was there."""
        events = reader.read()
        for event in events:
            kind = event.pop("event")
            if kind == "environment":
                self._take_environment(event["facts"])
            elif kind == "ceilings":
                self._run.ceilings = event
            elif kind == "clocks":
                self._run.clocks.append({**event, "process": self._process})
            elif kind == "start":
                self.current = self._order[event["case"]]
            elif kind == "done":
                self._finish(event)
        return bool(events)

    def _finish(self, event: dict[str, Any]) -> None:
        self.left -= 1
        self.current = None
        position = event["case"]
        cell = self._order[position]
        if event["status"] == "skipped":
            return
        measured = dict(event.get("measured") or {})
        checked = measured.pop("check", None)
        if checked is not None:
            measured["errors"] = checked["errors"]
        earlier = self._order[:position].count(cell)
        self._run.blocks.append(
            Block.from_json(
                {"cell": cell, "process": self._process, "round": earlier, "status": event["status"]}
                | {"reason": event["reason"], **measured}
            )
        )

    def _take_environment(self, facts: dict[str, Any]) -> None:
        gpus, facts = collect_gpus(), dict(facts)
        uuid = facts.pop("gpu_uuid", None)
        mine = next((gpu for gpu in gpus if gpu["uuid"] == uuid), gpus[0] if gpus else None)
        environment = {
            **collect_host(),
            **facts,
            "gpu_count": len(gpus),
            "driver_version": mine["driver_version"] if mine else None,
            "nsys_version": None,
        }
        environment["comparable_hash"] = comparable_hash(environment)
        self._run.environment.update(environment)


def _job_path(folder: Path, process: int) -> Path:
    return folder.resolve() / WORK / f"process-{process}.json"


def _write_job(run: BenchRun, folder: Path, process: int, order: list[int]) -> Job:
    plan, work = run.plan, folder.resolve() / WORK
    cells = plan.cells
    job = Job(
        cases=tuple(cells[cell] for cell in order),
        range_keys=(),
        pass_name="bench",
        profiler="none",
        device=plan.device,
        samples=plan.samples,
        sample_seconds=plan.sample_seconds,
        warmup=0,
        traced_calls=0,
        case_timeout_s=plan.case_timeout_s,
        events_path=str(work / f"process-{process}.events"),
        stop_path=str(work / "stop"),
        torch_trace_path="",
        parent_pid=os.getpid(),
        flush=plan.flush,
        graph=plan.graph,
        warmup_seconds=plan.warmup_seconds,
        ceilings=tuple(dict.fromkeys(case.dtype for case in plan.cases)) if not run.ceilings else (),
        check=plan.check and not any(block.process < process for block in run.blocks),
    )
    job.write(_job_path(folder, process))
    return job


def _mark_throttled(run: BenchRun, process: int) -> None:
    """Marks the samples of a process that lie beside a reading of the clocks which names a throttle."""
    clocks = sorted((c for c in run.clocks if c["process"] == process), key=lambda clock: clock["time_ns"])
    times = [clock["time_ns"] for clock in clocks]
    bad = [bool(set(clock["throttle_reasons"]) - HARMLESS_CLOCK_REASONS) for clock in clocks]
    if not any(bad):
        return
    for index, block in enumerate(run.blocks):
        if block.process == process and block.status == OK:
            marked = tuple(i for i, at in enumerate(block.offsets_ns) if _is_bad(block.started_ns + at, times, bad))
            run.blocks[index] = replace(block, throttled=marked)


def _is_bad(at_ns: int, times: list[int], bad: list[bool]) -> bool:
    """Whether the reading before or after a moment names a throttle."""
    after = bisect_right(times, at_ns)
    return any(bad[index] for index in (after - 1, after) if 0 <= index < len(bad))
