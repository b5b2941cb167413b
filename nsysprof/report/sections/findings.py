"""Compose the first sections of a report: the findings, and why the GPU was idle."""

from __future__ import annotations

from nsysprof.report.document import Cell, Column, Item, Lines, Ranking, Section, Table, Unit, make_table
from nsysprof.report.sections.range_labels import range_label
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings.causes import LEAST_SHARE, Finding, Findings, Idle
from nsysprof.units import format_ns


def findings_sections(analysis: Analysis) -> list[Section]:
    """Return the findings, the most valuable one first; nothing where they are unknown."""
    return [] if analysis.findings is None else [_findings(analysis.findings)]


def idle_sections(analysis: Analysis) -> list[Section]:
    """Return the idle time by cause; nothing where it is unknown."""
    return [] if analysis.idle is None else [Section("", (idle_table(analysis.idle),))]


def _findings(found: Findings) -> Section:
    of_trace = "the trace" if found.steps == 1 else "what the trace repeats"
    step = of_trace if found.per == "trace" else f"a step ({range_label(found.per)})"
    busy_pct = 100 * found.busy_ns / found.recorded_ns if found.recorded_ns else None
    share = "" if busy_pct is None else f" ({busy_pct:.{int(busy_pct < 10)}f} %)"
    whole = f"{format_ns(found.recorded_ns)} of {step}; the GPU works for {format_ns(found.busy_ns)}{share} of it."
    if not found.items:
        text = f"Nothing was found above {100 * LEAST_SHARE:g} % of the {whole}"
        return Section("Findings", (Lines((text,), is_verdict=True),))
    text = f"Together these changes save about {format_ns(found.together_ns)} of the {whole}"
    title = "saved" if found.per == "trace" else "saved per step"
    ranking = Ranking(tuple(map(_item, found.items)), title, Unit.NS, "findings.csv")
    return Section("Findings", (Lines((text,), is_verdict=True), ranking))


def _item(finding: Finding) -> Item:
    amount = Cell(finding.saving_ns, low=finding.saving_low_ns, high=finding.saving_high_ns)
    where = " at ".join(part for part in (finding.range, finding.location) if part)
    return Item(finding.code, where, amount, finding.text, finding.next_step)


def idle_table(idle: Idle) -> Table:
    """Return the idle time of each device by cause, the largest first. The rows add up to all its idle time."""
    totals = {device.device_id: device for device in idle.devices}
    whole = idle.table[(idle.table["range"] == "").to_numpy(dtype=bool)]
    whole = whole.sort_values(["device_id", "idle_ns"], ascending=[True, False], kind="stable")
    rows = [
        (
            str(row["device_id"]),
            row["cause"],
            int(row["idle_ns"]),
            100 * row["idle_ns"] / totals[row["device_id"]].span_ns if totals[row["device_id"]].span_ns else None,
            int(row["count"]),
        )
        for row in whole.to_dict("records")
    ]
    columns = (
        Column("device"),
        Column("cause"),
        Column("idle", Unit.NS),
        Column("of the device's time", Unit.SHARE),
        Column("gaps", Unit.COUNT, drop=1),
    )
    return make_table("Idle time by cause", columns, rows, source="idle.csv")
