"""Fold the layers of a model for the page: those of one list, which differ in a number, are one row."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.arrays import Floats
from nsysprof.results.findings import fold_paths, layer_shape

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
