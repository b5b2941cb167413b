"""Return the GPU work that shares of GPU time are relative to: kernels, and CUDA graphs recorded as wholes."""

from __future__ import annotations

import numpy as np

from nsysprof.trace.schema import GRAPH, Ints, Work


def kernels_and_graphs(work: Work) -> tuple[Ints, Ints]:
    """Return the duration (ns) and the variant of every kernel and of every graph that was recorded as a whole."""
    kernels = slice(0, work.kernels)
    graphs = work.kernels + np.flatnonzero(work.kinds(slice(work.kernels, None)) == GRAPH)
    if len(graphs) == 0:
        return work.duration_ns[kernels], work.variant[kernels]
    rows = np.concatenate((np.arange(work.kernels), graphs))
    return work.duration_ns[rows], work.variant[rows]
