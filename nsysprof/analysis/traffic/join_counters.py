"""Join the counters of ncu with the trace, by case and by kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from nsysprof.notes import Note, make_note
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.analysis_columns import KERNEL_COUNTERS
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.csv_table import pandas_dtype
from nsysprof.results.kernel_counters import COUNTED_COLUMNS, CountedKernel, CountedLaunches, Run
from nsysprof.results.roof import known

KERNEL_COUNTER_COLUMNS = tuple(column.name for column in KERNEL_COUNTERS)
_UTILISATION = ("l2_pct", "sm_pct", "tensor_pct", "fma_pct", "occupancy_pct")


def counted_table(kernels: Iterable[CountedKernel]) -> pd.DataFrame:
    """Return one row per launch and run, with run, range, position, kernel, name, symbol, gpu, passes and counters.

    A counter that was not measured is NaN.
    """
    fixed = ("run", "range", "position", "kernel", "name", "symbol", "gpu", "passes")
    rows = [{**{name: getattr(kernel, name) for name in fixed}, **kernel.values} for kernel in kernels]
    table = pd.DataFrame(rows, columns=[*fixed, *COUNTED_COLUMNS])
    values = table.columns[len(fixed) - 1 :]
    table[values] = table[values].astype(float)
    return table


def of_this_gpu(counted: pd.DataFrame, gpu_name: str | None) -> tuple[pd.DataFrame, list[Note]]:
    """Return the launches that ncu counted on the capture's GPU; none, with a note, where ncu names another GPU."""
    others = sorted({gpu for gpu in counted["gpu"] if gpu and gpu_name and gpu != gpu_name})
    if not others:
        return counted, []
    return counted.iloc[:0], [make_note("counters-of-another-gpu", counted=", ".join(others), captured=gpu_name)]


def join_launches(
    launches: Sequence[CountedLaunches], kernels: Iterable[CountedKernel], gpu_name: str | None
) -> list[CountedLaunches]:
    """Return the launches of a trace with the one of each kernel and grid that ncu counted of the program.

    A launch that was counted within a range belongs to a case of a grid, and one of another GPU to none.
    """
    counted = {
        (name, kernel.grid, kernel.block): kernel
        for kernel in kernels
        if not kernel.range and kernel.run is Run.DETAIL and gpu_name in (kernel.gpu, None, "")
        for name in (kernel.symbol, kernel.kernel)
        if name
    }
    return [
        replace(part, counted=next((counted[key] for key in _keys_of(part) if key in counted), None))
        for part in launches
    ]


def _keys_of(part: CountedLaunches) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, part.grid, part.block) for name in (part.symbol, part.kernel))


def with_launch_counters(analysis: Analysis, launches: Sequence[CountedLaunches]) -> Analysis:
    """Return the analysis with KERNEL_COUNTER_COLUMNS in kernels.csv: means over launches, one counted of each grid."""
    parts: dict[str, list[tuple[CountedLaunches, dict[str, Any]]]] = {}
    for part in launches:
        if part.counted is not None:
            runs = counted_table(replace(part.counted, run=run) for run in Run)
            parts.setdefault(part.kernel, []).append((part, _kernel(runs)))
    rows = [_over_grids(parts[name]) if name in parts else None for name in map(str, analysis.kernels["name"])]
    return replace(analysis, kernels=_joined(analysis.kernels, rows))


def _over_grids(parts: Sequence[tuple[CountedLaunches, dict[str, Any]]]) -> dict[str, Any]:
    """Return the counters of a kernel over its grids: means by the number of launches, the most registers."""
    row: dict[str, Any] = {"counted_instances": len(parts)}
    launched = sum(part.instances for part, _ in parts)
    for column in KERNEL_COUNTER_COLUMNS[1:]:
        values = [values[column] for _, values in parts]
        if any(value is None for value in values):
            row[column] = None
        elif column in ("registers", "shared_bytes"):
            row[column] = max(values)
        else:
            row[column] = sum(v * part.instances for v, (part, _) in zip(values, parts, strict=True)) / launched
    return row


