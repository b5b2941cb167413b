"""Write layers as a flame graph that speedscope opens: https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
from msgspec import json

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# What a profile weighs: its name, the column of layers.csv, and the unit as speedscope names it.
_PROFILES = (
    ("time of kernels", "kernel_total_ns", "nanoseconds"),
    ("time of the host", "wall_ns", "nanoseconds"),
    ("FLOP", "flops", "none"),
)
# A number belongs to the list before it: `layers.7` is one frame.
_PARTS = re.compile(r"[^.]+(?:\.\d+(?=\.|$))*")


def layers_flame_graph(layers: pd.DataFrame) -> bytes:
    """Return the flame graphs of layers as layers.csv has them: of kernels, of the host, and of FLOP where known.

    Each graph has the pass below, and above it the modules from the outermost list to the innermost one.
    """
    frames: dict[str, int] = {}
    stacks = [
        [frames.setdefault(name, len(frames)) for name in _stack(layer, way)]
        for layer, way in zip(layers["layer"].tolist(), layers["pass"].tolist(), strict=True)
    ]
    profiles = [
        _profile(name, unit, stacks, layers[column].fillna(0).astype("int64").tolist())
        for name, column, unit in _PROFILES
        if layers[column].notna().any()
    ]
    return json.encode({
        "$schema": SCHEMA, "exporter": "nsysprof", "name": "layers", "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]}, "profiles": profiles,
    })  # fmt: skip


def _stack(layer: object, way: object) -> list[str]:
    parts = _PARTS.findall(layer) if isinstance(layer, str) else []
    return [str(way) if isinstance(way, str) else "(no pass)", *(parts or ["(no module)"])]


def _profile(name: str, unit: str, stacks: list[list[int]], weights: list[int]) -> dict[str, Any]:
    order = sorted((place for place, weight in enumerate(weights) if weight > 0), key=lambda place: stacks[place])
    return {
        "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights[at] for at in order),
        "samples": [stacks[at] for at in order], "weights": [weights[at] for at in order],
    }  # fmt: skip
