"""All numbers of an analysis as plain values, by the names of devices and without what names the file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pandas as pd

from nsysprof.results.analysis import Analysis

TABLES = ("kernels", "ranges", "range_kernels", "api", "memops")


def numbers(analysis: Analysis) -> dict[str, Any]:
    """Totals, coverage and tables; peaks and GPU work by the device's name, whatever id stands for it."""
    name = {device.device_id: device.name for device in analysis.devices}
    totals = asdict(analysis.totals)
    peaks = totals.pop("peak_vram_bytes")
    work = analysis.timeline.gpu
    return {
        **totals,
        "peak_vram_bytes": None if peaks is None else {name[device]: peak for device, peak in peaks.items()},
        "work_by_device": work["device_id"].map(name).value_counts().sort_index().to_dict(),
        "coverage": asdict(analysis.coverage),
        **{table: records(getattr(analysis, table)) for table in TABLES},
    }


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, unknown as None."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return rows


def codes(analysis: Analysis) -> set[str]:
    return {note.code for note in analysis.notes}
