"""Name what was asked for and is missing, which every table of the report then says."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.report.document import Table
from nsysprof.results.analysis import CaptureRecord
from nsysprof.results.missing_source import MissingSource

_WORDS = {
    MissingSource.COUNTERS: "no hardware counters",
    MissingSource.DRAM_SAMPLES: "DRAM not sampled",
    MissingSource.COUNTERS_OF_THIS_GPU: "no hardware counters of this GPU",
    MissingSource.NSYS: "traced by torch, not nsys",
}


def tier_of(record: CaptureRecord | None) -> str:
    """Return what is missing, in words; an empty text where nothing is.

    A source that only some cases lack counts as missing once any case has none of it.
    """
    if record is None:
        return ""
    counted = record.results["counted_kernels"].notna().any()
    missing = dict.fromkeys(each for each in record.missing if not (each is MissingSource.COUNTERS and counted))
    return ", ".join(_WORDS[each] for each in missing)


def with_tier(table: Table, tier: str) -> Table:
    """Return the table under a title that says what is missing."""
    return replace(table, title=f"{table.title}: lower tier, {tier}") if tier else table