def fill_counters(results: pd.DataFrame, counted: pd.DataFrame) -> tuple[pd.DataFrame, list[Note]]:
    """Return `results` with the counters of one call of each case, and notes on mismatches.

    Bytes of DRAM come from the traffic run, everything else from the detail run. A counter is NA where there is none,
    or where not all kernels were counted.
    """
    filled, notes = results.copy(), list[Note]()
    by_case = {str(name): rows for name, rows in counted.groupby("range", sort=False)}
    columns: dict[str, list[Any]] = {column: [] for column in _case({}, None)}
    for row in results.to_dict("records"):
        of_case = by_case.get(str(row["range"]))
        by_run = None if of_case is None else {str(run): rows for run, rows in of_case.groupby("run")}
        calls, total = known(row["traced_calls"]), known(row["kernel_count"])
        traced = None if total is None or not calls else total / calls
        for column, value in _case(by_run or {}, traced).items():
            columns[column].append(value)
        numbers = sorted({len(rows) for rows in (by_run or {}).values()})
        if traced is not None and numbers and any(number != traced for number in numbers):
            numbers_text = " and ".join(map(str, numbers))
            notes.append(make_note("counted-other-kernels", range=row["range"], counted=numbers_text, traced=traced))
    for column, values in columns.items():
        filled[column] = pd.array(values, dtype=pandas_dtype(CAPTURE_RESULTS.by_name[column]))
    return filled, notes


def _case(runs: dict[str, pd.DataFrame], traced: float | None) -> dict[str, Any]:
    """Return the counters of one case; all are None where it was not counted."""
    traffic, detail = runs.get(Run.TRAFFIC.value), runs.get(Run.DETAIL.value)
    number = traced if traffic is None else len(traffic)
    whole = detail if detail is not None and (number is None or len(detail) == number) else None
    natural = traffic if traffic is not None and (traffic["passes"].fillna(1) == 1).all() else None
    sectors = _sum(whole, "l2_sectors")
    return {
        "counted_kernels": number if traffic is not None or whole is not None else None,
        "counted_time_ns": _whole(_sum(natural, "time_ns")),
        "counted_read_bytes": _whole(_sum(natural, "dram_read_bytes")),
        "counted_write_bytes": _whole(_sum(natural, "dram_write_bytes")),
        "counted_l2_bytes": _whole(_sum(whole, "l2_bytes")),
        "counted_l1_bytes": _whole(_sum(whole, "l1_bytes")),
        "counted_flops": _add(_sum(whole, "tensor_flops"), _sum(whole, "fp32_flops")),
        "l2_hit_pct": _percent(_sum(whole, "l2_hit_sectors"), sectors),
        **{column: _rate(detail, column) for column in _UTILISATION},
    }


def _sum(rows: pd.DataFrame | None, column: str) -> float | None:
    """Return the sum over all launches; None where a launch has no value."""
    return None if rows is None or rows[column].isna().any() else float(rows[column].sum())


def _rate(rows: pd.DataFrame | None, column: str) -> float | None:
    """Return the mean, weighted by time."""
    if rows is None or rows[column].isna().any() or not rows["time_ns"].sum() > 0:
        return None
    return round(float((rows[column] * rows["time_ns"]).sum() / rows["time_ns"].sum()), 2)


