"""Energy of intervals by a counter that changes now and then: sums are exact, parts have bounds that hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.traffic.energy import LAG_NS, by_device, energy_in_groups
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.schema import DeviceRow

MS = 1_000_000


def counter(power_w, period_ms=100, lag_ms=0):
    """Return a counter of a board with this power in each millisecond, that changes once a period, maybe late."""
    energy = np.concatenate([[0], np.cumsum([100] * lag_ms + list(power_w))])  # mJ: W times ms
    at = np.arange(0, len(energy), period_ms)
    return GpuEnergy("GPU-1", 0, at * MS, energy[at].astype(np.int64))


def measure(samples, *spans):
    start, end = (np.array([span[side] for span in spans], dtype=np.int64) * MS for side in (0, 1))
    found = energy_in_groups(samples, start, end, np.zeros(len(spans), np.int64), 1)
    return found.energy_j[0], found.error_j[0], found.covered_ns[0]


def test_whole_periods_are_exact_but_for_the_lag_of_the_counter():
    assert measure(counter([100] * 1000), (0, 500)) == (pytest.approx(50), pytest.approx(0), 500 * MS)
    power, late = [100] * 500 + [700] * 500, LAG_NS / 1e9 * 600
    assert measure(counter(power), (0, 500)) == (pytest.approx(50), pytest.approx(late), 500 * MS)
    assert measure(counter(power), (500, 700), (700, 900)) == (pytest.approx(280), pytest.approx(late), 400 * MS)
    # What the counter says after the end of the samples is between the least and the most.
    assert measure(counter(power), (600, 1000))[:2] == (pytest.approx(280), pytest.approx(late))


def test_times_that_several_intervals_cover_count_once():
    assert measure(counter([100] * 500), (0, 300), (100, 200), (150, 400)) == measure(counter([100] * 500), (0, 400))


def test_a_part_of_a_period_has_an_error():
    energy, error, _ = measure(counter([100] * 500 + [700] * 500), (460, 540))
    assert energy == pytest.approx(4 + 28)
    # A period whose mean is the least power seen cannot have had less anywhere, so neither can it have had more.
    assert error == pytest.approx(LAG_NS / 1e9 * 600)
    mixed = counter([100] * 450 + [700] * 550)
    energy, error, _ = measure(mixed, (400, 450))
    assert energy == pytest.approx(20)
    assert error == pytest.approx(15)  # the truth is 5


@given(st.data())
def test_the_bound_holds_for_any_power_between_the_least_and_the_most_that_periods_had(data):
    level = st.sampled_from([100, 700])
    blocks = [100] * 2 + data.draw(st.lists(level, min_size=4, max_size=40)) + [700] * 2
    power = np.repeat([100] * 4 + blocks + [700] * 4, 50)
    samples = counter(power, lag_ms=data.draw(st.integers(0, LAG_NS // MS)))
    edges = sorted(data.draw(st.lists(st.integers(0, (len(power) // 100) * 100), min_size=4, max_size=4)))
    energy, error, covered = measure(samples, edges[:2], edges[2:])
    within = np.zeros(len(power), dtype=bool)
    within[edges[0] : edges[1]] = within[edges[2] : edges[3]] = True
    assert covered == within.sum() * MS
    assert abs(power[within].sum() / 1e3 - energy) <= error + 1e-6


def test_what_was_not_sampled_is_unknown():
    samples = counter([100] * 500)
    assert np.isnan(measure(samples, (300, 600))[0])
    assert np.isnan(measure(GpuEnergy("x", 0, np.zeros(1, np.int64), np.zeros(1, np.int64)), (0, 1))[0])


def test_boards_are_found_by_uuid_and_else_by_their_place():
    boards = [GpuEnergy(f"GPU-00-{name}", index, *np.zeros((2, 0), np.int64)) for index, name in enumerate("ab")]
    rows = [DeviceRow(number, "H200", None, None, uuid) for number, uuid in ((0, "GPU-00-B"), (1, None), (2, "GPU-z"))]
    assert by_device(boards, rows) == {0: boards[1], 1: boards[1]}
