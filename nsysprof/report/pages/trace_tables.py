"""Compose the tables of one trace: ranges, kernels, copies, calls, streams, collectives, energy and GPU use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.arrays import Floats
from nsysprof.attention.range_name import range_label
from nsysprof.report.document import CAUSED_WORDS, OPERATORS, Cell, Column, Table, Unit, make_table, table_of, words_for
from nsysprof.report.pages.range_rows import RangeRow, qualified_name, range_rows
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.analysis_columns import LEDGER, PHASES
from nsysprof.results.findings import fold_paths, layer_shape
from nsysprof.results.roof import known
from nsysprof.units import format_ns

# The most rows on a page; the files have all rows.
MOST_ROWS = 500
# A range inside that has this part of the time of a call is where the call is made.
_NEARLY_ALL = 0.8
# The units of a GPU by the beginning of their names, those that tell the most first.
_UNITS = ("SMs Active", "SM Active", "Tensor Active", "NVLink", "PCIe", "SM Issue", "GR Active")


def range_table(analysis: Analysis) -> Table:
    """Return the tree of ranges: what each launched, adopted and captured together, and these parts separately."""
    words, rows = words_for(analysis.trace), range_rows(analysis)
    numbers = pd.DataFrame([row.numbers for row in rows])
    caused = [kind for kind in ("adopted", "captured") if len(rows) and (numbers[f"{kind}_kernel_count"] > 0).any()]
    sampled = bool(analysis.ranges["dram_read_bytes"].notna().any())
    settled = bool(analysis.ranges["warmup_instances"].sum())
    ways = (("read", "read"), ("written", "write"))
    columns: list[tuple[Column, Callable[[RangeRow], Any]]]
    columns = [
        (Column("range", Unit.NAME), _range_cell),
        (Column("n", Unit.COUNT, drop=8), _number("instances")),
        (Column(words.launches, Unit.COUNT, drop=2), _number("launch_count")),
        (Column(words.works, Unit.COUNT, drop=1), lambda row: row.sum_of("kernel_count")),
        *((Column(CAUSED_WORDS[kind], Unit.COUNT, drop=7), _number(f"{kind}_kernel_count")) for kind in caused),
        (Column(f"{words.device} total", Unit.NS), lambda row: row.sum_of("kernel_total_ns")),
        (Column(f"{words.device} busy", Unit.NS, drop=10), lambda row: row.busy_ns),
        (Column("of wall", Unit.SHARE, drop=9), _share_of_wall),
        (Column("wall", Unit.NS, drop=5), _number("wall_ns")),
        *([(Column("steady median", Unit.NS, drop=6), _number("steady_wall_med_ns"))] if settled else []),
        (Column("copied", Unit.BYTES, drop=4), lambda row: row.bytes_of("memcpy_bytes")),
        (Column("set", Unit.BYTES, drop=11), lambda row: row.bytes_of("memset_bytes")),
        (Column(f"peak {words.memory}", Unit.BYTES, drop=3), _number("peak_vram_bytes")),
        *((Column(f"DRAM {way}, sampled", Unit.BYTES, drop=9), _dram(of)) for way, of in ways if sampled),
    ]
    shown = rows[:MOST_ROWS]
    if analysis.is_of_cpu:  # nothing of a GPU is known, and nobody expects it
        columns = [(column, show) for column, show in columns if any(_is_known(show(row)) for row in shown)]
    return table_of(
        "Ranges",
        shown,
        columns,
        total_rows=len(analysis.range_tree),
        source="range_tree.csv",
        is_kept_empty=stream_table(analysis) is None
        and not analysis.is_of_cpu,  # in a program without ranges, streams are the main table
        terminal_rows=40,
        depths=tuple(row.depth for row in shown),
    )


def _is_known(cell: Any) -> bool:
    return (cell.value if isinstance(cell, Cell) else cell) is not None


def _range_cell(row: RangeRow) -> Cell:
    return Cell(row.name, full=row.full if range_label(row.full) != row.full else "")


def _number(name: str) -> Callable[[RangeRow], Any]:
    return lambda row: row.numbers[name]


def _dram(way: str) -> Callable[[RangeRow], Cell]:
    return lambda row: Cell(row.numbers[f"dram_{way}_bytes"], error=row.numbers[f"dram_{way}_error_bytes"])


def _share_of_wall(row: RangeRow) -> float | None:
    """Return the busy time in percent of the range's own.

    None where the work takes longer than the range, which only launches it: a share above 100 % is none.
    """
    busy, wall = row.busy_ns, row.numbers["wall_ns"]
    return None if busy is None or not wall or busy > wall else 100 * busy / wall


def kernel_table(analysis: Analysis) -> Table:
    """Return the kernels with the most total time."""
    words = words_for(analysis.trace)
    columns = {
        "label": Column(words.work, Unit.NAME),
        "category": Column("category", drop=3),
        "instances": Column("n", Unit.COUNT, drop=2),
        "share_pct": Column("share", Unit.SHARE),
        "total_ns": Column("total", Unit.NS),
        "med_ns": Column("median", Unit.NS, drop=1),
        "min_ns": Column("min", Unit.NS, drop=5),
        "max_ns": Column("max", Unit.NS, drop=4),
    }
    return _from_frame(
        f"Top {words.works}",
        analysis.kernels,
        columns,
        "kernels.csv",
        terminal_rows=10,
        document_rows=15,
        is_kept_empty=not analysis.is_of_cpu,
    )


def phase_table(phases: pd.DataFrame) -> Table:
    """Return the phases of inference, with their steps and times."""
    columns = (
        (Column("phase"), "phase"),
        (Column("steps", Unit.COUNT), "steps"),
        (Column("sequences", Unit.COUNT), "sequences"),
        (Column("tokens", Unit.COUNT), "tokens"),
        (Column("to the next step", Unit.NS), "interval_med_ns"),
        (Column("on the host", Unit.NS, drop=2), "host_med_ns"),
        (Column("kernels", Unit.COUNT, drop=3), "kernel_count"),
        (Column("of all kernels", Unit.PERCENT), "share_pct"),
        (Column("GPU works", Unit.PERCENT, drop=1), lambda row: _most_of_a_phase(row)[0]),
        (Column("most of its time", drop=4), lambda row: _most_of_a_phase(row)[1]),
    )
    rows = phases.reindex(columns=list(PHASES.names)).to_dict("records")
    return table_of("Phases of inference, medians of a step", rows, columns, source="phases.csv")


# So many kinds of work and causes of idle time of a phase are named.
_MOST_OF_A_PHASE = 2


def _most_of_a_phase(row: Mapping[Any, Any]) -> tuple[float | None, str | None]:
    """Return the share of a phase's steps in which the GPU works (percent), and what most of their time is."""
    parts = {str(name): float(row[name]) for name in LEDGER if known(row[name])}
    whole = sum(parts.values())
    if not whole:
        return None, None
    working = sum(time for name, time in parts.items() if name.startswith("busy_"))
    most = sorted(parts.items(), key=lambda part: -part[1])[:_MOST_OF_A_PHASE]
    names = {name: name.removeprefix("busy_").removesuffix("_ns").replace("_", "-") for name, _ in most}
    return 100 * working / whole, ", ".join(f"{format_ns(time)} {names[name]}" for name, time in most if time > 0)


