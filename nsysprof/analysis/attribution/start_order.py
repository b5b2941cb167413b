"""Take compiled code through all work in order of start, without a sorted copy of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nsysprof.trace.schema import Rows, Work


def go_through(work: Work, run: Callable[[int, Rows], int]) -> int:
    """Return what `run` returns. It is called again with all rows sorted if the result is below 0: not in order.

    run: takes a number of kernels, and the other rows in order of start. Kernels are recorded in order, so that only
        the few copies and fills have to be put among them.
    """
    late = np.arange(work.kernels, len(work), dtype=np.int32)
    found = run(work.kernels, late[np.argsort(work.start_ns[late], kind="stable")])
    return found if found >= 0 else run(0, np.argsort(work.start_ns, kind="stable").astype(np.int32))
