"""Convert the times of all ranks to one clock.

Ranks on one host share its clock, so the starts of their sessions show how their times differ. Between hosts, the ends
of NCCL's collectives show it. Where neither is known, a rank has no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nsysprof.ranks.collective_waits.collectives import Collectives
from nsysprof.results.rank_results import MOST_RESIDUAL_NS, ClockFit, RankRow
from nsysprof.trace.schema import Int64s

LEAST_ANCHORS = 8
# A rank with a clock, its collectives, and the offset (ns) that turns its times into those of the reference rank.
_Able = tuple[int, Collectives, int]


@dataclass(frozen=True)
class Matched:
    """The collectives of one rank that all ranks share."""

    collectives: Collectives
    # Which of its collectives are shared, and the offset (ns) that turns its times into those of the reference rank.
    rows: Int64s
    offset_ns: int


@dataclass(frozen=True)
class Arrivals:
    """When each rank began each collective that all of `ranks` share, on one clock.

    The arrays have one row per rank and one column per collective.
    """

    ranks: list[int]
    begin_ns: Int64s
    duration_ns: Int64s
    # How long nothing else computed on the rank's device during each collective (ns), as in Collectives.
    exposed_ns: Int64s
    # One value per collective: how many collectives of its sequence it represents.
    weight: npt.NDArray[np.float64]
    # One value per rank.
    matched: tuple[Matched, ...]


def _apart(mine: Collectives | None, other: Collectives | None) -> tuple[Int64s | None, str]:
    """Return how much later each collective ends by the other rank's clock than by this rank's (ns).

    Only sequences that both ranks have equally often are matched, the k-th collective with the k-th. Where nothing can
    be matched, return None and the reason.
    """
    if mine is None or other is None or len(mine.of) == 0 or len(other.of) == 0:
        return None, "it has no NCCL collective" if mine is None or len(mine.of) == 0 else "the other has none"
    lengths = dict(zip(other.names, other.counts.tolist(), strict=True))
    shared = [n for n, c in zip(mine.names, mine.counts.tolist(), strict=True) if lengths.get(n) == c]
    if not shared:
        return None, "its collectives differ from the other's, in kernels or in number"
    return other.end_ns[_rows(other, shared)] - mine.end_ns[_rows(mine, shared)], ""


def _rows(collectives: Collectives, names: list[str]) -> Int64s:
    """Return the rows of the collectives of these sequences, in order of name and ordinal."""
    place = np.array([names.index(name) if name in names else -1 for name in collectives.names])
    rows = np.flatnonzero(place[collectives.of] >= 0)
    ordered: Int64s = rows[np.lexsort((collectives.ordinal[rows], place[collectives.of[rows]]))]
    return ordered


def fit_clocks(rows: list[RankRow], collectives: Mapping[int, Collectives | None]) -> list[ClockFit]:
    """Return by how much each rank's clock differs from the reference's, in order of rank.

    The reference is the first rank that has collectives, or else the first rank. Ranks known to be on one host share
    its clock, so the starts of their sessions show how they differ. Other ranks are fitted to the ends of collectives:
    the median difference is the offset. Where the host is unknown and the collectives fit, these decide, because equal
    starts do not prove that the host is the same. A rank that cannot be fitted has no offset but a reason.

    rows: the traces that were read, with their ranks.
    collectives: the collectives of each rank; None or missing where it has none.
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
    apart, why = _apart(collectives.get(row.position), collectives.get(reference.position))
    starts = (row.session_start_utc_ns, reference.session_start_utc_ns)
    by_utc = None if starts[0] is None or starts[1] is None else starts[0] - starts[1]
    one_host = row.host is not None and row.host == reference.host
    if one_host and by_utc is not None:
        fit = ClockFit(row.rank, "utc", by_utc, 0, None, None)
        return fit if apart is None else _with_residual(fit, apart)
    if apart is None:
        host = "its host is unknown" if row.host is None or reference.host is None else "it ran on another host"
        if one_host:
            host = "its trace does not say when its session began"
        return ClockFit(row.rank, "none", None, 0, None, None, f"{host}, and {why}")
    offset = int(np.median(apart))
    fit = _with_residual(ClockFit(row.rank, "collectives", offset, 0, None, None), apart)
    if fit.anchors < LEAST_ANCHORS:
        return replace(fit, offset_ns=None, reason=f"{fit.anchors} matching collectives are too few")
    if fit.residual_ns is None or fit.residual_ns > MOST_RESIDUAL_NS:
        return replace(fit, offset_ns=None, reason="matching collectives do not end together: other work, or drift")
    return fit


