"""The lines that say what a recording cost."""

from nsysprof.report.formats.latency_windows import render_latency_windows
from nsysprof.results.programs.latency_windows import LatencyWindow, LatencyWindows


def test_windows_with_ratios_and_what_is_unknown():
    known = LatencyWindow(20, 2 * 10**9, 1_500_000, 2_000_000, 1_400_000, 1_600_000)
    unknown = LatencyWindow(0, 10**9, None, None, None, None)
    lines = render_latency_windows(LatencyWindows("lines", "no step.", known, known, unknown, (1.5, 1.25, None), None))
    assert lines == [
        "latency, from lines:",
        "  before: median 1.500 ms, 90 % within 2.000 ms (20 steps in 2.0 s)",
        "  during: median 1.500 ms, 90 % within 2.000 ms (20 steps in 2.0 s), x1.500",
        "  after: 0 steps in 1.0 s, durations unknown",
        "whether the latency changed is unknown: no step.",
    ]
