"""Compose the text to paste where a bundle is attached: what it is, what it shows, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from nsysprof.files.plain_file import VERSION
from nsysprof.notes import Note
from nsysprof.report.document import (
    KERNELS,
    OPERATORS,
    Code,
    Lines,
    Notes,
    Paragraph,
    Part,
    Ranking,
    Report,
    Section,
    Table,
    clean,
    words_for,
)
from nsysprof.report.pages.analysis import findings_sections, overview_sections
from nsysprof.report.pages.bench import latency_table
from nsysprof.report.pages.bench import verdict_lines as bench_verdict_lines
from nsysprof.report.pages.cases import case_table, coverage_line, verdict_lines
from nsysprof.report.pages.ranks import headline, rank_table, straggler_table
from nsysprof.report.pages.ranks import kernel_table as ranks_kernel_table
from nsysprof.report.pages.ranks import range_table as ranks_range_table
from nsysprof.report.pages.trace_tables import kernel_table, range_table
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.units import format_bytes

_MOST_ROWS, _KERNEL_ROWS, _MOST_NOTES, _MOST_FINDINGS = 25, 8, 20, 5
_FACTS = (
    ("gpu_name", "GPU"), ("driver_version", "driver"), ("cuda_version", "CUDA"), ("torch_version", "torch"),
    ("cudnn_loaded_version", "cuDNN"), ("nsys_version", "nsys"), ("cpu_model", "CPU"), ("os", "OS"),
)  # fmt: skip


@dataclass(frozen=True)
class Shared:
    """The archive.

    left_out: what is not in it, and why.
    named: whether names are unchanged.
    """

    file: str
    bytes: int
    sha256: str
    title: str
    has_trace: bool
    named: bool
    left_out: Sequence[tuple[str, str]] = ()


def bundle_report(
    shared: Shared,
    analysis: Analysis | None,
    record: CaptureRecord | None,
    bench: pd.DataFrame | None = None,
    environment: Mapping[str, Any] | None = None,
    bench_notes: Sequence[Note] = (),
    ranks: RanksAnalysis | None = None,
) -> Report:
    """Return the text for an issue, for any content of a bundle."""
    first = [Section("", (Paragraph(_facts(analysis, record, environment, ranks)),))]
    if analysis is not None and ranks is None:
        is_grid = record is not None and record.has_cases
        first += [*([] if is_grid else overview_sections(analysis)), *map(_cut_findings, findings_sections(analysis))]
    parts: list[Part] = []
    if ranks is not None:
        tables = (straggler_table(ranks), rank_table(ranks), ranks_range_table(ranks))
        parts += [Lines(headline(ranks), is_verdict=True), *map(_cut, tables)]
        parts.append(_cut(ranks_kernel_table(ranks), _KERNEL_ROWS))
    if bench is not None:
        parts += [Lines(bench_verdict_lines(bench), is_verdict=True), _cut(latency_table(bench))]
    if record is not None and record.has_cases:
        cpu = record.environment.get("device") == "cpu"
        words = words_for(analysis.trace) if analysis else OPERATORS if cpu else KERNELS
        parts += [Lines(verdict_lines(record), is_verdict=True), _cut(case_table(record, words))]
    elif analysis is not None:
        parts += [_cut(range_table(analysis)), _cut(kernel_table(analysis), _KERNEL_ROWS)]
    if analysis is not None:
        parts.append(Paragraph(coverage_line(analysis)))
    results = (record, analysis, ranks)
    notes = [*(note for result in results if result is not None for note in result.notes), *bench_notes]
    parts.append(Notes(tuple(dict.fromkeys(notes))[:_MOST_NOTES]))
    return Report(shared.title, (*first, Section("", tuple(parts)), *_archive(shared)))


def _cut_findings(section: Section) -> Section:
    """Return findings with only the most valuable ones, because they are inserted into somebody's text."""

    def cut(part: Part) -> Part:
        return replace(part, items=part.items[:_MOST_FINDINGS]) if isinstance(part, Ranking) else part

    return replace(section, parts=tuple(map(cut, section.parts)))


def _cut(table: Table, rows: int = _MOST_ROWS) -> Table:
    """Return the table with only its first rows, because it is inserted into somebody's text."""
    return replace(table, document_rows=rows, is_kept_empty=False)


def _facts(
    analysis: Analysis | None,
    record: CaptureRecord | None,
    environment: Mapping[str, Any] | None,
    ranks: RanksAnalysis | None,
) -> str:
    """Return one line of what it was measured on."""
    facts = dict(environment or (record.environment if record else {}))
    if ranks is not None:
        names = ", ".join(dict.fromkeys(name for row in ranks.read for name in row.gpus))
        facts["gpu_name"] = facts.get("gpu_name") or names
        facts["nsys_version"] = facts.get("nsys_version") or ranks.read[0].nsys_version
    if analysis is not None:
        if not facts.get("gpu_name") and analysis.devices:
            facts["gpu_name"] = ", ".join(dict.fromkeys(device.name for device in analysis.devices))
        facts["nsys_version"] = facts.get("nsys_version") or analysis.trace.nsys_version
    known = [f"{label} {clean(str(facts[key]), 80)}" for key, label in _FACTS if facts.get(key)]
    if analysis is not None and analysis.trace.tool == "torch":
        known.append(f"recorded by torch {analysis.trace.tool_version or ''}".strip())
    return " · ".join(known) if known else "The machine is not known."


def _archive(shared: Shared) -> list[Section]:
    quoted = shlex.quote(clean(shared.file))
    steps = ["sha256sum " + quoted, "nsysprof analyze " + quoted] if shared.has_trace else ["unzip " + quoted]
    names = "unchanged" if shared.named else "of libraries unchanged, all others replaced by tokens"
    text = (
        f"{shared.file}: {format_bytes(shared.bytes)}, SHA-256 {shared.sha256}, nsysprof {VERSION}; names {names}. "
        "To check the numbers:"
    )
    sections = [Section("", (Paragraph(text), Code("\n".join(steps))))]
    if shared.left_out:
        rows = tuple(f"{what}: {why}" for what, why in shared.left_out)
        sections.append(Section("What is not in it", (Lines(rows),), is_folded=True))
    return sections
