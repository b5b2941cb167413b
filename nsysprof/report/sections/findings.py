"""Compose the first sections of a report: the findings, and why the GPU was idle."""

from __future__ import annotations

from nsysprof.report.document import Cell, Column, Item, Lines, Ranking, Section, Table, Unit, make_table
from nsysprof.report.pages.range_rows import step_label
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings import LEAST_SHARE, TRACE, Finding, Findings, Idle
from nsysprof.units import format_ns

_NO_STACKS = "No lines of code are known, because no stacks were recorded: nsysprof capture --stacks -- PROGRAM"


def findings_sections(analysis: Analysis) -> list[Section]:
    """Return the findings, the most valuable one first, or why they are unknown; nothing where no GPU was used."""
    if analysis.findings is not None:
        return [_findings(analysis.findings)]
    if not analysis.no_findings:
        return []
    text = f"Findings are unknown, because {analysis.no_findings}."
    return [Section("Findings", (Lines((text,), is_verdict=True),))]


def idle_sections(analysis: Analysis) -> list[Section]:
    """Return the idle time by cause; nothing where it is unknown."""
    return [] if analysis.idle is None else [Section("", (idle_table(analysis.idle),))]


def _findings(found: Findings) -> Section:
    step = "the trace" if found.per == TRACE else step_label(found.per)
    whole = f"{format_ns(found.step_ns)} of {step}.{_what_was_replayed(found)}"
    if not found.items:
        text = f"Nothing was found above {100 * LEAST_SHARE:g} % of the {whole}"
        return Section("Findings", (Lines((text,), is_verdict=True),))
    text = f"Together these changes save about {format_ns(found.together_ns)} of the {whole}"
    title = "saved" if found.per == TRACE else "saved per step"
    ranking = Ranking(tuple(map(_item, found.items)), title, Unit.NS, "findings.csv")
    after = () if found.has_stacks else (Lines((_NO_STACKS,)),)
    return Section("Findings", (Lines((text,), is_verdict=True), ranking, *after))


def _what_was_replayed(found: Findings) -> str:
    """Return a sentence about the part of the program that the savings come from, where it is not typical."""
    if found.are_typical:
        return ""
    took = format_ns(found.recorded_ns)
    if found.per == TRACE:
        return f" The savings are computed on {took} of it: the process that works most, from its first call on."
    if found.first_step == found.last_step:
        return f" The savings are computed on step {found.first_step}, which took {took}."
    return f" The savings are computed on steps {found.first_step} to {found.last_step}, which took {took} on average."


def _item(finding: Finding) -> Item:
    amount = Cell(finding.saving_ns, low=finding.saving_low_ns, high=finding.saving_high_ns)
    share = finding.location_share_pct
    line = finding.location if share is None else f"{finding.location} ({share:.0f} % of its samples)"
    where = " at ".join(part for part in (finding.range, line) if part)
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
