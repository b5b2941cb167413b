"""Measure cases one by one in the measured process, and report the result of each.

Run as `python -m nsysprof.workload.worker JOB.json 3,4,5`. A fault that leaves the process usable (out of memory, an
ineligible backend) fails only its case. After any other fault (an illegal address breaks the CUDA context) the process
ends with REPLACE_ME, and the supervisor starts another one for the remaining cases.
"""

from __future__ import annotations

import gc
import math
import sqlite3
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from nsysprof.attention.backend_limits import is_lossy
from nsysprof.attention.range_name import format_range
from nsysprof.attention.shape import Case
from nsysprof.workload.job import REPLACE_ME, TIMED, TRACED, Job, append_event
from nsysprof.workload.loaded_libraries import collect_torch
from nsysprof.workload.measuring.ceilings import measure_ceilings
from nsysprof.workload.measuring.measure import check_case, measure_block, run_traced
from nsysprof.workload.measuring.memory import release_memory
from nsysprof.workload.recording.nvtx_ranges import annotate
from nsysprof.workload.recording.torch_trace import TorchTrace
from nsysprof.workload.refusal import IneligibleError, UnusableBackendError, WrongResultError


def main(arguments: list[str]) -> int:
    job = Job.read(Path(arguments[0]))
    indices = [int(part) for part in arguments[1].split(",")]
    warnings.simplefilter("ignore")  # torch's warnings are collected as reasons where they matter
    append_event(job.events_path, "environment", facts=collect_torch(job.device))
    gc.collect()
    gc.freeze()  # what imports left lives on; without it, freeing memory before each block takes a tenth of a second
    if job.ceilings:
        _measure_ceilings(job)
    try:
        recorder = _Recorder(job)
    except (sqlite3.Error, OSError) as error:  # without room for the trace, no case can be recorded
        for index in indices:
            append_event(job.events_path, "done", case=index, **_failed("error", error, named=True))
        return 0
    failed: set[Case] = set()
    checks: dict[Case, Any] = {}
    seen: set[Case] = set()
    try:
        for index in indices:
            if job.is_stopped():
                break
            if job.cases[index] in failed:  # a later block of a failed case would fail as well
                append_event(job.events_path, "done", case=index, status="skipped", reason="")
                continue
            append_event(job.events_path, "start", case=index)
            outcome, poisoned = _measure(job, job.cases[index], recorder, checks, first=job.cases[index] not in seen)
            seen.add(job.cases[index])
            append_event(job.events_path, "done", case=index, **outcome)
            if outcome["status"] != "ok":
                failed.add(job.cases[index])
            if poisoned:
                return REPLACE_ME
    finally:
        recorder.close()
    return 0


def _measure_ceilings(job: Job) -> None:
    """Append the device's ceilings as an event, or the reason where they do not fit into its memory."""
    try:
        append_event(job.events_path, "ceilings", **measure_ceilings(job.device, list(job.ceilings)))
    except (RuntimeError, MemoryError) as error:
        append_event(job.events_path, "ceilings", reason=str(error).partition("\n")[0][:200])


class _Recorder:
    """Records cases under one profiler: in NVTX ranges for nsys and ncu, else in sessions of torch.profiler."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trace: Any = None
        if job.pass_name == TRACED and job.profiler == "torch":
            self._trace = TorchTrace(job.torch_trace_path, time.time_ns(), job.device)

    def run(self, case: Case) -> dict[str, Any]:
        """Record one case; return the number of calls inside its range, and how long others took that were timed."""
        name = format_range(case, self._job.range_keys)
        mark = annotate(name) if self._trace is None else self._trace.annotate(name)
        release_memory()
        with nullcontext() if self._trace is None else self._trace.record():
            try:
                block = run_traced(case, self._job, mark)
                return {"calls": block.calls, "traced_ns": block.values_ns}
            finally:
                release_memory()  # inside the session, so that the frees are recorded too

    def close(self) -> None:
        if self._trace is not None:
            self._trace.close()


def _measure(
    job: Job, case: Case, recorder: _Recorder, checks: dict[Case, Any], *, first: bool
) -> tuple[dict[str, Any], bool]:
    """Return the report on one case, and whether this process can no longer be used."""
    try:
        return {"status": "ok", "reason": "", **_run_case(job, case, recorder, checks, first=first)}, False
    except Exception as error:  # noqa: BLE001 - the user's own kernel may raise anything; it must cost one case
        poisoned = any(words in _words(error) for words in ("CUDA error", "Triton Error [CUDA]"))
        return _judge(error), job.device == "cuda" and poisoned


def _run_case(job: Job, case: Case, recorder: _Recorder, checks: dict[Case, Any], *, first: bool) -> dict[str, Any]:
    """Return what the pass measures for one case.

    checks: the results of this process' comparisons so far.
    first: whether this is the case's first block in this process.
    """
    if job.pass_name != TIMED:
        return recorder.run(case)
    if job.check and case not in checks:
        checks[case] = check_case(case, job.device, job.allow_error)
    errors = checks[case]["errors"] if case in checks else {}
    finite = {name: error for name, error in errors.items() if math.isfinite(error)}  # infinite relative to zero
    is_approximate = is_lossy(case.backend) or (case in checks and checks[case]["approximate"])
    measured = measure_block(case, job, first=first)
    return {"measured": {**measured, "errors": finite, "approximate": is_approximate}}


def _judge(error: Exception) -> dict[str, Any]:
    for kind, status in ((IneligibleError, "ineligible"), (WrongResultError, "wrong"), (UnusableBackendError, "error")):
        if isinstance(error, kind):
            return _failed(status, error)
    words = _words(error)
    starved = "can't allocate memory" in words or "not enough memory" in words
    if starved or isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return _failed("out_of_memory", error)
    return _failed("error", error, named=True)


def _failed(status: str, error: BaseException, *, named: bool = False) -> dict[str, Any]:
    """Return the outcome of a failed case. named: whether the reason begins with the type of the error."""
    first = next((line.strip() for line in _words(error).splitlines() if line.strip()), "")
    text = f"{type(error).__name__}: {first}" if named else first
    return {"status": status, "reason": text[:500]}


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error class of the user's own
        return "an error without a text"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