def operator_table(analysis: Analysis) -> Table | None:
    """Return the operators with the most kernel time of a step; None where none were recorded."""
    if analysis.operators is None or not len(analysis.operators):
        return None
    columns = {
        "operator": Column("operator", Unit.NAME),
        "shapes": Column("shapes", Unit.NAME),
        "dtype": Column("type", drop=5),
        "pass": Column("pass", drop=4),
        "layer": Column("layer", Unit.NAME),
        "calls": Column("calls", Unit.COUNT, drop=3),
        "kernel_total_ns": Column("a step", Unit.NS),
        "floor_ns": Column("least time", Unit.NS, drop=1),
        "limit": Column("limit", drop=2),
    }
    title, file = "Operators of a step", "operators.csv"
    return _from_frame(title, fold_operators(analysis.operators), columns, file, terminal_rows=8, document_rows=20)


def fold_operators(table: pd.DataFrame) -> pd.DataFrame:
    """Return the operators of a table as operators.csv has it, with equal ones in layers of one list as one.

    These have the same shapes, type and pass; unknown shapes count as equal. The longest one gives the limit.
    """
    rows = table.assign(
        operator=table["operator"].str.removeprefix("aten::"),
        shape=[layer_shape("" if pd.isna(layer) else layer) for layer in table["layer"]],
    )
    keys = ["operator", "shapes", "dtype", "pass", "shape"]
    folded = rows.groupby(keys, sort=False, dropna=False).agg(
        layer=("layer", lambda layers: fold_paths(layers.dropna().drop_duplicates().tolist()) or None),
        calls=("calls", "sum"),
        kernel_total_ns=("kernel_total_ns", "sum"),
        floor_ns=("floor_ns", lambda floors: floors.sum(skipna=False)),
        limit=("limit", "first"),
    )
    return folded.reset_index().sort_values("kernel_total_ns", ascending=False, kind="stable").reset_index(drop=True)


