"""The folder of many traces: tables, ranks.json, figures and reports. Each file appears whole or not at all."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof import __version__
from nsysprof.notes import Severity
from nsysprof.output import output_error, write_whole
from nsysprof.rank_results import FORMAT_VERSION, RanksAnalysis
from nsysprof.report.console import render_table as render_console_table
from nsysprof.report.escape import clean, escape_markdown
from nsysprof.report.html import render_template, shown
from nsysprof.report.markdown import render_table
from nsysprof.report.page import read_asset
from nsysprof.report.ranks_tables import (
    api_table,
    clock_table,
    headline,
    kernel_table,
    memop_table,
    range_table,
    rank_table,
    straggler_table,
)
from nsysprof.report.tables import Table
from nsysprof.report.write import render_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JSON = "ranks.json"
_FIGURES = ("heatmap", "timeline")
# A comment on GitHub holds 65,536.
_MOST_CHARACTERS = 60_000
_MOST_ROWS = (400, 100, 50, 25, 12, 6)
_CONSOLE_ROWS, _NAME = 16, 40
_METHOD = (
    "Kernels, calls, copies and ranges are counted in each trace as nsysprof analyze does it. Their durations are "
    "merged as counts of values, so that quantiles are of all ranks' instances, and not of the ranks' quantiles.",
    "compute: when a kernel ran that is not NCCL's; exposed: when one of NCCL's ran and no other; idle: neither kernel "
    "nor copy, between a device's first and last kernel. Unions by device, added over devices. Time in an NCCL kernel "
    "includes waiting for other ranks.",
    "A range's own time is that of the work whose innermost range it is; work of threads without ranges (autograd's) "
    "counts for the range that began last in their process. Its host time is without the ranges nested in it.",
    "Straggler: the rank that begins a collective last; what the others' kernels waited for it is the time from the "
    "middle rank's begin to its begin, added over collectives. Of that is exposed, at least, what the middle "
    "rank's kernels ran without computation beyond their transfer. The usual rank is the lower median.",
    "imbalance: the largest of the ranks' totals against their mean. Outlier: more than 3.5 robust standard deviations "
    "(median absolute deviation) and 5 % from the usual rank; five ranks are the least.",
    "Clocks: ranks known to be of one host by their sessions' starts, others by the median difference of the ends of "
    "matching AllReduce, AllGather and ReduceScatter kernels, refused above 100 us of median residual.",
)


def write_ranks(
    found: RanksAnalysis, out: Path, *, figures: bool, svg: bool, progress: Callable[[str], None]
) -> list[Path]:
    """Write everything into `out` and return the paths; ranks.json last, so that it stands for a whole folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / JSON).unlink(missing_ok=True)
        written = [write_whole(out / name, render_csv(table)) for name, table in _tables(found).items()]
        pictures = _write_figures(found, out, svg, progress) if figures else []
        pngs = [path for path in pictures if path.suffix == ".png"]
        report = render_ranks_markdown(found, [path.name for path in pngs])
        written += [*pictures, write_whole(out / "report.md", report.encode("utf-8", "replace"))]
        page = render_ranks_html(found, pngs)
        written += [write_whole(out / "report.html", page.encode("utf-8", "replace"))]
        text = json.dumps(ranks_json(found), indent=1, ensure_ascii=False) + "\n"
        return [*written, write_whole(out / JSON, text.encode("utf-8", "replace"))]
    except OSError as error:
        raise output_error(out, error) from error


def ranks_json(found: RanksAnalysis) -> dict[str, Any]:
    """ranks.json: null is unknown, and a note says why."""
    stragglers = json.loads(found.stragglers.to_json(orient="records"))
    return {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": __version__,
        "ranks_read": len(found.read),
        "ranks_given": len(found.rows),
        "imbalance_pct": found.imbalance_pct,
        "straggler_evidence": found.straggler_evidence or None,
        "stragglers": stragglers,
        "outliers": {str(rank): text for rank, text in found.outliers.items()},
        "clocks": [asdict(fit) for fit in found.clocks],
        "ranks": [{k: v for k, v in row.to_json().items() if k != "notes"} for row in found.rows],
        "engine": dict(found.engine),
        "notes": [note.to_json() for note in found.notes],
    }


def _tables(found: RanksAnalysis) -> dict[str, pd.DataFrame]:
    clocks = {fit.rank: fit for fit in found.clocks}
    slow = set(found.stragglers["rank"].tolist())
    lines = []
    for row in found.rows:
        line = {key: cell for key, cell in row.to_json().items() if key not in ("notes", "next_step", "position")}
        fit = clocks.get(row.rank if row.rank is not None else -1) if row.is_read else None
        line["gpus"] = "; ".join(row.gpus)
        line["clock"] = None if fit is None else fit.how
        line["clock_offset_ns"] = None if fit is None else fit.offset_ns
        line["is_straggler"] = row.rank in slow if row.is_read else None
        line["outlier"] = found.outliers.get(row.rank if row.rank is not None else -1, "")
        lines.append(line)
    per_rank = pd.DataFrame(lines)
    for column in per_rank.columns:
        if column.endswith(("_ns", "_bytes", "_count")) or column in ("bytes", "rank", "world_size"):
            per_rank[column] = per_rank[column].astype("Int64")
    first = ["rank", "source", "reason"]
    return {
        "per_rank.csv": per_rank[[*first, *(column for column in per_rank.columns if column not in first)]],
        "ranges_over_ranks.csv": found.ranges,
        "kernels_over_ranks.csv": found.kernels,
        "range_kernels_over_ranks.csv": found.range_kernels,
        "api_over_ranks.csv": found.api,
        "memops_over_ranks.csv": found.memops.rename(columns={"name": "operation"}),
        "rank_ranges.csv": found.rank_ranges,
        "stragglers.csv": found.stragglers,
    }


