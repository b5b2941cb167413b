"""Compose the report of `bench`, which `tune` extends: verdicts, latencies, sweeps, ceilings, and targets to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.files.written_by import VERSION
from nsysprof.notes import Note
from nsysprof.report.document import (
    Code,
    Column,
    Figure,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Unit,
    make_table,
)
from nsysprof.report.pages.analysis import figure_sections
from nsysprof.report.pages.method import facts_table
from nsysprof.report.sections.bench_tables import (
    ceiling_table,
    failure_table,
    latency_table,
    sweep_tables,
    target_table,
    verdict_lines,
)
from nsysprof.units import format_rate

_FACTS = (
    "gpu_name", "gpu_count", "driver_version", "cuda_version", "torch_version", "cudnn_loaded_version",
    "cublas_loaded_version", "tf32_matmul", "device", "cpu_model", "os", "python_version", "git_commit",
    "comparable_hash",
)  # fmt: skip
_ABLATION_ROWS = (
    "median [95 %]", "p (Holm), Cliff's delta", "noise floor of this machine", "FLOP/s by formula, of the ceiling",
    "kernels, DRAM bytes (nsysprof capture, analyze)",
)  # fmt: skip


@dataclass(frozen=True)
class BenchReport:
    """The content of a bench's report.

    table: one row for each case.
    method: one sentence per line.
    command: the command that measured it.
    self_check: the result of measuring each case against itself, one sentence per line.
    extra: a tuner's sections, which follow the verdicts.
    """

    title: str
    table: pd.DataFrame
    floor_pct: float | None
    floor_pairs: int
    ceilings: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: Sequence[Note]
    method: Sequence[str]
    command: str
    self_check: Sequence[str] = ()
    extra: Sequence[Section] = ()


def bench_report(found: BenchReport, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of a bench.

    figures: the figures that were drawn, in order.
    """
    table = found.table
    verdicts = Lines(verdict_lines(table), is_verdict=True, document_lines=30)
    detail: list[Part] = [
        *sweep_tables(table), ceiling_table(table), Paragraph(_ceilings(found.ceilings)),
        target_table(table),
    ]  # fmt: skip
    sections = [
        *found.extra[:1],
        Section("", (verdicts, Lines(tuple(found.self_check)))),
        *found.extra[1:],
        Section("", (latency_table(table), failure_table(table))),
        *figure_sections(figures),
        Section("", tuple(detail), in_terminal=False),
        _ablation(),
        Section("Notes", (Notes(tuple(found.notes)),)),
        Section("Method", (Lines(tuple(found.method)),), in_terminal=False),
        _environment(found),
    ]
    return Report(found.title, tuple(sections))


def _environment(found: BenchReport) -> Section:
    facts = [(name, str(found.environment[name])) for name in _FACTS if found.environment.get(name) is not None]
    table = facts_table("Environment", [("nsysprof", VERSION), *facts])
    return Section("", (table, Paragraph("Measured by"), Code(found.command)), in_terminal=False)


def _ceilings(ceilings: Mapping[str, Any]) -> str:
    flops = ceilings.get("flops") or {}
    parts = [f"{dtype} matrix product {format_rate(rate, 'FLOP/s')}" for dtype, rate in flops.items()]
    if ceilings.get("bytes_per_s"):
        parts.append(f"copy {format_rate(ceilings['bytes_per_s'], 'B/s')} (read and written)")
    return f"Ceilings measured on this device: {', '.join(parts)}." if parts else "No ceiling was measured."


def _ablation() -> Section:
    columns = (Column("number"), Column("baseline"), Column("changed"), Column("ratio", Unit.QUOTIENT))
    rows = [(row, "", "", "") for row in _ABLATION_ROWS]
    parts = (
        Paragraph("Optimisation: NAME"),
        Paragraph("Hypothesis: which limit does it lift, and which number shows that limit?"),
        Paragraph("Change: what differs in the code, and nothing else."),
        make_table("", columns, rows),
        Paragraph("Verdict: faster, slower, a tie or inconclusive, by the rule under Method."),
    )
    return Section("Template for an ablation", parts, in_terminal=False, is_folded=True)