def layer_table(analysis: Analysis) -> Table | None:
    """Return the layers with the most kernel time; None where none were recorded."""
    if analysis.layers is None or not len(analysis.layers):
        return None
    words, folded = words_for(analysis.trace), fold_layers(analysis.layers)
    folded["layer"] = folded["layer"].where(folded["layer"] != "", "(no module)")
    folded["share_pct"] = 100.0 * folded["own_ns"] / max(1, int(folded["own_ns"].sum()))
    columns = {
        "layer": Column("layer", Unit.NAME),
        "pass": Column("pass", drop=5),
        "modules": Column("modules", Unit.COUNT, drop=3),
        "calls": Column("calls", Unit.COUNT, drop=2),
        "kernel_count": Column(words.works, Unit.COUNT, drop=1),
        "total_ns": Column("with inner", Unit.NS),
        "own_ns": Column("own", Unit.NS),
        "share_pct": Column("own share", Unit.SHARE, drop=4),
        "odd": Column("odd one", drop=6),
    }
    return _from_frame("Layers", folded, columns, "layers.csv", terminal_rows=12, document_rows=40)


def kernel_counter_table(analysis: Analysis) -> Table | None:
    """Return the counters of the kernels with the most total time, per instance; None where none were counted."""
    if "counted_instances" not in analysis.kernels or not analysis.kernels["counted_instances"].notna().any():
        return None
    counted = analysis.kernels[analysis.kernels["counted_instances"].notna()]
    columns = {
        "label": Column("kernel", Unit.NAME),
        "counted_instances": Column("counted", Unit.COUNT),
        "dram_read_bytes": Column("DRAM read", Unit.BYTES),
        "dram_write_bytes": Column("DRAM written", Unit.BYTES),
        "l2_bytes": Column("through L2", Unit.BYTES),
        "l2_hit_pct": Column("L2 hits", Unit.WHOLE_PERCENT),
        "l1_bytes": Column("through L1", Unit.BYTES),
        "sm_pct": Column("SMs", Unit.WHOLE_PERCENT),
        "tensor_pct": Column("tensor cores", Unit.WHOLE_PERCENT),
        "occupancy_pct": Column("occupancy", Unit.WHOLE_PERCENT),
        "registers": Column("registers", Unit.COUNT),
        "shared_bytes": Column("shared memory", Unit.BYTES),
    }
    title = "Counters of kernels (mean of the counted instances)"
    return _from_frame(title, counted, columns, "kernels.csv", terminal_rows=0, document_rows=15)