def _with_residual(fit: ClockFit, apart: Int64s) -> ClockFit:
    assert fit.offset_ns is not None
    residual = np.abs(apart - fit.offset_ns)
    return replace(fit, anchors=len(residual), residual_ns=int(np.median(residual)), worst_ns=int(residual.max()))


def recorded_apart(rows: list[RankRow]) -> list[tuple[RankRow, RankRow]]:
    """Return the pairs of ranks whose GPU work did not overlap in time, judged by the starts of their sessions.

    Such traces do not belong to one job.
    """
    known = [
        (row.session_start_utc_ns + row.first_ns, row.session_start_utc_ns + row.last_ns, row)
        for row in rows
        if row.session_start_utc_ns is not None and row.first_ns is not None and row.last_ns is not None
    ]
    if not known:
        return []
    first_to_end = min(known, key=lambda span: span[1])
    last_to_begin = max(known, key=lambda span: span[0])
    # the clocks of two hosts may differ by some seconds
    apart = last_to_begin[0] - first_to_end[1] > 60 * 10**9
    return [(first_to_end[2], last_to_begin[2])] if apart else []


def arrivals(
    rows: list[RankRow], clocks: list[ClockFit], collectives: Mapping[int, Collectives | None]
) -> Arrivals | None:
    """Return when each rank began each collective that all ranks share; None where that is unknown.

    Ranks without a clock are left out. There must be at least two other ranks that share at least two collectives.
    Where the ranks recorded different parts of a sequence (--delay, --duration), its collectives are matched by when
    they ended. This needs clocks that were not themselves fitted to collectives.
    """
    clock = {fit.rank: fit for fit in clocks if fit.offset_ns is not None}
    able: list[_Able] = []
    for row in rows:
        mine = collectives.get(row.position)
        if row.rank in clock and mine is not None and len(mine.of):
            able.append((row.rank, mine, clock[row.rank].offset_ns or 0))
    if len(able) < 2:
        return None
    one_host = all(clock[rank].how in ("reference", "utc") for rank, _, _ in able)
    names = sorted(set.intersection(*(set(mine.names) for _, mine, _ in able)))
    parts = [at for name in names if (at := _matching(name, able, one_host=one_host)) is not None]
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
        matched=tuple(Matched(mine, at, offset) for at, (_, mine, offset) in every),
    )


def _matching(name: str, able: list[_Able], *, one_host: bool) -> list[Int64s] | None:
    """Return for each rank the rows of the collectives of a sequence that all ranks share; None where unknown.

    The rows of all ranks are in one order.
    """
    at = [_rows(mine, [name]) for _, mine, _ in able]
    same = len({int(mine.counts[mine.names.index(name)]) for _, mine, _ in able}) == 1
    if not one_host:
        return at if same else None
    ends = [mine.end_ns[rows] + offset for rows, (_, mine, offset) in zip(at, able, strict=True)]
    if same and max(np.median(np.abs(rank_ends - ends[0])) for rank_ends in ends) <= MOST_RESIDUAL_NS:
        return at
    return [rows[kept] for rows, kept in zip(at, _ended_together(ends), strict=True)]


def _ended_together(ends_ns: list[Int64s]) -> list[Int64s]:
    """Return for each rank which of its collectives ended together with one of every other rank, in order.

    All ranks have the same number of them.
    """
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