def _write_figures(found: RanksAnalysis, out: Path, svg: bool, say: Callable[[str], None]) -> list[Path]:
    from nsysprof.report.figure_ranks import draw_heatmap, draw_timeline

    drawn: dict[str, Callable[[RanksAnalysis], Figure | None]] = {"heatmap": draw_heatmap, "timeline": draw_timeline}
    written = []
    for name in _FIGURES:
        for stale in (out / f"{name}.png", out / f"{name}.svg"):
            stale.unlink(missing_ok=True)
        say(f"draw {name}")
        figure = drawn[name](found)
        for kind in () if figure is None else ("png", "svg") if svg else ("png",):
            data = io.BytesIO()
            assert figure is not None
            figure.savefig(data, format=kind, metadata={"Software": None} if kind == "png" else {"Date": None})
            written.append(write_whole(out / f"{name}.{kind}", data.getvalue()))
    return written


def _all_tables(found: RanksAnalysis, most: int) -> list[Table]:
    tables = [
        straggler_table(found), rank_table(found, most), range_table(found, most), kernel_table(found, most),
        api_table(found, most), memop_table(found, most), clock_table(found, most),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def render_ranks_console(found: RanksAnalysis, width: int) -> str:
    """The headline first, then short tables and what to know."""
    tables = [
        straggler_table(found, _CONSOLE_ROWS), rank_table(found, _CONSOLE_ROWS), range_table(found, _CONSOLE_ROWS),
        kernel_table(found, 8), clock_table(found, _CONSOLE_ROWS),
    ]  # fmt: skip
    parts = [render_console_table(table, max(width, 160), _NAME) for table in tables if table.rows]
    parts += [clean(line, 500) for line in headline(found)]
    parts += [
        f"{note.severity.value}: {clean(note.text, 500)}"
        + (f" -> {clean(note.next_step, 300)}" if note.next_step else "")
        for note in found.notes
        if note.severity is not Severity.INFO
    ]
    return "\n".join(parts)


def render_ranks_markdown(found: RanksAnalysis, figures: list[str]) -> str:
    """The report; tables are cut until a comment on GitHub holds it."""
    for most in _MOST_ROWS:
        text = _markdown(found, figures, most)
        if len(text) < _MOST_CHARACTERS:
            return text
    return text


def _markdown(found: RanksAnalysis, figures: list[str], most: int) -> str:
    parts = [f"# {len(found.read)} ranks", ""]
    parts += [f"- {escape_markdown(clean(line, 500))}" for line in headline(found)] + [""]
    parts += [f"![{name.rpartition('.')[0]}]({name})\n" for name in figures]
    for table in _all_tables(found, most):
        parts += render_table(replace(table, rows=table.rows[:most]))
    parts += ["## Notes", ""]
    for note in found.notes:
        following = f" → {escape_markdown(clean(note.next_step, 400))}" if note.next_step else ""
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(clean(note.text, 600))}{following}")
    parts += ["", "## Method", "", *(f"- {line}" for line in _METHOD), "", "## Environment", "", "| | |", "|---|---|"]
    parts += [f"| {key} | {escape_markdown(clean(text, 300))} |" for key, text in _environment(found)]
    return "\n".join(parts) + "\n"


def _environment(found: RanksAnalysis) -> list[tuple[str, str]]:
    read = found.read
    facts = [
        ("nsysprof", __version__),
        ("GPUs", ", ".join(sorted({gpu for row in read for gpu in row.gpus}))),
        ("nsys", ", ".join(sorted({row.nsys_version or "unknown" for row in read}))),
        ("ranks from", ", ".join(sorted({row.rank_from for row in found.rows}))),
    ]
    return facts + [(str(key), str(fact)) for key, fact in found.engine.items()]


def render_ranks_html(found: RanksAnalysis, figures: list[Path]) -> str:
    """The page, with the PNG figures inside."""
    tables = [shown(table) for table in _all_tables(found, 500)]
    return render_template(
        [read_asset("vendor/sortable.js"), read_asset("templates/report.js")],
        title=f"{len(found.read)} ranks",
        verdict=[clean(line, 500) for line in headline(found)],
        reasons=[],
        first=tables[:2],
        limits=[],
        rest=tables[2:],
        figures=[{"alt": path.stem, "data": base64.b64encode(path.read_bytes()).decode()} for path in figures],
        timeline=None,
        notes=list(found.notes),
        coverage=f"{len(found.read)} of {len(found.rows)} traces were read.",
        method=_METHOD,
        environment=_environment(found),
    )
