"""Collect the result of each case of a capture in its passes, and make the rows of results.csv."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysprof.attention.shape import row_of_case
from nsysprof.capture.plan import CapturePlan
from nsysprof.errors import TraceError
from nsysprof.files.plain_file import write_whole
from nsysprof.results.column_registry.case_columns import COUNTERS as COUNTERS_FILE
from nsysprof.results.column_registry.csv_table import format_cell
from nsysprof.results.kernel_counters import COUNTED_COLUMNS, CountedKernel, Run
from nsysprof.results.samples import OK, Block, named_times, stalls, steady_samples, time_intervals
from nsysprof.workload.job import TRACED

NOT_RUN = "not_run"


@dataclass
class CaseOutcome:
    """The result of one case in each pass."""

    # The result of the untraced pass; None before that pass has run.
    block: Block | None = None
    traced: str = NOT_RUN
    traced_reason: str = ""
    # How many calls are inside its range in the traced pass.
    calls: int | None = None
    # How long single calls took under the profiler (ns), where they were timed.
    traced_ns: tuple[int, ...] = ()
    counted: str = NOT_RUN
    counted_reason: str = ""

    @property
    def status(self) -> str:
        """Return the status of the untraced pass."""
        return NOT_RUN if self.block is None else self.block.status

    @property
    def reason(self) -> str:
        return "" if self.block is None else self.block.reason


@dataclass
class CaseProgress:
    """The state of a capture, updated with blocks and events as they arrive."""

    plan: CapturePlan
    outcomes: list[CaseOutcome] = field(default_factory=list)
    # The case that is being measured now.
    current: int | None = None

    def __post_init__(self) -> None:
        self.outcomes = [CaseOutcome() for _ in self.plan.cases]

    def take(self, event: dict[str, Any], pass_name: str) -> None:
        """Add an event of the traced or the counted pass."""
        kind = event["event"]
        if kind == "start":
            self.current = event["case"]
        elif kind == "done" and event["status"] != "skipped":
            outcome = self.outcomes[event["case"]]
            self.current = None
            if pass_name == TRACED:
                outcome.traced, outcome.traced_reason = event["status"], event["reason"]
                outcome.calls = event.get("calls", self.plan.traced_calls)
                outcome.traced_ns = tuple(event.get("traced_ns", ()))
            else:
                outcome.counted, outcome.counted_reason = event["status"], event["reason"]


def result_rows(progress: CaseProgress) -> list[dict[str, Any]]:
    """Return one row per case for results.csv, with what the untraced pass measured; the trace fills in the rest."""
    rows = []
    blocks = [outcome.block or Block(0, 0, 0, NOT_RUN) for outcome in progress.outcomes]
    latencies = latency_cells([block.values_ns if block.status == OK else () for block in blocks])
    for case, outcome, block, cells in zip(progress.plan.cases, progress.outcomes, blocks, latencies, strict=True):
        reason = outcome.reason
        if outcome.status == OK and progress.plan.profiler != "none" and outcome.traced not in (OK, NOT_RUN):
            reason = f"measured, but its traced run failed ({outcome.traced}): {outcome.traced_reason}"
        rows.append(
            {
                "range": progress.plan.range_of(case),
                **row_of_case(case),
                "status": outcome.status,
                "reason": reason,
                **cells,
                "input_bytes": block.input_bytes,
                "peak_allocated_bytes": block.peak_bytes,
                "peak_reserved_bytes": block.peak_reserved_bytes,
                "peak_beyond_inputs_bytes": block.peak_beyond_inputs_bytes,
                "traced_calls": outcome.calls if outcome.traced == OK else None,
                **_by_name(block, flush=progress.plan.untraced.flush),
            }
        )
    return rows


def latency_cells(cases: Sequence[Sequence[int]]) -> list[dict[str, int | None]]:
    """Return the median of the samples (ns) of each case of a process and its interval, by the names of their columns.

    Stalls only add time: how far below the median the own time of a case that stalls lies is unknown.
    """
    return [
        {
            "samples": len(values),
            "latency_median_ns": round(statistics.median(values)) if values else None,
            "latency_ci_low_ns": None if bounds is None or stalls(values) else bounds[0],
            "latency_ci_high_ns": None if bounds is None else bounds[1],
        }
        for values, bounds in zip(cases, time_intervals(cases), strict=True)
    ]


def _by_name(block: Block, *, flush: bool) -> dict[str, Any]:
    """Return the columns for times that have the same names in a bench."""
    if block.status != OK:
        return {}
    graph = statistics.median(steady_samples(block.graph_ns)) if block.graph_ns else None
    return {**named_times([block], flush=flush), "graph_median_ns": graph, "graph_reason": block.graph_reason}


COUNTERS = COUNTERS_FILE.name
_FIXED = tuple(name for name in COUNTERS_FILE.names if name not in COUNTED_COLUMNS)
_OPTIONAL = {"kernel", "name", "symbol"}  # a bundle only has the first of these


def write_counters(folder: Path, kernels: Sequence[CountedKernel]) -> Path:
    """Write counters.csv, with one row per launch and run, and return its path. Unknown values are empty."""
    more = list(dict.fromkeys(name for kernel in kernels for name in kernel.more))
    columns = list(COUNTED_COLUMNS)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIXED, *columns, *more])
    for kernel in kernels:
        fixed = [getattr(kernel, name) for name in _FIXED]
        values = [*(kernel.values[column] for column in columns), *(kernel.more.get(name) for name in more)]
        writer.writerow([format_cell(cell) for cell in (*fixed, *values)])
    return write_whole(folder / COUNTERS, text.getvalue().encode("utf-8", "replace"))


def read_counters(path: Path) -> list[CountedKernel]:
    """Return the content of counters.csv. Raises TraceError for a damaged file, or one of another program."""
    columns = list(COUNTED_COLUMNS)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            header = list(reader.fieldnames or ())
            missing = [
                name for name in _FIXED if name not in header and name not in _OPTIONAL
            ]  # the set of counters changes with versions
            if missing:
                raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof.")
            more = [name for name in header if name not in _FIXED and name not in columns]
            return [_read(row, columns, more) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or delete the file.") from error


def _read(row: dict[str, Any], columns: list[str], more: list[str]) -> CountedKernel:
    extra = {name: value for name in more if (value := _number(row[name])) is not None}
    passes = _number(row["passes"])
    return CountedKernel(
        run=Run(row["run"]),
        range=row["range"],
        position=int(row["position"]),
        passes=None if passes is None else int(passes),
        values={column: _number(row.get(column, "")) for column in columns},
        more=extra,
        **{name: row.get(name) or "" for name in ("kernel", "name", "symbol", "grid", "block", "gpu")},
    )


def _number(cell: str | None) -> float | None:
    if cell is None:
        raise ValueError("a row is cut off")
    if cell == "":
        return None
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell} is not a measurement")
    return value
