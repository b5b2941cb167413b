"""Values of two sides, by samples: the same, as exact as the precision allows, or other."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_samples import compare_samples, needs_other_seed
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
