"""Read the nodes of CUDA graphs: when and by which thread each was created, and which node it was copied from."""

from __future__ import annotations

import pandas as pd

from nsysprof.trace.columns import read_integers
from nsysprof.trace.open import Trace

# The rows of the second table are nodes up to schema 3.7.2, and graphs in later versions.
_TABLES = ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")


def read_graph_nodes(trace: Trace) -> pd.DataFrame | None:
    """Return time_ns, global_tid, node_id and original_id (NULL: not a copy) in file order; None: not recorded."""
    for table in _TABLES:
        stored_table = trace.find(table)
        if stored_table is None or "graphnodeid" not in {name.lower() for name in trace.columns[stored_table]}:
            continue
        required = {"start": "time_ns", "globalTid": "global_tid", "graphNodeId": "node_id"}
        rows = read_integers(trace, table, required, {"originalGraphNodeId": "original_id"})
        if rows is not None:
            kept: pd.DataFrame = rows[rows["node_id"] > 0].reset_index(drop=True)
            return kept if len(kept) else None
    return None