def _add(*parts: float | None) -> float | None:
    """Return the sum of counters that some GPUs lack; None where this GPU has none of them."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else round(100 * part / whole, 2)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def with_kernel_counters(
    analysis: Analysis, counted: pd.DataFrame, symbols: dict[str, frozenset[str]]
) -> tuple[Analysis, list[Note]]:
    """Return the analysis with KERNEL_COUNTER_COLUMNS in its tables of kernels: means over the counted instances.

    A kernel of kernels.csv that runs in several ranges is weighted by its instances there.

    symbols: the trace's mangled names, by demangled name.
    """
    by_symbol = {symbol: name for name, all_of in symbols.items() for symbol in all_of}
    names: Any = [
        kernel or by_symbol.get(str(symbol))
        for kernel, symbol in zip(counted["kernel"], counted["symbol"], strict=True)
    ]
    named = counted.assign(kernel=names)
    unknown = named[named["kernel"].isna()]
    rows = {
        (str(key[0]), str(key[1])): _kernel(launches)
        for key, launches in named.dropna(subset=["kernel"]).groupby(["range", "kernel"], sort=False)
    }
    ranges = _joined(analysis.range_kernels, [rows.get(key) for key in _keys(analysis.range_kernels)])
    kernels = _joined(analysis.kernels, [_over_ranges(name, ranges) for name in analysis.kernels["name"]])
    notes = []
    if len(unknown):
        some = ", ".join(sorted(set(unknown["name"].str.slice(0, 60)))[:3])
        notes.append(make_note("counted-not-traced", unknown=len(unknown), counted=len(counted), names=some))
    return replace(analysis, range_kernels=ranges, kernels=kernels), notes


def _keys(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(table["range"].astype(str), table["name"].astype(str), strict=True))


def _joined(table: pd.DataFrame, rows: Sequence[dict[str, Any] | None]) -> pd.DataFrame:
    joined = table.copy()
    for column in KERNEL_COUNTERS:
        values: list[Any] = [None if row is None else row[column.name] for row in rows]
        if column.dtype is Dtype.INTEGER:
            values = [_whole(value) for value in values]
        else:
            values = [None if value is None else round(value, 2) for value in values]
        joined[column.name] = pd.array(values, dtype=pandas_dtype(column))
    return joined


def _kernel(launches: pd.DataFrame) -> dict[str, Any]:
    """Return means over the launches of one kernel in one range."""
    traffic, detail = (launches[launches["run"] == run.value] for run in (Run.TRAFFIC, Run.DETAIL))
    longest = detail.sort_values("time_ns").tail(1)
    return {
        "counted_instances": max(len(traffic), len(detail)),
        "dram_read_bytes": _mean(traffic, "dram_read_bytes"),
        "dram_write_bytes": _mean(traffic, "dram_write_bytes"),
        "l2_bytes": _mean(detail, "l2_bytes"),
        "l2_hit_pct": _percent(_mean(detail, "l2_hit_sectors"), _mean(detail, "l2_sectors")),
        "l1_bytes": _mean(detail, "l1_bytes"),
        "flops": _add(_mean(detail, "tensor_flops"), _mean(detail, "fp32_flops")),
        **{column: _rate(detail, column) for column in _UTILISATION},
        **{column: _mean(longest, column) for column in ("registers", "shared_bytes")},
    }


def _mean(rows: pd.DataFrame, column: str) -> float | None:
    return None if not len(rows) or rows[column].isna().any() else float(rows[column].mean())


def _over_ranges(name: str, ranges: pd.DataFrame) -> dict[str, Any] | None:
    """Return one kernel over the ranges in which it was counted, process-wide ranges before push/pop ones."""
    mine = ranges[(ranges["name"] == name) & ranges["counted_instances"].notna()]
    mine = mine[mine["style"] == "StartEnd"] if (mine["style"] == "StartEnd").any() else mine
    if not len(mine):
        return None
    weight = mine["instances"].astype(float)
    row: dict[str, Any] = {"counted_instances": int(mine["counted_instances"].sum())}
    for column in KERNEL_COUNTER_COLUMNS[1:]:
        values = mine[column]
        if values.isna().any():
            row[column] = None
        elif column in ("registers", "shared_bytes"):
            row[column] = float(values.max())
        else:
            # Each range's percentages and bytes weigh as one instance.
            row[column] = float((values.astype(float) * weight).sum() / weight.sum())
    return row
