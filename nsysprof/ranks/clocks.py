"""One clock for all ranks: the session's start on one host, the ends of NCCL's collectives across hosts, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nsysprof.rank_results import ClockFit, RankRow
from nsysprof.ranks.collectives import Collectives
from nsysprof.trace.schema import Floats, Int64s

LEAST_ANCHORS = 8
# Ends of one collective on two ranks differ by the last hop of a ring: some 10 us. Ten times that is no clock.
MOST_RESIDUAL_NS = 100_000


@dataclass(frozen=True)
class _Matched:
    """The same collectives of two ranks: their starts and ends, of each on its own clock."""

    mine_start: Int64s
    mine_end: Int64s
    other_start: Int64s
    other_end: Int64s


@dataclass(frozen=True)
class Arrivals:
    """The collectives that all of `ranks` share, on one clock; (ranks, collectives).

    weight: (collectives), for how many of its sequence each stands. exposed_ns: as in Collectives.
    """

    ranks: list[int]
    begin_ns: Int64s
    duration_ns: Int64s
    exposed_ns: Int64s
    weight: Floats


def match(mine: Collectives | None, other: Collectives | None) -> tuple[_Matched | None, str]:
    """The k-th of a sequence with the k-th, of sequences that both have as often; else None and why."""
    if mine is None or other is None or len(mine.of) == 0 or len(other.of) == 0:
        return None, "it has no NCCL collective" if mine is None or len(mine.of) == 0 else "the other has none"
    lengths = dict(zip(other.names, other.counts.tolist(), strict=True))
    shared = [n for n, c in zip(mine.names, mine.counts.tolist(), strict=True) if lengths.get(n) == c]
    if not shared:
        return None, "its collectives are not those of the other: other kernels, or another number of them"
    at, of = _rows(mine, shared), _rows(other, shared)
    return _Matched(mine.start_ns[at], mine.end_ns[at], other.start_ns[of], other.end_ns[of]), ""


def _rows(collectives: Collectives, names: list[str]) -> Int64s:
    """Where these sequences are, in order of name and ordinal."""
    place = np.array([names.index(name) if name in names else -1 for name in collectives.names])
    rows = np.flatnonzero(place[collectives.of] >= 0)
    found: Int64s = rows[np.lexsort((collectives.ordinal[rows], place[collectives.of[rows]]))]
    return found


def fit_clocks(rows: list[RankRow], collectives: Mapping[int, Collectives | None]) -> list[ClockFit]:
    """Each rank's clock against that of the first that has collectives (or of the first), by rank; None or a number.

    rows: of the traces that were read, with their ranks. Ranks known to be of one host share its clock, and so their
    sessions' starts tell how theirs differ. Others are fitted to ends of collectives: the median difference is the
    offset. Where the host is unknown and collectives fit too, they count, since a start is not proof of one host.
    """
    if not rows:
        return []
    anchored = [row for row in rows if (c := collectives.get(row.position)) is not None and len(c.of) >= LEAST_ANCHORS]
    reference = (anchored or rows)[0]
    return [_fit(row, reference, collectives) for row in rows]


def _fit(row: RankRow, reference: RankRow, collectives: Mapping[int, Collectives | None]) -> ClockFit:
    assert row.rank is not None
    if row.position == reference.position:
        return ClockFit(row.rank, "reference", 0, 0, None, None)
    found, why = match(collectives.get(row.position), collectives.get(reference.position))
    starts = (row.session_start_utc_ns, reference.session_start_utc_ns)
    by_utc = None if starts[0] is None or starts[1] is None else starts[0] - starts[1]
    one_host = row.host is not None and row.host == reference.host
    if one_host and by_utc is not None:
        fit = ClockFit(row.rank, "utc", by_utc, 0, None, None)
        return fit if found is None else _with_residual(fit, found)
    if found is None:
        host = "its host is unknown" if row.host is None or reference.host is None else "it ran on another host"
        if one_host:
            host = "its trace does not say when its session began"
        return ClockFit(row.rank, "none", None, 0, None, None, f"{host}, and {why}")
    offset = int(np.median(found.other_end - found.mine_end))
    fit = _with_residual(ClockFit(row.rank, "collectives", offset, 0, None, None), found)
    if fit.anchors < LEAST_ANCHORS:
        return replace(fit, offset_ns=None, reason=f"{fit.anchors} matching collectives are too few")
    if fit.residual_ns is None or fit.residual_ns > MOST_RESIDUAL_NS:
        return replace(fit, offset_ns=None, reason="matching collectives do not end together: other work, or drift")
    return fit


def _with_residual(fit: ClockFit, found: _Matched) -> ClockFit:
    assert fit.offset_ns is not None
    apart = np.abs(found.mine_end + fit.offset_ns - found.other_end)
    return replace(fit, anchors=len(apart), residual_ns=int(np.median(apart)), worst_ns=int(apart.max()))


def recorded_apart(rows: list[RankRow]) -> list[tuple[RankRow, RankRow]]:
    """Pairs of ranks whose GPU work did not overlap in time by their sessions' starts: they are not of one job."""
    known = [
        (row.session_start_utc_ns + row.first_ns, row.session_start_utc_ns + row.last_ns, row)
        for row in rows
        if row.session_start_utc_ns is not None and row.first_ns is not None and row.last_ns is not None
    ]
    if not known:
        return []
    first_to_end = min(known, key=lambda each: each[1])
    last_to_begin = max(known, key=lambda each: each[0])
    # Hosts' clocks may be some seconds apart.
    apart = last_to_begin[0] - first_to_end[1] > 60 * 10**9
    return [(first_to_end[2], last_to_begin[2])] if apart else []


