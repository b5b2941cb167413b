"""Write the result folder of a snapshot of torch's allocator, or of a comparison of two snapshots."""

from __future__ import annotations

from pathlib import Path

from nsysprof.files.json_file import encode_json, plain_json
from nsysprof.files.output import write_whole
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.reports.memory_report import memory_comparison_report, memory_report
from nsysprof.report.sections.figure_texts import describe_memory
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.results.column_registry.csv_table import render_csv


def write_memory(memory: AllocatorMemory, folder: Path, *, figures: bool) -> list[Path]:
    """Write summary.json, memory.csv, the figure and the report of a snapshot; return their paths."""
    from nsysprof.report.figures.memory import draw_memory

    text = plain_json(memory.to_json())
    written = [
        write_whole(folder / "summary.json", text.encode("utf-8", "replace")),
        write_whole(folder / MEMORY.name, render_csv(memory.owners, MEMORY)),
    ]
    draw = {"memory": lambda: draw_memory(memory.over_time)} if figures else {}
    pictures = write_figures(draw, {"memory": lambda: describe_memory(memory)}, folder)
    return [*written, *figure_paths(pictures, folder), *write_report(memory_report(memory, pictures), folder)]


def write_memory_comparison(found: MemoryComparison, folder: Path) -> list[Path]:
    """Write compare.json, report.md and report.html of two snapshots; return their paths."""
    written = write_whole(folder / "compare.json", encode_json(found.to_json()))
    return [written, *write_report(memory_comparison_report(found), folder)]
