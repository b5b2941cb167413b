"""Cases whose interval is too wide to say anything."""

from __future__ import annotations

import pandas as pd

from nsysprof.analysis.sampling.latency import launch_notes, noise_notes


def test_a_wide_interval_is_said_to_be_noise_and_a_narrow_one_is_not() -> None:
    rows = [("quiet", 100, 95, 104), ("noisy", 131, 12, 166), ("unmeasured", None, None, None)]
    names = ["range", "latency_median_ns", "latency_ci_low_ns", "latency_ci_high_ns"]
    results = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[1:], "Int64"))
    (note,) = noise_notes(results)
    assert note.code == "noisy-machine"
    assert "the latency of noisy: " in note.text
    assert noise_notes(results[:1]) == []


def test_a_case_whose_samples_stall_is_said_to_be_no_slower():
    results = pd.DataFrame({"range": ["a", "b"], "latency_median_ns": [100.0, 100.0],
                            "latency_ci_low_ns": [None, 99.0], "latency_ci_high_ns": [900.0, 101.0]})  # fmt: skip
    (note,) = noise_notes(results)
    assert note.code == "machine-stalls"
    assert "of the samples of a take 3 times as long as usual. None of them is called slower." in note.text


def test_cases_whose_pace_the_cpu_sets_are_named():
    """A graph decides; without one, kernels that take less than half of a call."""
    columns = ("range", "latency_median_ns", "kernel_total_ns", "traced_calls", "event_over_graph")
    rows = [
        ("graph", 1000.0, 9000.0, 10, 3.0),
        ("busy graph", 1000.0, 1000.0, 10, 1.1),
        ("short", 1000.0, 2000.0, 10, None),
        ("long", 1000.0, 9500.0, 10, None),
        ("untraced", 1000.0, None, 0, None),
        ("failed", None, None, 0, None),
    ]
    (note,) = launch_notes(pd.DataFrame(rows, columns=columns))
    assert note.code == "launch-bound-latency"
    assert "pace of graph, short, by" in note.text
    assert "another process may take up to twice as long" in note.text
    assert launch_notes(pd.DataFrame(rows[3:], columns=columns)) == []
