"""Write the result folder of many traces: tables, ranks.json, figures and reports, each completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.files.json_file import json_value, plain_json
from nsysprof.files.output import output_error, write_whole
from nsysprof.files.written_by import VERSION
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.png import can_draw
from nsysprof.report.formats.timeline.ranks_timeline import ranks_timeline_data
from nsysprof.report.reports.ranks_report import ranks_report
from nsysprof.report.sections.figure_texts import describe_heatmap, describe_ranks_timeline
from nsysprof.results.column_registry import rank_columns
from nsysprof.results.column_registry.column import TableFile
from nsysprof.results.column_registry.csv_table import empty_table, render_csv, to_records
from nsysprof.results.rank_results import FORMAT_VERSION, RanksAnalysis

JSON = "ranks.json"


def write_ranks(
    found: RanksAnalysis, out: Path, *, figures: bool, svg: bool, progress: Callable[[str], None]
) -> list[Path]:
    """Write everything into `out`, and return the paths. ranks.json comes last, to show that the folder is complete."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / JSON).unlink(missing_ok=True)
        written = [write_whole(out / file.name, render_csv(table, file)) for file, table in _tables(found)]
        pictures = _write_figures(found, out, svg, progress) if figures and can_draw() else []
        written += [*figure_paths(pictures, out, svg=svg), *_write_report(found, pictures, out)]
        text = plain_json(ranks_json(found))
        return [*written, write_whole(out / JSON, text.encode("utf-8", "replace"))]
    except OSError as error:
        raise output_error(out, error) from error


def _write_report(found: RanksAnalysis, figures: list[Figure], out: Path) -> list[Path]:
    return write_report(ranks_report(found, figures, timeline=ranks_timeline_data(found)), out)


def ranks_json(found: RanksAnalysis) -> dict[str, Any]:
    """Return ranks.json. In it null is unknown, and a note says why."""
    stragglers = to_records(found.stragglers)
    return {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": VERSION,
        "ranks_read": len(found.read),
        "ranks_given": len(found.rows),
        "imbalance_pct": found.imbalance_pct,
        "straggler_evidence": found.straggler_evidence or None,
        "stragglers": stragglers,
        "outliers": {str(rank): text for rank, text in found.outliers.items()},
        "clocks": [asdict(fit) for fit in found.clocks],
        "ranks": [{k: v for k, v in json_value(row).items() if k != "notes"} for row in found.rows],
        "engine": dict(found.engine),
        "notes": json_value(found.notes),
    }


def whole_ranks_json(found: RanksAnalysis) -> dict[str, Any]:
    """Return what `analyze --json` prints of many traces: the whole result, every table as a list of rows."""
    tables = {file.name.removesuffix(".csv"): to_records(table) for file, table in _tables(found)}
    return {**tables, **ranks_json(found)}


def _tables(found: RanksAnalysis) -> list[tuple[TableFile, pd.DataFrame]]:
    clocks = {fit.rank: fit for fit in found.clocks}
    slow = set(found.stragglers["rank"].tolist())
    lines = []
    for row in found.rows:
        line = {key: cell for key, cell in json_value(row).items() if key not in ("notes", "next_step", "position")}
        fit = clocks.get(row.rank if row.rank is not None else -1) if row.is_read else None
        line["gpus"] = "; ".join(row.gpus)
        line["clock"] = None if fit is None else fit.how
        line["clock_offset_ns"] = None if fit is None else fit.offset_ns
        line["is_straggler"] = row.rank in slow if row.is_read else None
        line["outlier"] = found.outliers.get(row.rank if row.rank is not None else -1, "")
        lines.append(line)
    return [
        (rank_columns.PER_RANK, pd.DataFrame(lines, columns=list(rank_columns.PER_RANK.names))),
        (rank_columns.RANGES_OVER_RANKS, found.ranges),
        (rank_columns.KERNELS_OVER_RANKS, found.kernels),
        (rank_columns.RANGE_KERNELS_OVER_RANKS, found.range_kernels),
        (rank_columns.API_OVER_RANKS, found.api),
        (rank_columns.MEMOPS_OVER_RANKS, found.memops.rename(columns={"name": "operation"})),
        (rank_columns.RANK_RANGES, found.rank_ranges),
        (rank_columns.STRAGGLERS, found.stragglers),
        (rank_columns.ENERGY_OVER_RANKS, _or_empty(found.energy, rank_columns.ENERGY_OVER_RANKS)),
        (rank_columns.RANK_ENERGY, _or_empty(found.rank_energy, rank_columns.RANK_ENERGY)),
    ]


def _or_empty(table: pd.DataFrame | None, file: TableFile) -> pd.DataFrame:
    return empty_table(file) if table is None else table


def _write_figures(found: RanksAnalysis, out: Path, svg: bool, say: Callable[[str], None]) -> list[Figure]:
    from nsysprof.report.figures.ranks import draw_heatmap, draw_timeline

    draw = {"heatmap": lambda: draw_heatmap(found), "timeline": lambda: draw_timeline(found)}
    alts = {"heatmap": lambda: describe_heatmap(found), "timeline": lambda: describe_ranks_timeline(found)}
    return write_figures(draw, alts, out, svg=svg, say=say)
