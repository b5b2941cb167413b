import pytest

from nsysprof.attention.shape import Case
from nsysprof.capture.plan import CountingPlan, plan_capture
from nsysprof.errors import UsageError

CASES = [Case("math", seq=1024), Case("flash", seq=4096)]


def plan(**changes):
    return plan_capture(CASES, **{"profiler": "none", "device": "cpu", "memory_bytes": None, **changes})


def test_ranges_of_the_plan():
    assert [plan().range_of(case) for case in CASES] == ["RUN::math::S1024", "RUN::flash::S4096"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("samples", 0),
        ("case_timeout_s", 0.0),
        ("sample_seconds", float("nan")),
    ],
)
def test_numbers_that_measure_nothing_are_refused(option, value):
    with pytest.raises(UsageError, match="--|samples"):
        plan(**{option: value})


def test_a_grid_whose_inputs_cannot_fit_is_refused_before_it_runs():
    needed = 4 * 8 * 4096 * 64 * 2
    assert plan(memory_bytes=needed)
    with pytest.raises(UsageError, match=r"S=4096.* needs 16 MiB .* has 15 MiB"):
        plan(memory_bytes=15 << 20)


def test_ranges_are_long_enough_for_their_samples_and_ceilings_are_measured_with_them():
    sampled = plan(gpu_metrics_hz=10_000, device="cuda")
    assert sampled.traced_seconds == pytest.approx(0.01)
    assert sampled.untraced.ceilings
    assert plan(counting=CountingPlan(), device="cuda").untraced.ceilings
    assert not plan(device="cuda").untraced.ceilings
