"""Clocks of ranks: by the starts of sessions on one host, by the ends of collectives across hosts, or not at all."""

import numpy as np
import pytest

from nsysprof.ranks.collective_waits.collectives import Collectives, arrivals, fit_clocks, recorded_apart
from nsysprof.results.rank_results import RankRow

COUNT, MS, S = 12, 1_000_000, 10**9


def collectives(offset_ns, *, count=COUNT, first=0, jitter_ns=0):
    """Return what a rank saw of AllReduces that end every 10 ms, by a clock that is behind by the offset."""
    number = np.arange(count)
    end = (first + number + 1) * 10 * MS - offset_ns + jitter_ns * (number % 2)
    nothing = np.zeros(count, dtype=np.int64)
    return Collectives(
        *[nothing] * 10, names=("ncclDevKernel_AllReduce#0",), streams=np.zeros(1, np.int64),
        counts=np.array([count]), of=nothing, ordinal=number,
        start_ns=end - MS, end_ns=end, exposed_ns=nothing,
    )  # fmt: skip


def row(rank, *, host=None, began=None):
    return RankRow(rank, f"{rank}.sqlite", rank, host=host, session_start_utc_ns=began, first_ns=0, last_ns=S)


def test_on_one_host_the_starts_decide_and_collectives_check_them():
    rows = [row(0, host="a", began=5 * S), row(1, host="a", began=7 * S)]
    reference, fit = fit_clocks(rows, {0: collectives(0), 1: collectives(2 * S + 40_000)})
    assert (reference.how, reference.offset_ns) == ("reference", 0)
    assert (fit.how, fit.offset_ns, fit.anchors, fit.residual_ns) == ("utc", 2 * S, COUNT, 40_000)


@pytest.mark.parametrize("host", [None, "b"])
def test_across_hosts_the_ends_of_collectives_decide(host):
    rows = [row(0, host="a", began=5 * S), row(1, host=host, began=7 * S)]
    fit = fit_clocks(rows, {0: collectives(0), 1: collectives(3 * S)})[1]
    assert (fit.how, fit.offset_ns, fit.anchors, fit.residual_ns) == ("collectives", 3 * S, COUNT, 0)


@pytest.mark.parametrize(
    ("mine", "why"),
    [
        (None, "it ran on another host, and it has no NCCL collective"),
        (collectives(0, count=11), "in kernels or in number"),
        (collectives(0, jitter_ns=2 * MS), "do not end together"),
    ],
)
def test_without_evidence_a_rank_has_no_clock_and_a_reason(mine, why):
    fit = fit_clocks([row(0, host="a"), row(1, host="b")], {0: collectives(0), 1: mine})[1]
    assert fit.offset_ns is None
    assert why in fit.reason


def test_seven_collectives_are_too_few():
    few = {rank: collectives(rank * S, count=7) for rank in (0, 1)}
    fit = fit_clocks([row(0, host="a"), row(1, host="b")], few)[1]
    assert (fit.offset_ns, fit.reason) == (None, "7 matching collectives are too few")


def test_ranks_that_recorded_other_parts_are_matched_by_when_their_collectives_ended():
    rows = [row(0, host="a", began=5 * S), row(1, host="a", began=5 * S)]
    parts = {0: collectives(0), 1: collectives(0, first=4)}
    found = arrivals(rows, fit_clocks(rows, parts), parts)
    assert found is not None
    assert [matched.rows.tolist() for matched in found.matched] == [list(range(4, 12)), list(range(8))]


def test_traces_that_never_ran_at_once_are_named():
    assert recorded_apart([row(0, began=0), row(1, began=30 * S)]) == []
    early, late = recorded_apart([row(0, began=0), row(1, began=90 * S)])[0]
    assert (early.rank, late.rank) == (0, 1)
