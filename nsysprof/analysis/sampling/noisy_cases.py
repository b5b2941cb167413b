"""Find the cases of a capture whose latency is uncertain because the machine was too noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysprof.notes import Note, make_note

if TYPE_CHECKING:
    import pandas as pd

# A median is uncertain if its interval extends further than this to either side (percent). At most this many cases are
# named.
_LEAST_NOISE_PCT, _MOST_NAMED = 10, 4


def noise_notes(results: pd.DataFrame) -> list[Note]:
    """Return a note about the cases whose latency is uncertain because the machine was too noisy.

    results: the columns of results.csv.
    """
    known = results[results["latency_ci_high_ns"].notna()]
    widest = (known["latency_ci_high_ns"] - known["latency_ci_low_ns"]).astype(float) / 2
    names = known["range"][(100 * widest > _LEAST_NOISE_PCT * known["latency_median_ns"].astype(float)).to_numpy()]
    if not len(names):
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    cases = ", ".join(map(str, names[:_MOST_NAMED])) + more
    return [make_note("noisy-machine", cases=cases, least_pct=_LEAST_NOISE_PCT)]
