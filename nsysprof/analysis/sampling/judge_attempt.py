"""Judge an attempt to make a program faster: whether it helped, and whether the gain is as predicted."""

from __future__ import annotations

from nsysprof.results.comparison import LatencyChange, LatencyVerdict
from nsysprof.results.optimization import PredictedGain, Prediction
from nsysprof.results.program_runs import ProgramComparison, Sameness


def is_better(found: ProgramComparison) -> bool:
    """Return whether the candidate is certainly faster and prints the same values."""
    return found.change.verdict is LatencyVerdict.FASTER and not _has_other_values(found)


def saves_memory(found: ProgramComparison) -> bool:
    """Return whether the candidate needs less memory in every run, prints the same values and is not certainly slower.

    Where it needs less of one kind and more of another, it does not.
    """
    if not found.memory or not all(each.is_lower for each in found.memory) or _has_other_values(found):
        return False
    return found.change.verdict in (LatencyVerdict.FASTER, LatencyVerdict.SAME, LatencyVerdict.INCONCLUSIVE)


def _has_other_values(found: ProgramComparison) -> bool:
    return found.values is not None and found.values.verdict is Sameness.DIFFERENT


def check_prediction(expected: PredictedGain | None, change: LatencyChange) -> Prediction | None:
    """Return how the measured gain compares with the bounds of the predicted one; None without a prediction."""
    if expected is None:
        return None
    if change.low is None or change.high is None:
        return Prediction.NOT_MEASURED
    low, high = 100 * (1 - change.high), 100 * (1 - change.low)
    if low <= expected.high_pct and high >= expected.low_pct:
        return Prediction.MET
    return Prediction.GAINED_MORE if low > expected.high_pct else Prediction.GAINED_LESS
