"""Compose and write what a snapshot of torch's allocator says, or two of them: the peak, its owners, the devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nsysprof.files.plain_file import encode_json, plain_json, write_whole
from nsysprof.report.document import (
    Cell,
    Column,
    Figure,
    Item,
    Lines,
    Notes,
    Part,
    Ranking,
    Report,
    Section,
    Table,
    Unit,
    table_of,
)
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.memory import describe_memory, draw_memory
from nsysprof.results.allocator_memory import AllocatorMemory, DeviceUse, MemoryComparison, MemoryFinding, OutOfMemory
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.results.column_registry.csv_table import render_csv
from nsysprof.units import format_bytes


def write_memory(memory: AllocatorMemory, folder: Path, *, figures: bool) -> list[Path]:
    """Write summary.json, memory.csv, the figure and the report of a snapshot; return their paths."""
    text = plain_json(memory.to_json())
    written = [
        write_whole(folder / "summary.json", text.encode("utf-8", "replace")),
        write_whole(folder / MEMORY.name, render_csv(memory.owners, MEMORY)),
    ]
    draw = {"memory": lambda: draw_memory(memory.over_time)} if figures else {}
    pictures = write_figures(draw, {"memory": lambda: describe_memory(memory)}, folder)
    return [*written, *figure_paths(pictures, folder), *write_report(memory_report(memory, pictures), folder)]


def write_memory_comparison(comparison: MemoryComparison, folder: Path) -> list[Path]:
    """Write compare.json, report.md and report.html of two snapshots; return their paths."""
    written = write_whole(folder / "compare.json", encode_json(comparison.to_json()))
    return [written, *write_report(memory_comparison_report(comparison), folder)]


_METHOD = (
    "An owner is the innermost line of the stack outside torch, Python's library and C++.",
    "Sizes are those that were requested. A block counts until it can be used again (free_completed).",
    "Memory from before the first event of the snapshot counts if it was freed later, or was still there at the end.",
)
_LEAST_CHANGE_BYTES = 1 << 20
_MOST_FAILURES, _MOST_HOLDINGS = 4, 100


def memory_report(memory: AllocatorMemory, figures: Sequence[Figure] = ()) -> Report:
    """Return what owned the memory at the peak, and how much of the allocator's memory was idle."""
    sections = [*failure_sections(memory), Section("Memory", tuple(memory_parts(memory)))]
    sections += [Section("Figures", tuple(figures), in_terminal=False)] if figures else []
    sections += [Section("Notes", (Notes(memory.notes),)), Section("Method", (Lines(_METHOD),), in_terminal=False)]
    return Report(memory.path_name, tuple(sections))


def memory_comparison_report(comparison: MemoryComparison) -> Report:
    """Return the peaks of both sides, and the lines that explain their difference."""
    return Report(
        f"{comparison.baseline} against {comparison.candidate}",
        (Section("Memory", memory_comparison_parts(comparison)),),
    )


def memory_comparison_parts(comparison: MemoryComparison) -> tuple[Part, ...]:
    """Return the verdict on the peaks of both sides, and the lines that explain their difference."""
    peak, old_peak = comparison.candidate_peak_bytes, comparison.baseline_peak_bytes
    change = peak - old_peak
    verdict = (
        f"The peak is {format_bytes(peak)}, and was {format_bytes(old_peak)}: "
        f"{'+' if change > 0 else ''}{format_bytes(change)}."
    )
    least = min(_LEAST_CHANGE_BYTES, abs(change))
    changes = [
        change for change in comparison.changes if change.difference_bytes and abs(change.difference_bytes) >= least
    ]
    columns = (
        (
            Column("owner", Unit.NAME),
            lambda change: Cell(change.owner, remark=f"(now {change.now})" if change.now else ""),
        ),
        (Column("baseline", Unit.BYTES, drop=1), "baseline_bytes"),
        (Column("candidate", Unit.BYTES, drop=1), "candidate_bytes"),
        (Column("difference", Unit.BYTES), lambda change: Cell(change.difference_bytes, is_signed=True)),
    )
    table = table_of("Lines behind the difference", changes, columns, is_kept_empty=True)
    return Lines((verdict,), is_verdict=True), table


