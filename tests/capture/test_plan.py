import pytest

from nsysprof.capture.plan import plan_capture
from nsysprof.case import Case
from nsysprof.errors import UsageError

CASES = [Case("math", 1024), Case("flash", 4096)]


def plan(**changes):
    return plan_capture(CASES, **{"profiler": "none", "device": "cpu", "memory_bytes": None, **changes})


def test_ranges_of_the_plan():
    assert [plan().range_of(case) for case in CASES] == ["RUN::math::S1024", "RUN::flash::S4096"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("samples", 0),
        ("traced_calls", 0),
        ("warmup", -1),
        ("case_timeout_s", 0.0),
        ("sample_seconds", float("nan")),
    ],
)
def test_numbers_that_measure_nothing_are_refused(option, value):
    with pytest.raises(UsageError, match="--"):
        plan(**{option: value})


def test_a_grid_whose_inputs_cannot_fit_is_refused_before_it_runs():
    needed = 4 * 8 * 4096 * 64 * 2
    assert plan(memory_bytes=needed)
    with pytest.raises(UsageError, match=r"S=4096.* needs 16 MiB .* has 15 MiB"):
        plan(memory_bytes=15 << 20)
