"""Compose the report of `analyze`, `capture` and `demo`: about a trace, and the capture that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nsysprof.notes import Note
from nsysprof.report.document import Chart, Figure, Lines, Notes, Paragraph, Part, Report, Section
from nsysprof.report.pages.cases import (
    case_table,
    comparison_table,
    counter_table,
    limit_lines,
    reason_lines,
    verdict_lines,
)
from nsysprof.report.pages.method import coverage_line, environment_table, method_lines
from nsysprof.report.pages.recording import recording_cost_table
from nsysprof.report.pages.trace_tables import (
    api_table,
    collective_table,
    energy_table,
    gpu_use_table,
    kernel_counter_table,
    kernel_table,
    memop_table,
    range_api_table,
    range_table,
    stream_table,
)
from nsysprof.report.sections.findings import findings_sections, idle_sections
from nsysprof.report.sections.memory_parts import memory_parts
from nsysprof.report.sections.missing_sources import tier_of, with_tier
from nsysprof.report.sections.overview import overview_sections, step_sections
from nsysprof.report.wording import KERNELS, OPERATORS, Words, words_for
from nsysprof.results.analysis import Analysis, CaptureRecord

# How many reasons a terminal shows; the files have all of them.
_MOST_LIMITS = 12


def analysis_report(
    analysis: Analysis,
    record: CaptureRecord | None,
    *,
    figures: Sequence[Figure] = (),
    timeline: Mapping[str, Any] | None = None,
) -> Report:
    """Return the report of one trace.

    record: what a capture folder adds to its trace; None for a trace alone.
    figures: the figures that were drawn, in order.
    timeline: the result of timeline_data; None for a report without an interactive timeline.
    """
    words, tier = words_for(analysis.trace), tier_of(record)
    # The cases of a grid do not form one program: their shares of the GPU's time mean nothing.
    is_grid = record is not None and record.has_cases
    if record is not None and is_grid:
        sections = [*verdict_sections(record), *findings_sections(analysis), *case_sections(record, words)]
    else:
        sections = [*overview_sections(analysis), *findings_sections(analysis), *step_sections(analysis)]
    sections += idle_sections(analysis)
    sections += figure_sections(figures)
    sections += [Section("Timeline", (Chart(timeline),), in_terminal=False)] if timeline is not None else []
    sections.append(_trace_section(analysis, tier))
    sections += [Section("Memory", tuple(memory_parts(analysis.allocator)))] if analysis.allocator is not None else []
    if analysis.recording_cost:
        sections.append(Section("", (recording_cost_table(analysis.recording_cost),)))
    sections.append(_notes_section(analysis, record))
    sections.append(Section("", (Paragraph(f"Coverage: {coverage_line(analysis)}"),)))
    sections.append(Section("Method", (Lines(tuple(method_lines(analysis, record))),), in_terminal=False))
    sections.append(Section("", (environment_table(analysis, record),), in_terminal=False))
    return Report(record.title if record else analysis.trace.path_name, tuple(sections))


def first_report(analysis: Analysis) -> Report:
    """Return the beginning of a report: what the program does with the GPU, and what to change."""
    return Report(
        analysis.trace.path_name, (*overview_sections(analysis), *findings_sections(analysis), *idle_sections(analysis))
    )


def demo_report(analysis: Analysis, about: str) -> Report:
    """Return what `demo` shows of its analysis: what the trace is about, and the findings. The page has the rest."""
    first = first_report(analysis)
    return Report(first.title, (Section("", (Paragraph(about),)), *first.sections))


def capture_report(results: pd.DataFrame, environment: Mapping[str, Any], notes: Sequence[Note]) -> Report:
    """Return what `capture` prints at its end: its cases, and the notes about them.

    results: the columns of results.csv.
    environment: from the capture's manifest.
    """
    record = CaptureRecord("capture", results, dict(environment), "", tuple(notes))
    words = OPERATORS if environment.get("device") == "cpu" else KERNELS
    parts: list[Part] = [case_table(record, words), Lines(reason_lines(record)), Notes(record.notes)]
    return Report(record.title, (Section("", tuple(parts)),))


def verdict_sections(record: CaptureRecord) -> Sequence[Section]:
    """Return which backends are the fastest; nothing where no case can be compared."""
    verdicts = verdict_lines(record)
    return [Section("Fastest backends", (Lines(verdicts, is_verdict=True),))] if verdicts else []


def case_sections(record: CaptureRecord, words: Words) -> Sequence[Section]:
    """Return the cases and what limits them."""
    tier = tier_of(record)
    traffic = counter_table(record)
    parts: list[Part] = [
        with_tier(case_table(record, words), tier),
        Lines(reason_lines(record)),
        with_tier(comparison_table(record, words), tier),
        *([] if traffic is None else [with_tier(traffic, tier)]),
    ]
    sections = [Section("", tuple(parts))]
    limits = limit_lines(record)
    if limits:
        sections.append(Section("What limits each case", (Lines(limits, terminal_lines=_MOST_LIMITS),)))
    return sections


def figure_sections(figures: Sequence[Figure]) -> list[Section]:
    """Return the section of figures; nothing where none was drawn."""
    return [Section("Figures", tuple(figures), in_terminal=False)] if figures else []


def _trace_section(analysis: Analysis, tier: str) -> Section:
    tables = (
        range_table(analysis), stream_table(analysis), kernel_table(analysis), kernel_counter_table(analysis),
        collective_table(analysis), gpu_use_table(analysis),
        energy_table(analysis), memop_table(analysis), api_table(analysis),
        range_api_table(analysis),
    )  # fmt: skip
    return Section("", tuple(with_tier(table, tier) for table in tables if table is not None))


def _notes_section(analysis: Analysis, record: CaptureRecord | None) -> Section:
    notes: tuple[Note, ...] = tuple(dict.fromkeys((*(record.notes if record else ()), *analysis.notes)))
    return Section("Notes", (Notes(notes),))
