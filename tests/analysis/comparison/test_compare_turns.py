"""Both sides of one session, made up: what the paired test finds, what it leaves open, and what it advises."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare import measured_in_turn
from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.compare_turns import compare_in_turn, turns_needed
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import Input, LatencyVerdict, Measured

CASES = [Case("flash", seq=64 * (index + 1)) for index in range(6)]
NAMES = {case: str(case.seq) for case in CASES}


def side(rng, factors, *, turns=4, drift=None, spread=0.003):
    """Return one side: a process a turn, whose level has an effect of its own and the drift of the turn."""
    drift = np.zeros(turns) if drift is None else drift
    found = {}
    for case, factor in zip(CASES, factors, strict=True):
        levels = np.log(1e5 * factor) + drift + rng.normal(0, spread, turns)
        blocks = [[np.exp(level + rng.normal(0, 0.002, 6)) for _ in range(3)] for level in levels]
        processes = tuple(tuple(tuple(int(v) for v in block) for block in process) for process in blocks)
        found[case] = Measured("ok", processes=processes, turns=tuple(range(turns)))
    return found


def verdicts(old, new, **settings):
    return [each.verdict for each in compare_in_turn(old, new, NAMES, Settings(**settings)).changes]


def test_what_is_slower_is_found_although_both_drift_by_more():
    rng = np.random.default_rng(1)
    drift = np.array([0.0, 0.1, 0.2, 0.1])
    old = side(rng, [1.0] * 6, drift=drift)
    new = side(rng, [1.0, 1.0, 1.0, 1.0, 1.05, 0.95], drift=drift)
    assert verdicts(old, new) == [LatencyVerdict.SAME] * 4 + [LatencyVerdict.SLOWER, LatencyVerdict.FASTER]


def test_turns_that_one_side_lost_are_left_out_and_one_turn_decides_nothing():
    rng = np.random.default_rng(2)
    old, new = side(rng, [1.0] * 6), side(rng, [1.0] * 6)
    last = CASES[-1]
    new[last] = Measured("ok", processes=new[last].processes[2:3], turns=(2,))
    new[CASES[0]] = Measured("crashed", "signal 11")
    found = compare_in_turn(old, new, NAMES, Settings()).changes
    assert found[0].verdict is None
    assert "crashed" in found[0].reason
    assert found[1].verdict is LatencyVerdict.SAME
    # The spread of the other cases says how far one turn can be trusted.
    assert found[-1].verdict is LatencyVerdict.INCONCLUSIVE
    assert "processes" in found[-1].next_step


def test_what_stays_open_comes_with_a_number_of_turns():
    rng = np.random.default_rng(3)
    old, new = side(rng, [1.0] * 6, spread=0.05), side(rng, [1.0] * 6, spread=0.05)
    open_ = [each for each in compare_in_turn(old, new, NAMES, Settings()).changes if each.more]
    assert open_
    assert all(f"--processes {4 + each.more}" in each.next_step for each in open_)


def test_advised_turns_find_the_margin_in_eighty_percent():
    from scipy import stats

    deviation = 0.02
    count = turns_needed(deviation, 3.0)
    rng = np.random.default_rng(4)
    values = rng.normal(np.log(1.03), deviation, (2000, count))
    t = (values.mean(axis=1) - np.log(1.005)) / (values.std(axis=1, ddof=1) / np.sqrt(count))
    share = (2 * stats.t.sf(t, count - 1) < 0.05).mean()
    assert 0.79 <= share <= 0.87
    assert turns_needed(deviation, 3.0, tests=20) > count
    assert turns_needed(0.0, 3.0) == 2
    assert turns_needed(10.0, 3.0) == 1001


@pytest.mark.parametrize(("sessions", "paired"), [(("a", "a"), True), (("a", "b"), False), (("", ""), False)])
def test_only_the_two_sides_of_one_session_are_paired(sessions, paired):
    old, new = (
        Input(name, "bench", {}, digest=name, session=name_) for name, name_ in zip("xy", sessions, strict=True)
    )
    assert measured_in_turn([old], [new]) is paired
    assert not measured_in_turn([old, old], [new])
    assert not measured_in_turn([old], [old])