def gpu_use_table(analysis: Analysis) -> Table | None:
    """Return how much of each sampled unit was used, by range; None where nothing was sampled."""
    use = analysis.gpu_use
    if not len(use):
        return None
    metrics = sorted(dict.fromkeys(use["metric"]), key=_place_of_unit)
    cells: dict[tuple[Any, ...], dict[str, Cell]] = {}
    for row in use.to_dict("records"):
        place = tuple(known(row[column]) for column in ("range", "style", "domain"))
        cells.setdefault(place, {})[row["metric"]] = Cell(row["mean_pct"], error=row["error_pct"])
    columns = [Column("range", Unit.NAME), *(Column(name, Unit.PERCENT, drop=at) for at, name in enumerate(metrics, 1))]
    rows = [
        (qualified_name(name, domain), *(of.get(metric) for metric in metrics))
        for (name, _, domain), of in cells.items()
    ]
    shown = rows[:MOST_ROWS]
    return make_table(
        "Use of the GPU's units (sampled)", columns, shown, total_rows=len(rows), source="gpu_use.csv", terminal_rows=8
    )


def _place_of_unit(metric: str) -> int:
    return next((at for at, name in enumerate(_UNITS) if metric.lower().startswith(name.lower())), len(_UNITS))


def collective_table(analysis: Analysis) -> Table | None:
    """Return NCCL's collectives with their bus bandwidth; None without any."""
    if not len(analysis.collectives):
        return None
    collectives = analysis.collectives
    several = collectives["device_id"].nunique() > 1
    columns = [
        (Column("operation", Unit.NAME), "operation"),
        *([(Column("device"), "device_id")] if several else []),
        (Column("ranks", Unit.COUNT, drop=5), "ranks"),
        (Column("message", Unit.BYTES), lambda row: _or_reason(row["message_bytes"], "unknown")),
        (Column("n", Unit.COUNT, drop=3), "kernel_count"),
        (Column("total", Unit.NS), "kernel_total_ns"),
        (Column("median", Unit.NS, drop=2), "kernel_med_ns"),
        (Column("bus bandwidth", Unit.BYTES_PER_S), lambda row: _or_reason(row["bus_bytes_per_s"], row["reason"])),
        (Column("its best", Unit.BYTES_PER_S, drop=1), "most_bus_bytes_per_s"),
    ]
    title, rows = "Collectives of NCCL (times include waiting for other ranks)", collectives.head(MOST_ROWS)
    shown = {"source": "collectives.csv", "terminal_rows": 10, "document_rows": 20}
    return table_of(title, rows.to_dict("records"), columns, total_rows=len(collectives), **shown)


def _or_reason(number: Any, reason: str) -> Cell:
    return Cell(known(number), reason=reason if known(number) is None else "")


def energy_table(analysis: Analysis) -> Table | None:
    """Return the energy of each range, the most first after the whole trace; None where it was not sampled."""
    table = analysis.energy
    if not len(table):
        return None
    order = np.lexsort((-table["energy_j"].fillna(-1.0).to_numpy(dtype=float), table["range"].notna()))
    table = table.iloc[order]
    several = table["device_id"].nunique() > 1
    columns = [
        (Column("range", Unit.NAME), lambda row: qualified_name(row["range"], row["domain"])),
        *([(Column("device", drop=3), "device_id")] if several else []),
        (Column("n", Unit.COUNT, drop=2), "instances"),
        (Column("energy", Unit.JOULES), energy_cell),
        (Column("mean power", Unit.WATTS), "mean_w"),
        (Column("of the time", Unit.NS, drop=1), "covered_ns"),
    ]
    title, rows = "Energy of the board while work ran", table.head(MOST_ROWS).to_dict("records")
    return table_of(title, rows, columns, total_rows=len(table), source="energy.csv", terminal_rows=8)


def energy_cell(row: Mapping[Any, Any]) -> Cell:
    """Return the energy of a row with the bound on its error, or why it is unknown."""
    return Cell(known(row["energy_j"]), error=known(row["error_j"]), reason=row["reason"])


def memop_table(analysis: Analysis) -> Table:
    """Return copies and fills by operation."""
    columns = {
        "operation": Column("operation", Unit.NAME),
        "count": Column("count", Unit.COUNT),
        "total_ns": Column("total", Unit.NS),
        "total_bytes": Column("bytes", Unit.BYTES),
        "bytes_per_s": Column("bandwidth", Unit.BYTES_PER_S),
        "pageable_count": Column("pageable", Unit.COUNT),
        "pinned_count": Column("pinned", Unit.COUNT),
        "max_bytes": Column("largest", Unit.BYTES),
    }
    return _from_frame("Copies and fills", analysis.memops, columns, "memops.csv", terminal_rows=0, document_rows=20)


