"""What was asked for and could not be had, which every table of the report then says."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.analysis.results import CaptureRecord
from nsysprof.report.tables import Table

_MISSING = {
    "no-counters": "no hardware counters",
    "gpu-metrics-failed": "DRAM not sampled",
    "counters-of-another-gpu": "no hardware counters of this GPU",
    "nsys-failed": "traced by torch, not nsys",
}


def tier_of(record: CaptureRecord | None) -> str:
    """What is missing, in words; empty where nothing is. A part that is missing of some cases counts once some have
    none of it at all."""
    if record is None:
        return ""
    counted = record.results["counted_kernels"].notna().any()
    codes = [note.code for note in record.notes if not (note.code == "no-counters" and counted)]
    return ", ".join(dict.fromkeys(_MISSING[code] for code in codes if code in _MISSING))


def with_tier(table: Table, tier: str) -> Table:
    """The table under a title that says what is missing."""
    return replace(table, title=f"{table.title}: lower tier, {tier}") if tier else table
