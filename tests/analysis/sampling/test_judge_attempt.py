"""An attempt helped only if it is faster for certain and prints the same; a prediction is met by its interval."""

import pytest

from nsysprof.analysis.sampling.judge_attempt import check_prediction, is_better
from nsysprof.results.comparison import LatencyChange, LatencyVerdict, SideOfCase
from nsysprof.results.programs.optimization import PredictedGain, Prediction
from nsysprof.results.programs.program_runs import ProgramComparison, ProgramSideSummary, Sameness, ValueComparison


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
