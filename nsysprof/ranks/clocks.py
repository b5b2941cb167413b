"""One clock for all ranks: the session's start on one host, the ends of NCCL's collectives across hosts, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nsysprof.rank_results import ClockFit, RankRow
from nsysprof.ranks.collectives import Collectives
from nsysprof.trace.schema import Int64s

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


def match(mine: Collectives | None, other: Collectives | None) -> tuple[_Matched | None, str]:
    """The k-th of a sequence with the k-th, of sequences that both have as often; else None and why."""
    if mine is None or other is None or len(mine.of) == 0 or len(other.of) == 0:
        return None, "it has no NCCL collective" if mine is None or len(mine.of) == 0 else "the other has none"
    lengths = dict(zip(other.names, other.counts.tolist(), strict=True))
    shared = [n for n, c in zip(mine.names, mine.counts.tolist(), strict=True) if lengths.get(n) == c]
    if not shared:
        return None, "its collectives are not those of the other: other kernels, or another number of them"
    taken = [_times(each, shared) for each in (mine, other)]
    return _Matched(*taken[0], *taken[1]), ""


def _times(collectives: Collectives, names: list[str]) -> tuple[Int64s, Int64s]:
    """Starts and ends of these sequences, in order of name and ordinal."""
    place = np.array([names.index(name) if name in names else -1 for name in collectives.names])
    rows = np.flatnonzero(place[collectives.of] >= 0)
    rows = rows[np.lexsort((collectives.ordinal[rows], place[collectives.of[rows]]))]
    return collectives.start_ns[rows], collectives.end_ns[rows]


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
) -> tuple[Int64s, list[int]] | None:
    """When each rank began each collective that all of them share, on one clock; (ranks, collectives), and the ranks.

    Ranks without a clock are left out; None where less than two are left or they share no collective.
    """
    offsets = {fit.rank: fit.offset_ns for fit in clocks}
    able = [row for row in rows if row.rank is not None and offsets.get(row.rank) is not None]
    able = [row for row in able if (c := collectives.get(row.position)) is not None and len(c.of)]
    if len(able) < 2:
        return None
    lengths: dict[str, set[int]] = {}
    present: dict[str, int] = {}
    for row in able:
        mine = collectives[row.position]
        assert mine is not None
        for name, count in zip(mine.names, mine.counts.tolist(), strict=True):
            lengths.setdefault(name, set()).add(int(count))
            present[name] = present.get(name, 0) + 1
    shared = sorted(name for name, seen in lengths.items() if len(seen) == 1 and present[name] == len(able))
    if not shared:
        return None
    begins = []
    for row in able:
        mine, offset = collectives[row.position], offsets[row.rank or 0]
        assert mine is not None
        assert offset is not None
        begins.append(_times(mine, shared)[0] + offset)
    return np.array(begins), [row.rank or 0 for row in able]
