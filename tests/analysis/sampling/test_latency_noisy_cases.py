"""Cases whose interval is too wide to say anything."""

from __future__ import annotations

import pandas as pd

from nsysprof.analysis.sampling.latency import noise_notes


def test_a_wide_interval_is_said_to_be_noise_and_a_narrow_one_is_not() -> None:
    rows = [("quiet", 100, 95, 104), ("noisy", 131, 12, 166), ("unmeasured", None, None, None)]
    names = ["range", "latency_median_ns", "latency_ci_low_ns", "latency_ci_high_ns"]
    results = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[1:], "Int64"))
    (note,) = noise_notes(results)
    assert note.code == "noisy-machine"
    assert "the latency of noisy: " in note.text
    assert noise_notes(results[:1]) == []
