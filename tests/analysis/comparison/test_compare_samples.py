"""Values of two sides, by samples: the same, as exact as the precision allows, or other."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_samples import compare_samples, needs_other_seed, rounding_of
from nsysprof.results.program_runs import OK, ProgramTraits, Sameness, TimedRun, ValueSamples

GRADIENTS = np.random.default_rng(0).normal(size=1000)
LOSSES = np.linspace(2.0, 1.5, 12)
MODULE = {"is_fp32": True, "is_autocast": False, "is_random": False}


def run(error=0.0, loss_error=0.0, *, seed=1, losses=True, **module):
    noise = np.random.default_rng(seed).normal(size=1000)
    samples = ValueSamples(
        losses=tuple(LOSSES * (1 + loss_error)) if losses else (),
        gradients=tuple(GRADIENTS + error * noise),
        steps=10,
    )
    traits = ProgramTraits(modules=({**MODULE, **module},))
    return TimedRun(side="", turn=0, status=OK, samples=samples, traits=traits)


@pytest.mark.parametrize(
    ("error", "precision", "verdict"),
    [
        (1e-5, "same", Sameness.EQUAL),
        (1e-2, "same", Sameness.DIFFERENT),
        (1e-3, "tf32", Sameness.EQUAL),
        (1e-2, "tf32", Sameness.APPROXIMATE),
        (1e-1, "tf32", Sameness.DIFFERENT),
        (5e-2, "bf16", Sameness.APPROXIMATE),
        (5e-1, "bf16", Sameness.DIFFERENT),
    ],
)
def test_an_error_is_judged_by_what_the_precision_explains(error, precision, verdict):
    compared = compare_samples([run(), run()], [run(error * 0.9)], precision)
    assert compared.verdict is verdict
    assert compared.largest_pct == pytest.approx(90 * error, rel=0.1)


def test_losses_that_part_are_other_values_even_where_gradients_agree():
    compared = compare_samples([run(), run()], [run(1e-5, loss_error=0.1)], "same")
    assert (compared.verdict, compared.reason) == (
        Sameness.DIFFERENT,
        "losses of the first 10 steps differ by up to 10 %",
    )


def test_a_program_that_computes_in_bf16_has_its_own_rounding():
    low = {"is_autocast": True}
    assert compare_samples([run(**low)], [run(0.03)], "same").verdict is Sameness.EQUAL


def test_nothing_is_said_where_runs_of_the_program_differ_or_nothing_was_sampled():
    noisy = compare_samples([run(), run(0.5, seed=2)], [run(0.5, seed=3)], "tf32")
    assert noisy.verdict is Sameness.UNKNOWN
    assert "differ among themselves by 52 %" in noisy.reason
    empty = TimedRun(side="", turn=0, status=OK)
    assert compare_samples([empty], [empty], "same").verdict is Sameness.UNKNOWN


def test_nan_and_other_sizes_are_other_values():
    broken = run()
    broken = TimedRun(side="", turn=0, status=OK, samples=ValueSamples(gradients=(None,) * 1000, steps=10))
    assert compare_samples([run()], [broken], "bf16").verdict is Sameness.DIFFERENT


def test_other_random_numbers_are_compared_with_another_seed():
    dropping = run(is_random=True)
    assert needs_other_seed([dropping], "random")
    assert not needs_other_seed([run()], "random")
    other = run(1.0, 0.02, seed=5)
    near = compare_samples([dropping], [run(1.0, 0.03)], "random", other)
    assert near.verdict is Sameness.APPROXIMATE
    assert "other random numbers" in near.reason
    assert compare_samples([dropping], [run(1.0, 0.2)], "random", other).verdict is Sameness.DIFFERENT
    assert compare_samples([dropping], [run(1.0, 0.2)], "random").verdict is Sameness.UNKNOWN
    assert compare_samples([dropping], [run()], "random").verdict is Sameness.EQUAL


@pytest.mark.parametrize(
    ("precision", "switch", "explained"),
    [("tf32", "rounded=10", Sameness.APPROXIMATE), ("same", "rounded=22", Sameness.EQUAL)],
)
def test_a_net_that_multiplies_roundings_is_judged_by_its_losses_and_by_rounded_weights(precision, switch, explained):
    """A ResNet-50 before its first step: TF32 changes its gradients by 67 %, and its losses by 1 %."""
    old, new = [run(), run()], [run(0.6, seed=2)]
    alone = compare_samples(old, new, precision)
    assert (alone.verdict, rounding_of(alone, precision)) == (Sameness.DIFFERENT, switch)
    compared = compare_samples(old, new, precision, rounded=run(0.6, seed=3))
    assert (compared.verdict, compared.tolerance_pct) == (explained, pytest.approx(180, rel=0.1))
    assert "as rounding the weights to" in compared.reason
    calm = compare_samples(old, new, precision, rounded=run(1e-2, seed=3))
    assert calm.verdict is Sameness.DIFFERENT
    elsewhere = compare_samples(old, [run(0.6, 0.1, seed=2)], precision, rounded=run(0.6, seed=3))
    assert elsewhere.verdict is Sameness.DIFFERENT  # its losses part


def test_no_rounding_is_asked_for_where_nothing_differs():
    assert rounding_of(compare_samples([run(), run()], [run()], "tf32"), "tf32") == ""