def stream_table(analysis: Analysis) -> Table | None:
    """Return what each stream ran; None for a trace without a GPU. The terminal shows it where there are no ranges."""
    if words_for(analysis.trace).device != "GPU" or not len(analysis.streams):
        return None
    several = analysis.streams["device_id"].nunique() > 1
    columns = {
        **({"device_id": Column("device", drop=4)} if several else {}),
        "stream": Column("stream", Unit.NAME),
        "threads": Column("threads", Unit.COUNT, drop=3),
        "kernel_count": Column("kernels", Unit.COUNT),
        "kernel_total_ns": Column("kernel total", Unit.NS, drop=2),
        "memcpy_bytes": Column("copied", Unit.BYTES),
        "memset_bytes": Column("set", Unit.BYTES, drop=1),
        "busy_ns": Column("busy", Unit.NS),
        "span_ns": Column("first to last work", Unit.NS, drop=5),
    }
    rows = 0 if len(analysis.ranges) else 12
    return _from_frame("Streams", analysis.streams, columns, "streams.csv", terminal_rows=rows, document_rows=15)


def api_table(analysis: Analysis) -> Table | None:
    """Return the API calls with the most total time; None for operators, which are in the table of kernels.

    The terminal shows them where no range has any.
    """
    if words_for(analysis.trace) is OPERATORS:
        return None
    columns = {
        "name": Column("call", Unit.NAME),
        "calls": Column("calls", Unit.COUNT),
        "total_ns": Column("total", Unit.NS),
        "med_ns": Column("median", Unit.NS),
        "max_ns": Column("max", Unit.NS),
    }
    rows = 0 if len(analysis.range_api) else 8
    return _from_frame("API calls", analysis.api, columns, "api.csv", terminal_rows=rows, document_rows=15)


def range_api_table(analysis: Analysis) -> Table | None:
    """Return the API calls, or operators, in which each range spent the most time; None where no range has any.

    range_api.csv has each call once for every range around it. The table leaves a range out where another range inside
    it has nearly all of the time of the call.
    """
    if not len(analysis.range_api):
        return None
    title, what = ("Operators", "operator") if words_for(analysis.trace) is OPERATORS else ("API calls", "call")
    columns = {
        "range": Column("range", Unit.NAME),
        "name": Column(what, Unit.NAME),
        "calls": Column("calls", Unit.COUNT, drop=1),
        "total_ns": Column("total", Unit.NS),
        "wall_pct": Column("of wall", Unit.SHARE),
    }
    shown = _once(_innermost(analysis.range_api, _ranges_inside(analysis.range_tree)))
    shown = shown.assign(range=[range_label(str(name)) for name in shown["range"]])
    return _from_frame(
        f"{title} by range (nested ranges included)",
        shown, columns, "range_api.csv", terminal_rows=8, document_rows=20,
    )  # fmt: skip


_RangeKey = tuple[str, str, str]


def _ranges_inside(tree: pd.DataFrame) -> dict[_RangeKey, set[_RangeKey]]:
    """Return which ranges are somewhere inside of each. tree: the rows of range_tree.csv, each after its parent."""
    inside: dict[_RangeKey, set[_RangeKey]] = {}
    above: list[_RangeKey] = []
    for key, depth in zip(_range_keys(tree), tree["depth"].tolist(), strict=True):
        above = [*above[:depth], key]
        for outer in above[:-1]:
            inside.setdefault(outer, set()).add(key)
    return inside


def _range_keys(table: pd.DataFrame) -> list[_RangeKey]:
    names = [table[name].fillna("").astype(str).tolist() for name in ("range", "style", "domain")]
    return list(zip(*names, strict=True))


