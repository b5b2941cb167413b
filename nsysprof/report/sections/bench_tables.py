"""Compose the tables of a bench: latencies, the fastest backends, sweeps, ceilings, and targets to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from nsysprof.attention.shape import varied_columns
from nsysprof.report.document import Cell, Column, Table, Unit, make_table
from nsysprof.report.pages.cases import Row, time_name
from nsysprof.report.wording import is_telling, join_names, latency_text, times_as_long
from nsysprof.results.roof import MOST_PCT, known

_SWEEPS = (("seq", "Sequence lengths"), ("batch", "Batch sizes"), ("heads", "Heads"), ("head_dim", "Head dimensions"))
_CSV = "results.csv"
# "far behind": dropped before there were enough blocks for a test.
_SLOWER = ("slower", "far behind")


def median_cell(row: Row, prefix: str = "") -> Cell:
    """Return a median with its interval, unless that says nothing."""
    median, low, high = (known(row[f"{prefix}{part}_ns"]) for part in ("median", "low", "high"))
    if low is not None and high is not None and not is_telling(low, high):
        return Cell(median)
    return Cell(median, low=low, high=high)


def latency_table(table: pd.DataFrame) -> Table:
    """Return one row for each case with its verdict, the best first among cases with equal work."""
    own, other = _named(table)
    on_gpu = bool(table["peak_bytes"].notna().any())
    columns = (
        Column("case", Unit.NAME),
        Column(f"{time_name(own, on_gpu=on_gpu)} [95 %]", Unit.NS),
        Column("verdict"),
        Column(time_name(other, on_gpu=on_gpu), Unit.NS, drop=5),
        Column("as CUDA graph", Unit.NS, drop=2),
        Column("CV", Unit.PERCENT, drop=4),
        Column("p99 (p95)", Unit.NS, drop=3),
        Column("samples in blocks", drop=1),
        Column("by formula", Unit.FLOPS, drop=7),
        Column("least bytes", Unit.BYTES_PER_S, drop=8),
        Column("peak memory", Unit.BYTES, drop=6),
    )
    rows = [_latency_row(row, other) for row in _in_order(table)]
    return make_table("Latency", columns, rows, source=_CSV, terminal_rows=1000, document_rows=30)


def _named(table: pd.DataFrame) -> tuple[str, str]:
    """Return which column of the named times is the one that was judged, and which the other."""
    is_warm = "warm_ns" in table and bool((table["warm_ns"] == table["median_ns"]).any())
    is_cold = "cold_ns" in table and bool((table["cold_ns"] == table["median_ns"]).any())
    return ("warm_ns", "cold_ns") if is_warm and not is_cold else ("cold_ns", "warm_ns")


def _latency_row(row: Row, other: str) -> tuple[Any, ...]:
    p99 = known(row["p99_ns"])
    return (
        row["case"],
        median_cell(row),
        _verdict(row),
        known(row.get(other)),
        median_cell(row, "graph_"),
        known(row["cv_pct"]),
        known(row["p95_ns"]) if p99 is None else p99,
        f"{known(row['samples']) or 0:.0f} in {known(row['blocks']) or 0:.0f}",
        known(row["flops_per_s"]),
        known(row["bytes_per_s"]),
        known(row["peak_bytes"]),
    )


def ceiling_table(table: pd.DataFrame) -> Table:
    """Return how much of the device each case uses, relative to what was measured here and to the datasheet."""
    columns = {
        "measured_flops_pct": "of the matrix product here",
        "datasheet_flops_pct": "of the datasheet's FLOP/s",
        "measured_bytes_pct": "of the copy here",
        "datasheet_bytes_pct": "of its bandwidth",
    }
    rows = [(row["case"], *(_flagged(known(row[column])) for column in columns)) for row in _timed(table)]
    titles = (Column("case", Unit.NAME), *(Column(title, Unit.PERCENT) for title in columns.values()))
    return make_table("Share of the ceilings", titles, rows, source=_CSV, terminal_rows=0, document_rows=30)


def sweep_tables(table: pd.DataFrame) -> list[Table]:
    """Return a table for each dimension that the grid varies: latency, work, and work per time along it."""
    return [_sweep_table(table, column, title) for column, title in _SWEEPS if table[column].nunique() > 1]


def _sweep_table(table: pd.DataFrame, column: str, title: str) -> Table:
    others = [name for name in ("backend", *varied_columns(table)) if name != column and table[name].nunique() > 1]
    rows = []
    timed = table[table["median_ns"].notna()].sort_values([*others, column], kind="stable")
    for row in timed.to_dict("records"):
        sequences_per_s = row["batch"] / row["median_ns"] * 1e9
        rows.append(
            (
                ", ".join(f"{name}={row[name]}" for name in others) or str(row["backend"]),
                row[column],
                median_cell(row),
                row["flops_per_s"],
                row["bytes_per_s"],
                sequences_per_s,
                sequences_per_s * row["seq"],
            )
        )
    columns = (
        Column("of", Unit.NAME),
        Column(column, Unit.COUNT),
        Column("median [95 %]", Unit.NS),
        Column("by formula", Unit.FLOPS),
        Column("least bytes", Unit.BYTES_PER_S),
        Column("sequences", Unit.PER_S),
        Column("tokens", Unit.TOKENS_PER_S),
    )
    title = f"{title} (work differs from row to row)"
    return make_table(title, columns, rows, source=_CSV, terminal_rows=0, document_rows=30)


def failure_table(table: pd.DataFrame) -> Table:
    """Return every case that is not ranked, with its reason."""
    failed = table[~table["status"].isin(("ok",))]
    rows = [(row["case"], row["status"], row["reason"]) for row in failed.to_dict("records")]
    columns = (Column("case", Unit.NAME), Column("status"), Column("reason", Unit.PROSE))
    return make_table("Not ranked", columns, rows, source=_CSV, terminal_rows=1000, document_rows=30)


def target_table(table: pd.DataFrame) -> Table:
    """Return what a new kernel must reach for each shape for this bench to call it faster."""
    rows = [
        (
            row["case"],
            median_cell(row),
            known(row.get("to_beat_ns")),
            known(row["flops_per_s"]),
            known(row["peak_bytes"]),
        )
        for row in table[table["rank"] == 1].to_dict("records")
    ]
    columns = (
        Column("fastest of its shape", Unit.NAME),
        Column("median [95 %]", Unit.NS),
        Column("beaten below", Unit.NS),
        Column("by formula", Unit.FLOPS),
        Column("peak memory", Unit.BYTES),
    )
    return make_table("What must be beaten", columns, rows, source=_CSV, terminal_rows=0, document_rows=30)


def verdict_lines(table: pd.DataFrame) -> tuple[str, ...]:
    """Return one sentence for each shape."""
    varied = [name for name in varied_columns(table) if name == "seq" or table[name].nunique() > 1]
    lines = []
    ranked = table[table["rank"].notna()]
    for key, members in ranked.groupby([*varied_columns(table)], sort=False, dropna=False):
        shape = dict(zip(varied_columns(table), key, strict=True))
        label = ", ".join(f"{'S' if name == 'seq' else name}={shape[name]}" for name in varied)
        rows = members.sort_values("rank").to_dict("records")
        lines.append(f"{label}: {_sentence(rows)}.")
    return (*lines, *_without_interval(table))


def _without_interval(table: pd.DataFrame) -> tuple[str, ...]:
    """Return why intervals are not shown, and what to do about it."""
    hidden = [row for row in _timed(table) if known(row["low_ns"]) is not None]
    hidden = [row for row in hidden if not is_telling(row["low_ns"], row["high_ns"])]
    if not hidden:
        return ()
    processes = min(int(row["processes"]) for row in hidden)
    one = "one latency" if len(hidden) == 1 else f"{len(hidden)} latencies"
    return (
        f"The interval of {one} is not shown: {processes} processes differ so much that it says nothing. Give "
        f"--processes {processes + 1} or more.",
    )


def _sentence(rows: Sequence[Row]) -> str:
    best, rest = rows[0], rows[1:]
    tied = [row["backend"] for row in rest if row["verdict"] == "tie"]
    unknown = [row["backend"] for row in rest if row["verdict"] in ("inconclusive", "too few processes")]
    slower = [row for row in rest if row["verdict"] in _SLOWER]
    text = f"{best['backend']} takes {latency_text(best['median_ns'], known(best['low_ns']), known(best['high_ns']))}"
    if tied:
        text += f", a tie with {join_names(tied)}"
    if unknown:
        text += f"; not yet told from {join_names(unknown)}"
    if slower:
        text += f"; {times_as_long([(row['backend'], row['against_best']) for row in slower])}"
    return text


def _verdict(row: Row) -> Cell:
    if row["status"] != "ok":
        return Cell(str(row["status"]))
    if row["verdict"] in _SLOWER:
        return Cell(known(row["against_best"]), Unit.FACTOR, remark="as long")
    return Cell(str(row["verdict"]))


def _flagged(percent: float | None) -> Cell:
    return Cell(percent, remark="(impossible: see notes)" if percent is not None and percent > MOST_PCT else "")


def _timed(table: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    rows.extend(table[table["median_ns"].notna()].to_dict("records"))
    return rows


def _in_order(table: pd.DataFrame) -> list[Row]:
    columns = varied_columns(table)
    keys = list(zip(*(table[column].astype(str) for column in columns), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    order = [places[key] for key in keys]
    rows: list[Row] = []
    ranked = table.assign(_shape=order, _rank=pd.to_numeric(table["rank"]).fillna(1e9))
    rows.extend(ranked.sort_values(["_shape", "_rank"], kind="stable").to_dict("records"))
    return rows
