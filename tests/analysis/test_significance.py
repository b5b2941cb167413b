import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nsysprof.analysis.latency import block_medians
from nsysprof.analysis.significance import (
    ALPHA,
    Comparison,
    Verdict,
    compare_medians,
    decide,
    halves,
    holm,
    noise_floor,
)
from tests.analysis.blocks import make_blocks


def medians(rng, **fields):
    return block_medians(make_blocks(rng, 15, between=0.01, **fields))


def test_the_same_code_is_called_different_no_more_often_than_alpha():
    rng = np.random.default_rng(1)
    pairs = [(make_blocks(rng, 15, between=0.02), make_blocks(rng, 15, between=0.02)) for _ in range(400)]
    below = sum(compare_medians(block_medians(a), block_medians(b)).p < ALPHA for a, b in pairs)
    assert below / len(pairs) <= 0.07
    # The same samples tested one by one, as if each were a measurement of its own: what this is for.
    pooled = [[np.concatenate([block.values_ns for block in blocks]) for blocks in pair] for pair in pairs[:100]]
    assert np.mean([stats.mannwhitneyu(a, b).pvalue < ALPHA for a, b in pooled]) > 0.3


def test_planted_differences_are_found_in_either_direction():
    rng = np.random.default_rng(2)
    for factor, verdict in ((1.05, Verdict.SLOWER), (1 / 1.05, Verdict.FASTER)):
        found = [compare_medians(medians(rng), medians(rng, median=1e5 * factor)) for _ in range(40)]
        verdicts = [decide([one], floor_pct=1.0)[0].verdict for one in found]
        assert verdicts.count(verdict) >= 38


def test_below_the_floor_nothing_differs():
    rng = np.random.default_rng(3)
    found = compare_medians(medians(rng), medians(rng, median=1e5 * 1.05))
    assert decide([found], floor_pct=10)[0].verdict is Verdict.SAME


def test_a_small_effect_is_none_however_small_its_p():
    assert decide([Comparison(1.2, 1e-9, 0.3)], 1.0)[0].verdict is Verdict.SAME
    assert decide([Comparison(1.2, 1e-9, 0.4)], 1.0)[0].verdict is Verdict.SLOWER


def test_too_few_blocks_are_no_comparison():
    assert compare_medians(np.array([1.0, 2, 3]), np.array([7.0, 8, 9, 10])) is None
    assert decide([None, Comparison(2, 0.001, 1.0)], 1.0)[0] is None


def test_all_equal():
    found = compare_medians(np.full(5, 7.0), np.full(5, 7.0))
    assert (found.ratio, found.p, found.delta) == (1.0, 1.0, 0.0)


def test_cliffs_delta_by_its_definition():
    rng = np.random.default_rng(4)
    a, b = rng.normal(10, 1, 9), rng.normal(10.5, 1, 12)
    more = sum(y > x for x in a for y in b)
    less = sum(y < x for x in a for y in b)
    assert compare_medians(a, b).delta == pytest.approx((more - less) / (9 * 12))


def test_holm_on_a_worked_example():
    # Holm (1979): 0.01, 0.04, 0.03, 0.005 -> 0.03, 0.06, 0.06, 0.02
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_between_the_raw_p_and_bonferroni_and_keeps_their_order(raw):
    corrected = holm(raw)
    for p, q in zip(raw, corrected, strict=True):
        assert p <= q <= min(1.0, p * len(raw)) + 1e-12
    order = np.argsort(raw, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


def test_the_noise_floor_is_what_95_percent_stay_below():
    rng = np.random.default_rng(5)
    pairs = [(np.array([1.0]), np.array([np.exp(rng.normal(0, 0.01))])) for _ in range(2000)]
    assert noise_floor(pairs) == pytest.approx(1.98, abs=0.15)
    few = [noise_floor(pairs[i : i + 10]) for i in range(0, 2000, 10)]
    assert np.median(few) == pytest.approx(1.98, abs=0.3)
    assert noise_floor([]) is None


def test_halves_interleave():
    a, b = halves(np.arange(5.0))
    assert (list(a), list(b)) == ([0, 2, 4], [1, 3])
