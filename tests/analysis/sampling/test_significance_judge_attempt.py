"""An attempt helped only if it is faster for certain and prints the same; a prediction is met by its interval."""

from dataclasses import replace

import pytest

from nsysprof.analysis.sampling.significance import check_prediction, is_better, saves_memory
from nsysprof.results.comparison import LatencyChange, LatencyVerdict, SideOfCase
from nsysprof.results.program_runs import (
    MemoryChange,
    MemoryKind,
    PredictedGain,
    Prediction,
    ProgramComparison,
    ProgramSideSummary,
    Sameness,
    ValueComparison,
)


def change(verdict=LatencyVerdict.FASTER, low=0.78, high=0.82):
    side = SideOfCase("ok", median_ns=10.0)
    return LatencyChange("train.py", verdict, side, side, ratio=0.8, low=low, high=high)


def comparison(verdict, values=None):
    summary = ProgramSideSummary("as it is", 3, 0, 10.0, 10, 100, None)
    return ProgramComparison(("train.py",), summary, summary, "printed lines", change(verdict), values)


def test_a_faster_program_with_other_values_is_not_better():
    values = ValueComparison(Sameness.DIFFERENT, "", 5, 1.0, 30.0)
    assert is_better(comparison(LatencyVerdict.FASTER))
    assert not is_better(comparison(LatencyVerdict.SAME))
    assert not is_better(comparison(LatencyVerdict.FASTER, values))


LESS = MemoryChange(MemoryKind.RESERVED, (540, 550), (70, 80))
MORE = MemoryChange(MemoryKind.PEAK, (70, 80), (540, 550))


@pytest.mark.parametrize(
    ("memory", "verdict", "values", "saves"),
    [
        ((LESS,), LatencyVerdict.INCONCLUSIVE, None, True),
        ((LESS,), LatencyVerdict.SAME, Sameness.EQUAL, True),
        ((LESS,), LatencyVerdict.SLOWER, None, False),
        ((LESS,), None, None, False),
        ((LESS,), LatencyVerdict.SAME, Sameness.DIFFERENT, False),
        ((LESS, MORE), LatencyVerdict.SAME, None, False),
        ((), LatencyVerdict.SAME, None, False),
    ],
)
def test_less_memory_counts_at_a_time_that_is_not_shown_to_be_worse(memory, verdict, values, saves):
    told = None if values is None else ValueComparison(values, "", 5, 1.0, 0.1)
    assert saves_memory(replace(comparison(verdict, told), memory=memory)) is saves


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        ((15.0, 19.0), Prediction.MET),
        ((15.0, 17.5), Prediction.GAINED_MORE),
        ((23.0, 29.0), Prediction.GAINED_LESS),
    ],
)
def test_a_prediction_is_met_where_the_intervals_meet(bounds, found):
    assert check_prediction(PredictedGain(17.0, *bounds, "step", "a finding"), change()) is found


def test_without_a_prediction_or_a_measurement_nothing_is_met():
    assert check_prediction(None, change()) is None
    expected = PredictedGain(17.0, 15.0, 19.0, "step", "a finding")
    assert check_prediction(expected, change(low=None, high=None)) is Prediction.NOT_MEASURED
