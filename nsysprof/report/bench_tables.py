"""The tables of a bench as text cells: who is fastest, the sweeps, what must be beaten."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from nsysprof.report.tables import Row, Table, value
from nsysprof.units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_interval_ns,
    format_ns,
    format_percent,
    format_rate,
    format_ratio,
)

_SHAPE = ("seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass")
_SWEEPS = (("seq", "Sequence lengths"), ("batch", "Batch sizes"), ("heads", "Heads"), ("head_dim", "Head dimensions"))
_KEYS = {"seq": "S", "batch": "B", "heads": "H", "kv_heads": "KV", "head_dim": "D"}
_CSV = "results.csv"
# "far behind": dropped before there were enough blocks for a test.
_SLOWER = ("slower", "far behind")


def shape_columns(table: pd.DataFrame) -> list[str]:
    """The columns that make a shape; heads of k and v only where they are not those of q."""
    grouped = "kv_heads" in table and (table["kv_heads"] != table["heads"]).any()
    return [column for column in _SHAPE if column in table and (column != "kv_heads" or grouped)]


def shape_label(names: Sequence[str], values: Sequence[object]) -> str:
    """A shape in few characters: `KV=4 D=64 causal fwd`."""
    words = []
    for name, each in zip(names, values, strict=True):
        key = _KEYS.get(name, "")
        words.append(("causal" if each else "full") if name == "causal" else f"{key}={each}" if key else str(each))
    return " ".join(words)


def format_median(row: Row, prefix: str = "") -> str:
    """`52.54 [50.30, 54.46] us`."""
    median, low, high = (value(row[f"{prefix}{part}_ns"]) for part in ("median", "low", "high"))
    if median is None:
        return UNKNOWN
    return format_ns(median) if low is None else format_interval_ns(median, low, high)


def latency_table(table: pd.DataFrame, *, short: bool = False) -> Table:
    """One row a cell with its verdict, best first within equal work; short: as wide as a terminal."""
    rows = []
    for row in _in_order(table):
        p99 = value(row["p99_ns"])
        cells = [
            row["case"],
            format_median(row),
            _verdict(row),
            format_median(row, "graph_"),
            format_percent(value(row["cv_pct"])),
            format_ns(value(row["p95_ns"])) if p99 is None else format_ns(p99),
            f"{value(row['samples']) or 0:.0f} in {value(row['blocks']) or 0:.0f}",
        ]
        if not short:
            cells += [
                format_rate(value(row["flops_per_s"]), "FLOP/s"),
                format_rate(value(row["bytes_per_s"]), "B/s"),
                format_bytes(value(row["peak_bytes"])),
            ]
        rows.append(tuple(cells))
    headers = ["case", "median [95 %]", "verdict", "as CUDA graph", "CV", "p99 (p95)", "samples in blocks"]
    if not short:
        headers += ["by formula", "least bytes", "peak memory"]
    return Table("Latency", tuple(headers), tuple(rows), frozenset({0}), len(rows), _CSV)


def ceiling_table(table: pd.DataFrame) -> Table:
    """What each case reaches of the device, against what was measured here and what the datasheet says."""
    columns = ("measured_flops_pct", "datasheet_flops_pct", "measured_bytes_pct", "datasheet_bytes_pct")
    rows = [(row["case"], *(_flagged(value(row[column])) for column in columns)) for row in _timed(table)]
    headers = (
        "case",
        "of the matrix product here",
        "of the datasheet's FLOP/s",
        "of the copy here",
        "of its bandwidth",
    )
    return Table("Of the ceilings", headers, tuple(rows), frozenset({0}), len(rows), _CSV)


def sweep_tables(table: pd.DataFrame) -> list[Table]:
    """For each dimension that the grid varies and each fixed rest: latency, work and its rate along it."""
    tables = []
    for column, title in _SWEEPS:
        if table[column].nunique() < 2:
            continue
        others = [name for name in ("backend", *shape_columns(table)) if name != column and table[name].nunique() > 1]
        rows = []
        timed = table[table["median_ns"].notna()].sort_values([*others, column], kind="stable")
        for row in timed.to_dict("records"):
            each = row["batch"] / row["median_ns"] * 1e9
            rows.append(
                (
                    ", ".join(f"{name}={row[name]}" for name in others) or str(row["backend"]),
                    format_count(row[column]),
                    format_median(row),
                    format_rate(row["flops_per_s"], "FLOP/s"),
                    format_rate(row["bytes_per_s"], "B/s"),
                    f"{format_count(round(each))}/s",
                    format_rate(each * row["seq"], "tokens/s"),
                )
            )
        headers = ("of", column, "median [95 %]", "by formula", "least bytes", "sequences", "tokens")
        headline = f"{title} (work differs from row to row)"
        tables.append(Table(headline, headers, tuple(rows), frozenset({0}), len(rows), _CSV))
    return tables


def failure_table(table: pd.DataFrame) -> Table:
    """Every cell that is not ranked, with its reason."""
    failed = table[~table["status"].isin(("ok",))]
    rows = [(row["case"], row["status"], row["reason"]) for row in failed.to_dict("records")]
    return Table("Not ranked", ("case", "status", "reason"), tuple(rows), frozenset({0, 2}), len(rows), _CSV)


def target_table(table: pd.DataFrame, floor_pct: float | None) -> Table:
    """What a new kernel has to reach for each shape so that this bench would call it faster."""
    rows = []
    for row in table[table["rank"] == 1].to_dict("records"):
        least = (value(row["low_ns"]) or row["median_ns"]) / (1 + (floor_pct or 0) / 100)
        rows.append((row["case"], format_median(row), format_ns(least), format_rate(row["flops_per_s"], "FLOP/s"),
                     format_bytes(value(row["peak_bytes"]))))  # fmt: skip
    headers = ("fastest of equal work", "median [95 %]", "beaten below", "by formula", "peak memory")
    return Table("What must be beaten", headers, tuple(rows), frozenset({0}), len(rows), _CSV)


def verdict_lines(table: pd.DataFrame) -> list[str]:
    """One sentence a shape."""
    varied = [name for name in shape_columns(table) if name == "seq" or table[name].nunique() > 1]
    lines = []
    ranked = table[table["rank"].notna()]
    for key, members in ranked.groupby([*shape_columns(table)], sort=False, dropna=False):
        shape = dict(zip(shape_columns(table), key, strict=True))
        label = ", ".join(f"{'S' if name == 'seq' else name}={shape[name]}" for name in varied)
        rows = members.sort_values("rank").to_dict("records")
        lines.append(f"{label}: {_sentence(rows)}.")
    return lines


def _sentence(rows: Sequence[Row]) -> str:
    best, rest = rows[0], rows[1:]
    tied = [row["backend"] for row in rest if row["verdict"] == "tie"]
    unknown = [row["backend"] for row in rest if row["verdict"] == "too few samples"]
    slower = [f"{row['backend']} {format_ratio(row['against_best'])}" for row in rest if row["verdict"] in _SLOWER]
    text = f"{best['backend']} takes {format_median(best)}"
    if tied:
        text += f", no different from {', '.join(tied)}"
    if unknown:
        text += f"; too few samples to tell it from {', '.join(unknown)}"
    if slower:
        text += f"; {', '.join(slower)} as long"
    return text


def _verdict(row: Row) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    ratio = value(row["against_best"])
    return f"{format_ratio(ratio)} as long" if row["verdict"] in _SLOWER else str(row["verdict"])


def _flagged(percent: float | None) -> str:
    text = format_percent(percent)
    return text if percent is None or percent <= 100 else f"{text} (impossible: see notes)"


def _timed(table: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    rows.extend(table[table["median_ns"].notna()].to_dict("records"))
    return rows


def _in_order(table: pd.DataFrame) -> list[Row]:
    columns = shape_columns(table)
    keys = list(zip(*(table[column].astype(str) for column in columns), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    order = [places[key] for key in keys]
    rows: list[Row] = []
    ranked = table.assign(_shape=order, _rank=pd.to_numeric(table["rank"]).fillna(1e9))
    rows.extend(ranked.sort_values(["_shape", "_rank"], kind="stable").to_dict("records"))
    return rows
