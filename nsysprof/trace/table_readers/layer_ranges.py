"""Read the ranges that a capture adds: of modules and steps of optimizers, and of Python's garbage collection.

Names are read by a strict grammar, since any program can write any text into a trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.trace.schema import NULL

# Ranges of `capture --layers`, as nsysprof.workload.program_start.layer_recorder writes them: PASS PATH (CLASS).
_LAYER_RANGE = re.compile(r"nsysprof (forward|backward|backward-part|optimizer) ([^\s()]{1,500}) \(([^\s()]{1,200})\)")
_LAYER_START = "nsysprof "
# As nsysprof.workload.program_start.collection_ranges writes them; the number is that of the generation.
_COLLECTION = re.compile(r"nsysprof gc [0-9]")


@dataclass(frozen=True)
class LayerRange:
    """What a range's name says of a module.

    layer: its path; "" for the step of an optimizer.
    is_call: whether the range begins a call, and is not the rest of one that inner modules had cut.
    """

    layer: str
    way: str
    kind: str
    is_call: bool


def read_layer_range(text: str) -> LayerRange | None:
    """Return what a range's name says of a module; None where it is not such a name."""
    match = _LAYER_RANGE.fullmatch(text) if text.startswith(_LAYER_START) else None
    if match is None:
        return None
    way, layer, kind = match.groups()
    return LayerRange("" if way == "optimizer" else layer, way.removesuffix("-part"), kind, not way.endswith("-part"))


def split_layers(ranges: pd.DataFrame | None) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Return the ranges without those that a recording of layers added, and those as Tables.layers has them."""
    if ranges is None or ranges.empty:
        return ranges, None
    number, names = pd.factorize(ranges["name"])
    facts = [read_layer_range(name) for name in names]
    is_layer = np.array([fact is not None for fact in facts], dtype=bool)[number]
    if not is_layer.any():
        return ranges, None
    layers = ranges[is_layer][["start_ns", "end_ns", "global_tid"]].copy()
    for column in ("layer", "way", "kind", "is_call"):
        values = np.array([getattr(fact, column, None) for fact in facts], dtype=object)
        layers[column] = values[number[is_layer]]
    layers["is_call"] = layers["is_call"].astype(bool)
    last = max(layers["end_ns"].max(), layers["start_ns"].max())
    layers["end_ns"] = layers["end_ns"].mask(layers["end_ns"] == NULL, last)
    # Traces of torch's profiler have each range in two styles.
    layers = layers[layers["end_ns"] >= layers["start_ns"]].drop_duplicates()
    ordered = layers.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable")
    return ranges[~is_layer].reset_index(drop=True), ordered.reset_index(drop=True)


def split_collections(ranges: pd.DataFrame | None) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Return the ranges without those of Python's garbage collection, and those as Tables.collections has them."""
    if ranges is None or ranges.empty:
        return ranges, None
    number, names = pd.factorize(ranges["name"])
    collects = np.array([_COLLECTION.fullmatch(name) is not None for name in names], dtype=bool)[number]
    if not collects.any():
        return ranges, None
    collections = ranges[collects & (ranges["end_ns"] > ranges["start_ns"])][["start_ns", "end_ns", "global_tid"]]
    return ranges[~collects].reset_index(drop=True), collections.reset_index(drop=True)
