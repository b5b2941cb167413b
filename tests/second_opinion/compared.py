"""Compare the numbers that an analysis wrote with the second computation."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.second_opinion.figures import Figures

KEYS = {
    "kernels.csv": ("name",), "api.csv": ("name",), "memops.csv": ("operation",),
    "ranges.csv": ("range", "style", "domain"), "range_instances.csv": ("range", "style", "domain", "instance"),
    "range_kernels.csv": ("range", "style", "domain", "name"),
}  # fmt: skip
# Two roundings, of a root and of a quotient, are all that may differ.
_CLOSE = 1e-14


@dataclass(frozen=True)
class Difference:
    """One cell that is not the same, or one row that is only on one side (column `(row)`)."""

    table: str
    row: str
    column: str
    ours: Any
    theirs: Any
    explanation: str | None = None


@dataclass(frozen=True)
class Compared:
    """How many cells were held against each other, and those that differ."""

    cells: int
    differences: list[Difference]


def compare_figures(written: dict[str, bytes], expected: Figures) -> Compared:
    """Compare every figure that the second opinion has. written: the files of the analysis by name."""
    cells, differences = 0, []
    for table, wanted in expected.items():
        ours = _summary(written[table]) if table == "summary.json" else read_table(written[table], KEYS[table])
        for key in sorted(ours.keys() ^ wanted.keys()):
            there = key in ours
            differences.append(Difference(table, " / ".join(key), "(row)", there, not there))
        for key in ours.keys() & wanted.keys():
            for column, value in wanted[key].items():
                cells += 1
                mine = ours[key][column]
                if not _is_same(mine, value):
                    differences.append(Difference(table, " / ".join(key), column, mine, value))
    return Compared(cells, differences)


def read_table(data: bytes, keys: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the rows of a CSV file by their keys, numbers as numbers and empty cells as None."""
    found = {}
    for row in csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")):
        found[tuple(row[key] for key in keys)] = {name: _number(cell) for name, cell in row.items()}
    return found


def _summary(data: bytes) -> dict[tuple[str, ...], dict[str, Any]]:
    summary = json.loads(data)
    return {(part,): summary[part] for part in ("totals", "coverage")}


def _number(cell: str) -> Any:
    if cell == "":
        return None
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        return float(cell)
    except ValueError:
        return cell


def _is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and isinstance(ours, int | float):
        return math.isclose(ours, theirs, rel_tol=_CLOSE)
    return ours == theirs


