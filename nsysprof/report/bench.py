"""report.md, results.csv and the figures of a bench."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof import __version__
from nsysprof.notes import Note
from nsysprof.output import write_whole
from nsysprof.report.bench_tables import (
    ceiling_table,
    failure_table,
    latency_table,
    sweep_tables,
    target_table,
    verdict_lines,
)
from nsysprof.report.escape import clean, defuse_formula, escape_markdown
from nsysprof.report.markdown import render_table
from nsysprof.report.tables import Table
from nsysprof.units import format_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BenchReport:
    """What a report of a bench shows. method: one line each; extra: Markdown of a tuner, after the verdicts."""

    title: str
    table: pd.DataFrame
    floor_pct: float | None
    floor_pairs: int
    ceilings: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: Sequence[Note]
    method: Sequence[str]
    command: str
    extra: Sequence[str] = ()


_MOST_ROWS, _MOST_LINES = 30, 30
_ABLATION = """\
<details><summary>Template for an ablation</summary>

### Optimisation: NAME

**Hypothesis**: which limit does it lift, and which number shows that limit?

**Change**: what differs in the code, and nothing else.

| | baseline | changed | |
|---|---:|---:|---:|
| median [95 %] | | | ratio |
| p (Holm), Cliff's delta | | | |
| noise floor of this machine | | | |
| FLOP/s by formula, of the ceiling | | | |
| kernels, DRAM bytes (`nsysprof capture`, `analyze`) | | | |

**Verdict**: faster, slower, no difference or too few samples, by the rule under Method.

</details>
"""
_FACTS = (
    "gpu_name", "gpu_count", "driver_version", "cuda_version", "torch_version", "cudnn_loaded_version",
    "cublas_loaded_version", "tf32_matmul", "device", "cpu_model", "os", "python_version", "git_commit",
    "comparable_hash",
)  # fmt: skip


def render_bench(report: BenchReport, figures: Sequence[str]) -> str:
    """The report; `figures` are file names beside it. Tables are cut, so that GitHub's 65,536 characters suffice."""
    table = report.table
    parts = [f"# {escape_markdown(report.title)}", ""]
    lines = verdict_lines(table)
    parts += [f"- {escape_markdown(line)}" for line in lines[:_MOST_LINES]]
    parts += [f"- and {len(lines) - _MOST_LINES} more shapes, in results.csv"] if len(lines) > _MOST_LINES else []
    parts += ["", *report.extra]
    parts += render_table(_cut(latency_table(table)))
    failures = _cut(failure_table(table))
    parts += render_table(failures) if failures.rows else []
    parts += [f"![{name.rpartition('.')[0]}]({name})\n" for name in figures]
    for sweep in sweep_tables(table):
        parts += render_table(_cut(sweep))
    parts += render_table(_cut(ceiling_table(table)))
    parts += [_ceilings(report.ceilings), ""]
    parts += render_table(_cut(target_table(table, report.floor_pct)))
    parts += [_ABLATION, "## Notes", ""]
    for note in report.notes:
        following = f" → {escape_markdown(note.next_step)}" if note.next_step else ""
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(clean(note.text, 400))}{following}")
    parts += ["", "## Method", "", *(f"- {escape_markdown(line)}" for line in report.method)]
    parts += ["", "## Environment", "", "| | |", "|---|---|", f"| nsysprof | {__version__} |"]
    facts = [(name, report.environment.get(name)) for name in _FACTS]
    parts += [f"| {name} | {escape_markdown(str(fact))} |" for name, fact in facts if fact is not None]
    parts += ["", "Measured by", "", "```", clean(report.command).replace("```", ""), "```"]
    return "\n".join(parts) + "\n"


def _cut(table: Table) -> Table:
    return replace(table, rows=table.rows[:_MOST_ROWS])


def _ceilings(ceilings: Mapping[str, Any]) -> str:
    flops = ceilings.get("flops") or {}
    parts = [f"{dtype} matrix product {format_rate(rate, 'FLOP/s')}" for dtype, rate in flops.items()]
    if ceilings.get("bytes_per_s"):
        parts.append(f"copy {format_rate(ceilings['bytes_per_s'], 'B/s')} (read and written)")
    return f"Ceilings measured on this device: {', '.join(parts)}." if parts else "No ceiling was measured."


def write_bench(report: BenchReport, folder: Path, *, figures: bool) -> list[Path]:
    """Write results.csv, figures and report.md into `folder` and return their paths. Raises OutputError."""
    written = [write_whole(folder / "results.csv", results_csv(report.table))]
    pictures = _write_figures(report, folder) if figures else []
    text = render_bench(report, [path.name for path in pictures])
    return [*written, *pictures, write_whole(folder / "report.md", text.encode("utf-8", "replace"))]


def results_csv(table: pd.DataFrame) -> bytes:
    """One row a cell; unknown is empty."""
    safe = table.copy()
    for column in ("case", "backend", "reason", "graph_reason"):
        safe[column] = [defuse_formula(clean(str(cell))) for cell in safe[column]]
    return safe.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode("utf-8", "replace")


def _write_figures(report: BenchReport, folder: Path) -> list[Path]:
    from nsysprof.report.figure_bench import draw_latency, draw_scaling, draw_throughput

    drawn: dict[str, Figure | None] = {
        "latency.png": draw_latency(report.table),
        "throughput.png": draw_throughput(report.table, report.ceilings),
        "scaling.png": draw_scaling(report.table),
    }
    written = []
    for name, figure in drawn.items():
        (folder / name).unlink(missing_ok=True)
        if figure is not None:
            data = io.BytesIO()
            figure.savefig(data, format="png", metadata={"Software": None})
            written.append(write_whole(folder / name, data.getvalue()))
    return written
