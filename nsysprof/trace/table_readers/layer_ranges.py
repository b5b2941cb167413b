"""Read the ranges that a capture adds: of modules, steps of optimizers, compilers, data loaders and garbage collection.

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
# As nsysprof.workload.program_start.compile_ranges writes them: KIND NAME (FILE:LINE): WHY.
# As nsysprof.workload.program_start.watched_program.loader_ranges writes it.
LOAD = "nsysprof load"
_COMPILE_START = "nsysprof compile "
_COMPILE = re.compile(
    r"nsysprof compile (dynamo|backward|graph|triton|tune|cute|unknown) (\S{1,200}) \((.{0,300}?):(\d{1,9})\)"
    r"(?:: (.{1,300}))?"
)


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


@dataclass(frozen=True)
class CompileRange:
    """What a range's name says of a compilation.

    kind: what compiles: dynamo, backward or graph of torch.compile, triton, tune (which measures variants), cute.
    what: the function or kernel. place: its file and line; "" where they are unknown.
    why: which guard or shape asked for it; "" where nobody said.
    """

    kind: str
    what: str
    place: str
    why: str


def read_compile_range(text: str) -> CompileRange | None:
    """Return what a range's name says of a compilation; None where it is not such a name."""
    match = _COMPILE.fullmatch(text) if text.startswith(_COMPILE_START) else None
    if match is None:
        return None
    kind, what, path, line, why = match.groups()
    return CompileRange(kind, what, f"{path}:{line}" if path else "", why or "")


def is_collection(text: str) -> bool:
    """Return whether a range's name says that Python collected garbage."""
    return _COLLECTION.fullmatch(text) is not None


def split_host_ranges(
    ranges: pd.DataFrame | None,
) -> tuple[pd.DataFrame | None, pd.DataFrame | None, pd.DataFrame | None, pd.DataFrame | None]:
    """Return the program's ranges, and as Tables has them those of garbage collection, compilers and data loaders."""
    if ranges is None or ranges.empty:
        return ranges, None, None, None
    number, names = pd.factorize(ranges["name"])
    of_collections = np.array([is_collection(name) for name in names], dtype=bool)[number]
    facts = [read_compile_range(name) for name in names]
    of_compilers = np.array([fact is not None for fact in facts], dtype=bool)[number]
    of_loaders = np.asarray(names == LOAD, dtype=bool)[number]
    held = ranges[["start_ns", "end_ns", "global_tid"]]
    ended = (ranges["end_ns"] > ranges["start_ns"]).to_numpy(dtype=bool)
    collections = held[of_collections & ended].reset_index(drop=True) if of_collections.any() else None
    loads = held[of_loaders & ended].reset_index(drop=True) if of_loaders.any() else None
    compiles = None
    if of_compilers.any():
        compiles = held[of_compilers & ended].copy()
        for column in ("kind", "what", "place", "why"):
            values = np.array([getattr(fact, column, "") for fact in facts], dtype=object)
            compiles[column] = values[number[of_compilers & ended]]
        compiles = compiles.sort_values("start_ns", kind="stable").reset_index(drop=True)
    own = ranges[~of_collections & ~of_compilers & ~of_loaders].reset_index(drop=True)
    return own, collections, compiles, loads


def split_added(
    ranges: pd.DataFrame | None,
) -> tuple[pd.DataFrame | None, pd.DataFrame | None, pd.DataFrame | None, pd.DataFrame | None, pd.DataFrame | None]:
    """Return the program's ranges, those of modules as split_layers has them, and all others of split_host_ranges."""
    own, layers = split_layers(ranges)
    own, collections, compiles, loads = split_host_ranges(own)
    return own, layers, collections, compiles, loads
