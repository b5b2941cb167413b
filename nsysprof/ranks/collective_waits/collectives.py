"""Find NCCL's collectives in a trace. All ranks end a collective together, which ties their clocks to each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.ranks.collective_waits.rank_progress import RankProgress, measure_progress
from nsysprof.ranks.overlap import Overlap
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables

# All ranks end these operations together. The root of a broadcast and the leaves of a reduce may end early, and
# SendRecv involves only two ranks.
_TOGETHER = re.compile(r"^nccl(Dev)?Kernel_?(AllReduce|AllGather|ReduceScatter)", re.IGNORECASE)
# The most collectives to keep of one sequence, in stretches of neighbours, because a replay needs to know what directly
# follows what. The choice depends only on their number, so all ranks choose the same ones.
MOST, STRETCHES = 1024, 16


def is_together(kernel: str) -> bool:
    """Return whether all ranks end the collective of a kernel together."""
    return _TOGETHER.match(kernel) is not None


@dataclass(frozen=True)
class Collectives(RankProgress):
    """The collectives of a trace as sequences, and the rank's progress at each.

    A sequence is all launches of one kernel on one of NCCL's streams.
    """

    # One per sequence, `kernel#stream`; streams are numbered in the order of their first use.
    names: tuple[str, ...]
    # One per sequence: the number of its stream.
    streams: Int64s
    # One per sequence: how many collectives it has, including those that were not kept.
    counts: Int64s
    # One per kept collective: its sequence, and its number within the sequence.
    of: Int64s
    ordinal: Int64s
    start_ns: Int64s
    end_ns: Int64s
    # How long nothing else computed on the device while the collective ran (ns).
    exposed_ns: Int64s


def find_collectives(tables: Tables, is_comm: Bools, names: Names, overlap: Overlap) -> Collectives:
    """Return the collectives among the kernels of a trace.

    is_comm: for each kernel, whether it belongs to NCCL.
    overlap: the overlap of the same work, computed with all of NCCL's kernels as communication.
    """
    work = tables.work
    wanted = np.array([is_together(text) for text in names.short.tolist()], dtype=bool)
    number = names.numbers(work.variant[: work.kernels])
    rows = np.flatnonzero(wanted[number]) if len(wanted) else np.zeros(0, np.int64)
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    keys, sequence = _sequences(tables, rows, number[rows])
    labels, counts, of, ordinal, chosen = [], [], [], [], []
    in_sequence = np.argsort(sequence, kind="stable")
    edges = np.searchsorted(sequence[in_sequence], np.arange(len(keys) + 1))
    for position, (which, place) in enumerate(keys):
        mine = rows[in_sequence[edges[position] : edges[position + 1]]]
        labels.append(f"{names.short[which]}#{place}")
        counts.append(len(mine))
        kept = choose_kept(len(mine))
        of += [position] * len(kept)
        ordinal += kept
        chosen.append(mine[kept])
    at = np.concatenate([np.zeros(0, np.int64), *chosen])
    progress = measure_progress(tables, is_comm, at)
    return Collectives(
        **vars(progress),
        names=tuple(labels),
        streams=np.array([place for _, place in keys], dtype=np.int64),
        counts=np.array(counts, dtype=np.int64),
        of=np.array(of, dtype=np.int64),
        ordinal=np.array(ordinal, dtype=np.int64),
        start_ns=work.start_ns[at],
        end_ns=work.ends_ns(at),
        exposed_ns=overlap.exposed_of[np.searchsorted(overlap.comm_rows, at)],
    )


def _sequences(tables: Tables, rows: Int64s, names: Ints) -> tuple[list[tuple[int, int]], Int64s]:
    """Return (name, stream) of each sequence, and the sequence of each row; both are numbered by their first use.

    rows: collectives in order of start, as rows of tables.work.
    names: the name of each.
    """
    work = tables.work
    streams: dict[tuple[int, ...], int] = {}
    sequences: dict[tuple[int, int], int] = {}
    used, first, variant = np.unique(work.variant[rows], return_index=True, return_inverse=True)
    sequence_of = np.zeros(len(used), dtype=np.int64)
    for number in np.argsort(first).tolist():  # all collectives of a variant have one name and one stream
        stream = tuple(work.streams_of[used[number]].tolist())
        key = (int(names[first[number]]), streams.setdefault(stream, len(streams)))
        sequence_of[number] = sequences.setdefault(key, len(sequences))
    return list(sequences), sequence_of[variant]


def choose_kept(count: int) -> list[int]:
    """Return the numbers of the collectives to keep of a sequence of `count`."""
    if count <= MOST:
        return list(range(count))
    size = MOST // STRETCHES
    starts = [number * (count - size) // (STRETCHES - 1) for number in range(STRETCHES)]
    return [kept for start in starts for kept in range(start, start + size)]
