"""Where blocks are noisy, a report of many shapes of equal backends names none as different too often."""

import numpy as np
import pytest

from nsysprof.analysis.sampling.significance import (
    CaseVerdict,
    block_noise,
    compare_shape,
    correct_noisy,
    fit_differences,
)


def shapes_of(random, block, factor=1.0, shapes=10):
    """Return shapes of four backends, three processes and five rounds, of which the last three take `factor` times."""
    return [
        {
            str(backend): {
                (process, turn): float(np.log(1e5 * (factor if backend else 1.0)) + random.normal(0, block))
                for process in range(3) for turn in range(5)
            }
            for backend in range(4)
        }
        for _ in range(shapes)
    ]  # fmt: skip


def verdicts(shapes, *, corrected=True):
    prior = fit_differences(shapes)
    found = [compare_shape(shape, prior) for shape in shapes]
    pairs = correct_noisy(shapes, found) if corrected else found
    return [pair.verdict() for of_shape in pairs for (one, _), pair in of_shape.items() if one == "0"]


def test_the_noise_of_blocks_is_without_what_a_round_shares():
    random = np.random.default_rng(0)
    (shape,) = shapes_of(random, 0.05, shapes=1)
    shared = {turn: random.normal(0, 1.0) for turn in shape["0"]}
    moved = {name: {turn: level + shared[turn] for turn, level in turns.items()} for name, turns in shape.items()}
    assert block_noise(moved) == pytest.approx(block_noise(shape)) == pytest.approx(0.05, rel=0.3)
    assert block_noise({"0": shape["0"]}) == 0.0, "one backend has nothing to be compared with"


def test_where_blocks_are_noisy_few_reports_of_equal_shapes_tell_any_apart():
    random = np.random.default_rng(1)
    told = [0, 0]
    for _ in range(60):
        shapes = shapes_of(random, 0.09)
        for corrected in (False, True):
            found = verdicts(shapes, corrected=corrected)
            told[corrected] += CaseVerdict.SLOWER in found or CaseVerdict.FASTER in found
    assert told[0] >= 6
    assert told[1] <= 4


def test_what_differs_by_much_is_found_in_noise_too():
    found = verdicts(shapes_of(np.random.default_rng(2), 0.09, 1.3))
    assert found.count(CaseVerdict.SLOWER) >= 27


def test_on_a_quiet_machine_the_number_of_shapes_changes_nothing():
    shapes = shapes_of(np.random.default_rng(3), 0.006, 1.005)
    prior = fit_differences(shapes)
    found = [compare_shape(shape, prior) for shape in shapes]
    assert correct_noisy(shapes, found) == found
