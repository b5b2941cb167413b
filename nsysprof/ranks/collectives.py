"""NCCL's collectives as a trace has them: what all ranks end together, and so what ties their clocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.names import Names
from nsysprof.ranks.overlap import Overlap
from nsysprof.trace.schema import Int64s, Work

# The ranks leave these together. A broadcast's root and a reduce's leaves may leave early; SendRecv is of two ranks.
_TOGETHER = re.compile(r"^nccl(Dev)?Kernel_?(AllReduce|AllGather|ReduceScatter)", re.IGNORECASE)
# So many of one sequence are kept, evenly chosen by their number alone, so that all ranks choose the same.
MOST = 1024


@dataclass(frozen=True)
class Collectives:
    """Sequences of one kernel on one of NCCL's streams. of, ordinal: sequence and number in it of each kept one.

    names: of each sequence, `kernel#stream`, streams in the order of their first use; counts: how many it has.
    exposed_ns: how long nothing else computed on the device while it ran.
    """

    names: tuple[str, ...]
    counts: Int64s
    of: Int64s
    ordinal: Int64s
    start_ns: Int64s
    end_ns: Int64s
    exposed_ns: Int64s


def find_collectives(work: Work, names: Names, overlap: Overlap) -> Collectives:
    """The collectives among the kernels of a trace. overlap: of the same work, all of NCCL's kernels in it."""
    wanted = np.array([_TOGETHER.match(text) is not None for text in names.short.tolist()], dtype=bool)
    number = names.numbers(work.variant[: work.kernels])
    rows = np.flatnonzero(wanted[number]) if len(wanted) else np.zeros(0, np.int64)
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    streams: dict[tuple[int, ...], int] = {}
    sequences: dict[tuple[int, int], list[int]] = {}
    stream_of = [tuple(stream) for stream in work.streams_of[work.variant[rows]].tolist()]
    for row, stream, which in zip(rows.tolist(), stream_of, number[rows].tolist(), strict=True):
        place = streams.setdefault(stream, len(streams))
        sequences.setdefault((int(which), place), []).append(row)
    labels, counts, of, ordinal, chosen = [], [], [], [], []
    for position, ((which, place), mine) in enumerate(sequences.items()):
        labels.append(f"{names.short[which]}#{place}")
        counts.append(len(mine))
        step = 1 << max(0, ((len(mine) - 1) // MOST).bit_length())
        kept = range(0, len(mine), step)
        of += [position] * len(kept)
        ordinal += list(kept)
        chosen += [mine[each] for each in kept]
    at = np.array(chosen, dtype=np.int64)
    return Collectives(
        tuple(labels),
        np.array(counts, dtype=np.int64),
        np.array(of, dtype=np.int64),
        np.array(ordinal, dtype=np.int64),
        work.start_ns[at],
        work.ends_ns(at),
        overlap.exposed_of[np.searchsorted(overlap.comm_rows, at)],
    )
