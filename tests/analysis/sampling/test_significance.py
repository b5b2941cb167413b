import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.sampling.significance import (
    ALPHA,
    NO_PRIOR,
    CaseVerdict,
    PairDifference,
    compare_shape,
    false_discovery,
    fit_differences,
    holm,
    noise_floor,
    smallest_difference,
    turns_of,
)
from nsysprof.results.samples import Block
from tests.analysis.blocks import process_turns


def shapes(rng, count, factors, **noise):
    levels = [1e5 * factor for factor in factors]
    return [{str(i): process_turns(rng, level, **noise) for i, level in enumerate(levels)} for _ in range(count)]


def verdicts(found):
    prior = fit_differences(found)
    return [compare_shape(shape, prior)["0", "1"].verdict() for shape in found]


@pytest.mark.parametrize("process", [0.0, 0.005, 0.02])
def test_the_same_code_is_called_different_no_more_often_than_alpha(process):
    rng = np.random.default_rng(1)
    found = [verdict for _ in range(20) for verdict in verdicts(shapes(rng, 20, (1.0, 1.0), process=process))]
    wrong = sum(verdict in (CaseVerdict.SLOWER, CaseVerdict.FASTER) for verdict in found)
    assert wrong / len(found) <= ALPHA + 0.03


def test_among_five_equal_backends_no_more_shapes_than_alpha_have_a_difference():
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(15):
        found = shapes(rng, 10, (1.0,) * 5, process=0.005)
        prior = fit_differences(found)
        wrong += sum(any(pair.p_corrected < ALPHA for pair in compare_shape(shape, prior).values()) for shape in found)
    assert wrong / 150 <= ALPHA + 0.04


def test_planted_differences_are_found_in_either_direction():
    rng = np.random.default_rng(3)
    for factor, verdict in ((1.05, CaseVerdict.SLOWER), (1 / 1.05, CaseVerdict.FASTER)):
        assert verdicts(shapes(rng, 40, (1.0, factor), process=0.005)).count(verdict) >= 38


def test_a_tie_is_shown_and_not_a_lack_of_evidence():
    rng = np.random.default_rng(4)
    quiet = verdicts(shapes(rng, 20, (1.0, 1.0), process=0.002))
    noisy = verdicts(shapes(rng, 20, (1.0, 1.0), process=0.10))
    assert quiet.count(CaseVerdict.SAME) >= 17
    assert noisy.count(CaseVerdict.SAME) == 0
    assert noisy.count(CaseVerdict.INCONCLUSIVE) >= 17


def test_a_verdict_does_not_depend_on_how_many_shapes_were_measured_with_it():
    pair = PairDifference(1.05, 1.03, 1.07, 0.001, 0.001, 3)
    assert pair.verdict() is CaseVerdict.SLOWER
    rng = np.random.default_rng(5)
    many = shapes(rng, 300, (1.0, 1.05), process=0.005)
    assert verdicts(many).count(CaseVerdict.SLOWER) >= 295


def test_one_process_is_no_comparison():
    rng = np.random.default_rng(6)
    shape = {str(i): process_turns(rng, 1e5, processes=1) for i in range(2)}
    assert compare_shape(shape, fit_differences([shape])) == {}


def test_a_pair_is_the_same_seen_from_either_side():
    rng = np.random.default_rng(7)
    (shape,) = shapes(rng, 1, (1.0, 1.1, 1.2), process=0.01)
    pairs = compare_shape(shape, fit_differences([shape]))
    assert pairs["0", "1"].ratio == pytest.approx(1 / pairs["1", "0"].ratio)
    assert pairs["0", "1"].low == pytest.approx(1 / pairs["1", "0"].high)
    assert len(pairs) == 6


def test_turns_that_only_one_has_do_not_count():
    shape = {"a": {(0, 0): 1.0, (1, 0): 1.1, (2, 0): 9.0}, "b": {(0, 0): 1.2, (1, 0): 1.3}}
    pairs = compare_shape(shape, fit_differences([shape]))
    assert pairs["a", "b"].ratio == pytest.approx(np.exp(0.2))
    assert pairs["a", "b"].processes == 2


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


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_the_correction_is_that_of_scipy(count):
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(count).random(count).round(1).tolist()
    expected = stats.false_discovery_control(values).tolist() if values else []
    assert false_discovery(values) == pytest.approx(expected, rel=1e-12)


def test_the_noise_floor_is_what_95_percent_stay_below():
    rng = np.random.default_rng(5)
    pairs = [(np.array([1.0]), np.array([np.exp(rng.normal(0, 0.01))])) for _ in range(2000)]
    assert noise_floor(pairs) == pytest.approx(1.98, abs=0.15)
    few = [noise_floor(pairs[i : i + 10]) for i in range(0, 2000, 10)]
    assert np.median(few) == pytest.approx(1.98, abs=0.3)
    assert noise_floor([]) is None


@pytest.mark.parametrize(("processes", "noise"), [(3, 0.004), (6, 0.03)])
def test_the_smallest_difference_is_told_in_eighty_percent_of_runs(processes, noise):
    rng = np.random.default_rng(6)

    def measure(difference):
        effects = rng.normal(0, noise, (2, processes)) + np.array([[0.0], [np.log1p(difference / 100)]])
        return {name: {(p, 0): effects[i, p] for p in range(processes)} for i, name in enumerate(("one", "other"))}

    equal = [measure(0) for _ in range(500)]
    smallest, pairs = smallest_difference(equal, fit_differences(equal))
    assert pairs == 500
    apart = [measure(smallest) for _ in range(500)]
    prior = fit_differences(apart)
    told = [compare_shape(shape, prior)["one", "other"].verdict() is CaseVerdict.SLOWER for shape in apart]
    assert 0.75 < np.mean(told) < 0.85
    assert smallest_difference([], NO_PRIOR) == (None, 0)


def test_the_first_sample_of_a_block_does_not_count_where_there_are_others():
    for values, middle in (((900, 100, 100, 300, 300), 200), ((900, 100), 500)):
        assert turns_of([Block(0, 0, 0, "ok", values_ns=values)]) == {(0, 0): pytest.approx(np.log(middle))}