def memory_parts(memory: AllocatorMemory) -> list[Part]:
    """Return the verdict, the findings, and the tables of owners and devices."""
    most = next((use for use in memory.devices if use.device_id == memory.device_id), None)
    if most is None:
        return [Lines(("Nothing was allocated on a GPU.",), is_verdict=True)]
    parts: list[Part] = [Lines((_peak_text(most),), is_verdict=True)]
    parts += [failure_table(failure) for failure in memory.out_of_memory]
    if memory.findings:
        items = tuple(_item(finding, len(memory.devices) > 1) for finding in memory.findings)
        parts.append(Ranking(items, "could be given back", Unit.BYTES, whole_items=len(items)))
    return [*parts, owner_table(memory), _device_table(memory)]


def failure_sections(memory: AllocatorMemory | None) -> list[Section]:
    """Return what a report begins with where memory ran out: what was asked for, who held how much, what to do."""
    failures = () if memory is None else memory.out_of_memory
    lines = [line for failure in failures[:_MOST_FAILURES] for line in _failure_lines(failure)]
    if len(failures) > _MOST_FAILURES:
        lines.append(f"Memory ran out in {len(failures) - _MOST_FAILURES} more processes.")
    return [Section("Out of memory", (Lines(tuple(lines), is_verdict=True),))] if lines else []


def _failure_lines(failure: OutOfMemory) -> Iterator[str]:
    yield from failure.lines
    for remedy in failure.remedies:
        yield f"{'Enough for this request' if remedy.is_enough else 'Not enough alone'}: {remedy.text}"


def failure_table(failure: OutOfMemory) -> Table:
    """Return who held the memory when an allocation failed, by kind, layer and line."""
    columns = (
        (Column("kind", Unit.NAME), "kind"),
        (Column("layer", Unit.NAME), lambda row: row.layer or ""),
        (Column("line", Unit.NAME), "owner"),
        (Column("held", Unit.BYTES), "bytes"),
        (Column("tensors", Unit.COUNT, drop=1), "block_count"),
    )
    of_rank = "" if failure.rank is None else f", rank {failure.rank}"
    title = f"Held when memory ran out on device {failure.device_id}{of_rank}"
    return table_of(title, failure.holdings[:_MOST_HOLDINGS], columns, terminal_rows=12)


def owner_table(memory: AllocatorMemory) -> Table:
    """Return the owners of the peak, the largest first."""
    has_ranges = bool(memory.owners["range"].notna().any())
    columns = [
        (Column("owner", Unit.NAME), "owner"),
        (Column("at the peak", Unit.BYTES), "peak_bytes"),
        (Column("share", Unit.SHARE), "share_pct"),
        *([(Column("range", Unit.NAME, drop=1), "range")] if has_ranges else []),
    ]
    return table_of("Owners of the peak", memory.owners.to_dict("records"), columns, source="memory.csv")


def _peak_text(use: DeviceUse) -> str:
    before = (
        f", {format_bytes(use.before_bytes)} of it from before the first event of the snapshot"
        if use.before_bytes
        else ""
    )
    return (
        f"At the peak {format_bytes(use.peak_bytes)} were allocated on device {use.device_id}{before}; the allocator "
        f"had up to {format_bytes(use.reserved_peak_bytes)} from the driver."
    )


def _item(finding: MemoryFinding, has_devices: bool) -> Item:
    where = f"device {finding.device_id}" if has_devices else ""
    return Item(finding.code, where, Cell(finding.bytes), finding.text, finding.next_step)


def _device_table(memory: AllocatorMemory) -> Table:
    columns = (
        (Column("device"), lambda use: str(use.device_id)),
        (Column("peak", Unit.BYTES), "peak_bytes"),
        (Column("from before", Unit.BYTES), "before_bytes"),
        (Column("at the end", Unit.BYTES), "end_bytes"),
        (Column("reserved, at most", Unit.BYTES), "reserved_peak_bytes"),
        (Column("used of that", Unit.BYTES), "used_of_reserved_bytes"),
        (Column("events", Unit.COUNT, drop=1), "event_count"),
    )
    return table_of("Devices", memory.devices, columns, terminal_rows=8)