def _innermost(table: pd.DataFrame, inside: Mapping[_RangeKey, set[_RangeKey]]) -> pd.DataFrame:
    """Return the rows without those whose calls are nearly all in one range inside, which has a row of its own."""
    keys, names = _range_keys(table), table["name"].tolist()
    total = dict(zip(zip(keys, names, strict=True), table["total_ns"].tolist(), strict=True))
    kept = [
        all(total.get((inner, name), 0) < _NEARLY_ALL * own for inner in inside.get(key, ()) if inner != key)
        for (key, name), own in total.items()
    ]
    return table[kept]


def _once(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with one for each range that has the same calls as a start/end and as a push/pop range.

    A capture opens each of its ranges as both.
    """
    same = ["range", "domain", "name", "calls", "total_ns"]
    both = table.assign(domain=table["domain"].astype(object).fillna("")).duplicated(same, keep=False)
    return table[~(both & (table["style"] == "StartEnd"))]


def _from_frame(title: str, frame: pd.DataFrame, columns: Mapping[str, Column], source: str, **fields: Any) -> Table:
    """Return a table of these columns of a data frame.

    fields: other fields of Table.
    """
    shown = frame.head(MOST_ROWS)
    rows = rows_of(shown, list(columns))
    if "label" in columns:  # a short form of the name
        cells = [Cell(str(row[0]), full=str(name)) for row, name in zip(rows, shown["name"], strict=True)]
        rows = [(cell, *row[1:]) for cell, row in zip(cells, rows, strict=True)]
    return make_table(title, columns.values(), rows, total_rows=len(frame), source=source, **fields)


def rows_of(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the cells of these columns as Python values, None for NA."""
    return [tuple(known(row[column]) for column in columns) for row in frame.to_dict("records")]


# One of at least three equal layers is odd if its time is further than a fifth from the median, and three times as far
# from it as the time of any other.
_LEAST_EQUAL, _ODD, _ODD_TIMES = 3, 0.2, 3.0


def fold_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the layers of a table as layers.csv has it, where those of one list, which differ in a number, are one.

    Columns: layer (`layers.[0-31].mlp`), pass, modules, calls, kernel_count, own_ns and total_ns of their kernels
    without and with inner modules, odd: the one module whose kernels take much longer or shorter than the others'.
    """
    rows = table[["layer", "pass", "calls", "kernel_count", "kernel_total_ns"]].copy()
    rows["layer"], rows["pass"] = rows["layer"].fillna(""), rows["pass"].fillna("")
    rows["calls"] = rows["calls"].fillna(0).astype("int64")
    total_of: dict[tuple[str, str], int] = {}
    for layer, way, total in zip(rows["layer"], rows["pass"], rows["kernel_total_ns"].tolist(), strict=True):
        parts = layer.split(".")
        for depth in range(1, len(parts) + 1):
            outer = ".".join(parts[:depth]), way
            total_of[outer] = total_of.get(outer, 0) + total
    rows["total_ns"] = [total_of[key] for key in zip(rows["layer"], rows["pass"], strict=True)]
    rows["shape"] = [layer_shape(layer) for layer in rows["layer"]]
    rows["class"] = table["class"].fillna("")
    folded = []
    for (_, way, _), group in rows.groupby(["shape", "pass", "class"], sort=False):
        folded.append({
            "layer": fold_paths(group["layer"].tolist()), "pass": way, "modules": len(group),
            "calls": int(group["calls"].sum()), "kernel_count": int(group["kernel_count"].sum()),
            "own_ns": int(group["kernel_total_ns"].sum()), "total_ns": int(group["total_ns"].sum()),
            "odd": _odd_one(group["layer"].tolist(), group["total_ns"].to_numpy(dtype=np.float64)),
        })  # fmt: skip
    return pd.DataFrame(folded).sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _odd_one(layers: list[str], totals_ns: Floats) -> str:
    """Return which of equal layers stands out, and by how much; "" where none does."""
    median = float(np.median(totals_ns))
    if len(layers) < _LEAST_EQUAL or median <= 0:
        return ""
    away = np.abs(totals_ns / median - 1)
    place = int(away.argmax())
    others = np.delete(away, place)
    if away[place] < _ODD or away[place] < _ODD_TIMES * others.max():
        return ""
    return f"{layers[place]}: {totals_ns[place] / median:.2g} times the median"