def laws_broken(written: dict[str, bytes]) -> list[Difference]:
    """Return where an analysis contradicts itself: parts that do not add up to their whole."""
    summary = json.loads(written["summary.json"])
    found = []

    def hold(table: str, row: str, law: str, part: Any, whole: Any) -> None:
        if part is not None and whole is not None and part != whole:
            found.append(Difference(table, row, law, part, whole))

    coverage, totals = summary["coverage"], summary["totals"]
    told = coverage["attributed_kernels"] + sum(coverage["reasons"].values())
    hold("summary.json", "coverage", "attributed and reasons add up to kernels", told, coverage["kernels"])
    kernels = read_table(written["kernels.csv"], ("name",))
    if totals["kernel_count"] is not None:
        hold("kernels.csv", "all", "instances add up", _sum(kernels, "instances"), totals["kernel_count"])
        hold("kernels.csv", "all", "times add up", _sum(kernels, "total_ns"), totals["kernel_total_ns"])
    instances: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for key, row in read_table(written["range_instances.csv"], KEYS["range_instances.csv"]).items():
        instances.setdefault(key[:3], []).append(row)
    for key, row in read_table(written["ranges.csv"], KEYS["ranges.csv"]).items():
        mine, name = instances.get(key, []), " / ".join(key)
        warm = sum(each["is_warmup"] == "True" for each in mine)
        hold("ranges.csv", name, "instances", len(mine), row["instances"])
        hold("ranges.csv", name, "wall times add up", sum(each["wall_ns"] for each in mine), row["wall_ns"])
        hold("ranges.csv", name, "warm-up", warm, row["warmup_instances"])
        steady = sorted(each["wall_ns"] for each in mine if each["is_warmup"] != "True")
        if steady:
            middle = (steady[(len(steady) - 1) // 2] + steady[len(steady) // 2]) // 2
            hold("ranges.csv", name, "median after the warm-up", middle, row["steady_wall_med_ns"])
    for law, part, whole in (*_tree_laws(written, instances), *_caused_laws(written), *_memory_laws(written, totals)):
        hold("analysis", "all", law, part, whole)
    if totals["gpu_busy_ns"] is not None and summary["trace"]["work_kind"] == "kernel":
        whole = [row for row in _rows(written, "work.csv") if row["range"] in (None, "")]
        hold("work.csv", "all", "work adds up to busy", sum(row["busy_ns"] for row in whole), totals["gpu_busy_ns"])
    idle: dict[str, int] = {}
    for row in csv.DictReader(io.StringIO(written["idle.csv"].decode("utf-8"), newline="")):
        if row["range"] == "":
            idle[row["device_id"]] = idle.get(row["device_id"], 0) + int(row["idle_ns"])
    for device in summary["devices"]:
        number = str(device["device_id"])
        if device["gpu_span_ns"] is not None:
            rest = device["gpu_span_ns"] - device["gpu_busy_ns"]
            hold("summary.json", f"device {number}", "busy and idle add up to the span", device["gpu_idle_ns"], rest)
        if device["gpu_idle_ns"] is not None and (idle or device["gpu_idle_ns"]):
            hold("idle.csv", f"device {number}", "causes add up to idle", idle.get(number, 0), device["gpu_idle_ns"])
    return found


def _rows(written: dict[str, bytes], name: str) -> list[dict[str, Any]]:
    text = written[name].decode("utf-8")
    return [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(io.StringIO(text, newline=""))]


Law = tuple[str, Any, Any]


def _tree_laws(written: dict[str, bytes], instances: dict[tuple[str, ...], list[dict[str, Any]]]) -> Iterator[Law]:
    """Yield sums over range_tree.csv and over range_instances.csv: each instance has one place."""
    tree, single = _rows(written, "range_tree.csv"), [row for rows in instances.values() for row in rows]
    yield "instances of the tree", sum(row["instances"] for row in tree), len(single)
    for column in ("wall_ns", "kernel_count", "kernel_total_ns"):
        if None not in {row[column] for row in (*tree, *single)}:
            yield f"{column} of the tree", sum(row[column] for row in tree), sum(row[column] for row in single)


def _caused_laws(written: dict[str, bytes]) -> Iterator[Law]:
    """Yield what ranges.csv and range_caused_kernels.csv say that each range adopted and captured."""
    sums: dict[tuple[str, ...], int] = {}
    keys = (*KEYS["ranges.csv"], "attribution", "name")
    for key, row in read_table(written["range_caused_kernels.csv"], keys).items():
        for column, source in (("kernel_count", "instances"), ("kernel_total_ns", "total_ns")):
            of_range = (*key[:3], f"{key[3]}_{column}")
            sums[of_range] = sums.get(of_range, 0) + row[source]
    for key, row in read_table(written["ranges.csv"], KEYS["ranges.csv"]).items():
        for column in (
            f"{kind}_{what}" for kind in ("adopted", "captured") for what in ("kernel_count", "kernel_total_ns")
        ):
            yield f"{column} of {' / '.join(key)}", sums.get((*key, column), 0), row[column]


def _memory_laws(written: dict[str, bytes], totals: dict[str, Any]) -> Iterator[Law]:
    """Yield the sum of memory.csv and the highest peak."""
    owners = _rows(written, "memory.csv")
    if owners:
        yield "owners of memory", sum(row["peak_bytes"] for row in owners), max(totals["peak_vram_bytes"].values())


def _sum(rows: dict[tuple[str, ...], dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows.values())
