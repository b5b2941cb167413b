"""Turn the graph of a rank into bytes, which the partial result of its trace holds, and back."""

from __future__ import annotations

from dataclasses import fields
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.replay.execution_graph import ExecutionGraph
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.ranks.replay.rank_graph import RankGraph

_OF_STEPS = ("name", "global_pid", "starts_ns", "bounds_ns", "warmup", "found_share")
_OF_RANK = tuple(field.name for field in fields(RankGraph) if field.name not in ("graph", "collectives", "steps"))


def encode_rank_graph(rank: RankGraph) -> bytes:
    """Return the graph as bytes."""
    arrays: dict[str, Any] = {
        f"graph.{field.name}": getattr(rank.graph, field.name) for field in fields(ExecutionGraph)
    }
    arrays |= {f"steps.{name}": getattr(rank.steps, name) for name in _OF_STEPS}
    arrays |= {f"rank.{name}": getattr(rank, name) for name in _OF_RANK}
    for name, column in rank.collectives.items():
        values = column.to_numpy()
        arrays[f"collectives.{name}"] = values.astype(str) if values.dtype == object else values
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def decode_rank_graph(data: bytes) -> RankGraph:
    """Return the graph that encode_rank_graph wrote. Raises ValueError or KeyError for other bytes."""
    parts: dict[str, dict[str, Any]] = {"graph": {}, "steps": {}, "rank": {}, "collectives": {}}
    with np.load(BytesIO(data), allow_pickle=False) as stored:
        for key in stored.files:
            part, _, name = key.partition(".")
            value = stored[key]
            parts[part][name] = value if value.ndim else value.item()
    return RankGraph(
        graph=ExecutionGraph(**parts["graph"]),
        collectives=pd.DataFrame(parts["collectives"]),
        steps=Steps(**parts["steps"], loop_ns=None),
        **parts["rank"],
    )