def arrivals(
    rows: list[RankRow], clocks: list[ClockFit], collectives: Mapping[int, Collectives | None]
) -> Arrivals | None:
    """When each rank began each collective that all of them share.

    Ranks without a clock are left out; None where less than two are left or they share less than two. A sequence of
    which the ranks recorded different parts (--delay, --duration) is matched by when its collectives ended, which only
    a clock that does not come of them allows.
    """
    clock = {fit.rank: fit for fit in clocks if fit.offset_ns is not None}
    able = []
    for row in rows:
        mine = collectives.get(row.position)
        if row.rank in clock and mine is not None and len(mine.of):
            able.append((row.rank, mine, clock[row.rank].offset_ns or 0))
    if len(able) < 2:
        return None
    one_host = all(clock[rank].how in ("reference", "utc") for rank, _, _ in able)
    parts = []
    for name in sorted(set.intersection(*(set(mine.names) for _, mine, _ in able))):
        at = [_rows(mine, [name]) for _, mine, _ in able]
        same = len({int(mine.counts[mine.names.index(name)]) for _, mine, _ in able}) == 1
        if one_host:
            ends = [mine.end_ns[of] + offset for of, (_, mine, offset) in zip(at, able, strict=True)]
            if not same or max(np.median(np.abs(each - ends[0])) for each in ends) > MOST_RESIDUAL_NS:
                at = [of[kept] for of, kept in zip(at, _ended_together(ends), strict=True)]
        elif not same:
            continue
        parts.append(at)
    if sum(len(at[0]) for at in parts) < 2:  # the first is not judged
        return None
    chosen = [np.concatenate(of_rank) for of_rank in zip(*parts, strict=True)]
    first = able[0][1]
    weight = (first.counts / np.bincount(first.of, minlength=len(first.counts)))[first.of[chosen[0]]]
    every = list(zip(chosen, able, strict=True))
    return Arrivals(
        ranks=[rank for rank, _, _ in able],
        begin_ns=np.array([mine.start_ns[at] + offset for at, (_, mine, offset) in every]),
        duration_ns=np.array([mine.end_ns[at] - mine.start_ns[at] for at, (_, mine, _) in every]),
        exposed_ns=np.array([mine.exposed_ns[at] for at, (_, mine, _) in every]),
        weight=weight,
    )


def _ended_together(ends_ns: list[Int64s]) -> list[Int64s]:
    """Of each rank's collectives in order those that ended when one of every other rank did; as many of each rank."""
    fewest = min(ends_ns, key=len)
    chosen = []
    together = np.ones(len(fewest), dtype=bool)
    for ends in ends_ns:
        right = np.clip(np.searchsorted(ends, fewest), 1, max(1, len(ends) - 1))
        left = right - 1
        right = np.minimum(right, len(ends) - 1)
        nearest = np.where(np.abs(ends[left] - fewest) <= np.abs(ends[right] - fewest), left, right)
        close = np.abs(ends[nearest] - fewest) <= MOST_RESIDUAL_NS
        together &= close & (np.bincount(nearest[close], minlength=len(ends))[nearest] == 1)
        chosen.append(nearest)
    return [nearest[together] for nearest in chosen]
