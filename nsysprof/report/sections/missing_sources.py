"""Name the sources that were requested and are missing, in every table of the report that they affect."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.report.document import Table
from nsysprof.results.analysis import CaptureRecord, MissingSource

_WORDS = {
    MissingSource.COUNTERS: "no hardware counters",
    MissingSource.DRAM_SAMPLES: "DRAM not sampled",
    MissingSource.COUNTERS_OF_THIS_GPU: "no hardware counters of this GPU",
    MissingSource.NSYS: "traced by torch, not nsys",
}


def tier_of(record: CaptureRecord | None) -> str:
    """Return which sources are missing, in words; "" where none is.

    A source counts as missing if at least one case has no data from it.
    """
    if record is None:
        return ""
    counted = record.results["counted_kernels"].notna().any()
    missing = dict.fromkeys(each for each in record.missing if not (each is MissingSource.COUNTERS and counted))
    return ", ".join(_WORDS[each] for each in missing)


def with_tier(table: Table, tier: str) -> Table:
    """Return the table under a title that says what is missing."""
    return replace(table, title=f"{table.title}: lower tier, {tier}") if tier else table
