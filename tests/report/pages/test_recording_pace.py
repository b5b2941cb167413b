"""What the first lines of a recording say where the steps before and after it differ."""

from pathlib import Path

import pytest

from nsysprof.report.pages.recording import recording_report
from nsysprof.results.recorded_part import LatencyWindow, LatencyWindows, RecordResult


def first_lines(after_ratio):
    window = LatencyWindow(20, 2_000_000_000, 1_500_000, 2_000_000, 1_400_000, 1_600_000)
    latency = LatencyWindows("lines", "", window, window, window, (1.5, 1.4, 1.6), after_ratio)
    result = RecordResult(Path("recording-1"), 5_000_000_000, 40, 0, 0, True, latency, (), ())
    return recording_report(result).sections[0].parts[0].texts


def test_steps_that_changed_their_pace_leave_the_cost_unsure():
    _, said = first_lines((1.3, 1.2, 1.4))
    assert said.startswith("steps after the recording take 1.30 times as long as those before it, so what recording")
    assert said.endswith("the recorded ones take 1.15 to 1.50 times as long as those on either side")
    _, said = first_lines((0.75, 0.7, 0.85))
    assert said.endswith("take 1.50 to 2.00 times as long as those on either side")


@pytest.mark.parametrize("ratio", [None, (1.3, 0.9, 1.8), (1.05, 1.04, 1.06), (1.3, None, None)])
def test_steps_that_may_be_the_same_leave_nothing_to_say(ratio):
    assert len(first_lines(ratio)) == 1
