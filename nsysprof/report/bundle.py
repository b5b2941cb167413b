"""The Markdown to paste where a bundle is attached: what it is, what it shows, and how to check that."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from nsysprof import __version__
from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.notes import Note
from nsysprof.rank_results import RanksAnalysis
from nsysprof.report.bench_tables import latency_table
from nsysprof.report.bench_tables import verdict_lines as bench_verdict_lines
from nsysprof.report.escape import clean, escape_markdown
from nsysprof.report.markdown import render_table
from nsysprof.report.method import coverage_line
from nsysprof.report.ranks_tables import headline, rank_table, straggler_table
from nsysprof.report.ranks_tables import kernel_table as ranks_kernel_table
from nsysprof.report.ranks_tables import range_table as ranks_range_table
from nsysprof.report.tables import Table, case_table, kernel_table, range_table
from nsysprof.report.verdict import verdict_lines
from nsysprof.report.words import KERNELS, OPERATORS, words_for
from nsysprof.units import format_bytes

_MOST_ROWS, _MOST_LINES, _NOTE = 25, 20, 400
_FACTS = (
    ("gpu_name", "GPU"), ("driver_version", "driver"), ("cuda_version", "CUDA"), ("torch_version", "torch"),
    ("cudnn_loaded_version", "cuDNN"), ("nsys_version", "nsys"), ("cpu_model", "CPU"), ("os", "OS"),
)  # fmt: skip


@dataclass(frozen=True)
class Shared:
    """The archive. left_out: what is not in it, and why. named: whether names are as they were."""

    file: str
    bytes: int
    sha256: str
    title: str
    has_trace: bool
    named: bool
    left_out: Sequence[tuple[str, str]] = ()


def render_bundle(
    shared: Shared,
    analysis: Analysis | None,
    record: CaptureRecord | None,
    bench: pd.DataFrame | None = None,
    environment: Mapping[str, Any] | None = None,
    bench_notes: Sequence[Note] = (),
    ranks: RanksAnalysis | None = None,
) -> str:
    """Markdown for an issue, well below GitHub's 65,536 characters."""
    parts = [f"### {escape_markdown(shared.title)}", "", *_facts(analysis, record, environment, ranks), ""]
    if ranks is not None:
        parts += _lines(headline(ranks))
        tables = straggler_table(ranks), rank_table(ranks), ranks_range_table(ranks), ranks_kernel_table(ranks, 8)
        parts += [line for table in tables if table.rows for line in _table(table)]
    if bench is not None:
        parts += _lines(bench_verdict_lines(bench)) + _table(latency_table(bench, short=True))
    if record is not None and record.has_cases:
        cpu = record.environment.get("device") == "cpu"
        words = words_for(analysis.trace) if analysis else OPERATORS if cpu else KERNELS
        parts += _lines(verdict_lines(record)) + _table(case_table(record, words))
    elif analysis is not None:
        parts += _table(range_table(analysis, _MOST_ROWS)) if len(analysis.ranges) else []
        parts += _table(kernel_table(analysis, 8)) if len(analysis.kernels) else []
    if analysis is not None:
        parts += [coverage_line(analysis), ""]
    found = (record, analysis, ranks)
    notes = [*(note for each in found if each is not None for note in each.notes), *bench_notes]
    for note in notes[:_MOST_LINES]:
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(clean(note.text, _NOTE))}")
    return "\n".join([*parts, "", *_archive(shared)]) + "\n"


def _facts(
    analysis: Analysis | None,
    record: CaptureRecord | None,
    environment: Mapping[str, Any] | None,
    ranks: RanksAnalysis | None,
) -> list[str]:
    """One line of what it was measured on."""
    facts = dict(environment or (record.environment if record else {}))
    if ranks is not None:
        names = ", ".join(dict.fromkeys(name for row in ranks.read for name in row.gpus))
        facts["gpu_name"] = facts.get("gpu_name") or names
        facts["nsys_version"] = facts.get("nsys_version") or ranks.read[0].nsys_version
    if analysis is not None:
        if not facts.get("gpu_name") and analysis.devices:
            facts["gpu_name"] = ", ".join(dict.fromkeys(device.name for device in analysis.devices))
        facts["nsys_version"] = facts.get("nsys_version") or analysis.trace.nsys_version
    known = [f"{label} {escape_markdown(clean(str(facts[key]), 80))}" for key, label in _FACTS if facts.get(key)]
    if analysis is not None and analysis.trace.tool == "torch":
        known.append(f"recorded by torch {escape_markdown(analysis.trace.tool_version or '')}".strip())
    return [" · ".join(known)] if known else ["The machine is not known."]


def _lines(lines: Sequence[str]) -> list[str]:
    more = [f"- and {len(lines) - _MOST_LINES} more shapes"] if len(lines) > _MOST_LINES else []
    return [*(f"- {escape_markdown(clean(line, 500))}" for line in lines[:_MOST_LINES]), *more, ""]


def _table(table: Table) -> list[str]:
    """The first rows, under a small heading: it stands in the middle of somebody's text."""
    lines = render_table(replace(table, rows=table.rows[:_MOST_ROWS]))
    return [f"##{line}" if line.startswith("## ") else line for line in lines]


def _archive(shared: Shared) -> list[str]:
    quoted = shlex.quote(clean(shared.file))
    steps = ["sha256sum " + quoted, "nsysprof analyze " + quoted] if shared.has_trace else ["unzip " + quoted]
    names = "as they were" if shared.named else "of libraries as they were, all others tokens"
    lines = [
        f"{escape_markdown(shared.file)}: {format_bytes(shared.bytes)}, SHA-256 `{shared.sha256}`, "
        f"nsysprof {__version__}; names {names}. To check the numbers:",
        "",
        "```",
        *steps,
        "```",
        "",
    ]
    if shared.left_out:
        rows = [f"- {escape_markdown(clean(what, 300))}: {escape_markdown(why)}" for what, why in shared.left_out]
        lines += ["<details><summary>What is not in it</summary>", "", *rows, "", "</details>", ""]
    return lines
