"""Compose the report of a results database: every case, and how its latency changed over the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nsysprof.report.document import (
    Cell,
    Column,
    Figure,
    Lines,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    make_table,
)
from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState
from nsysprof.units import format_ns

_MOST_RUNS = 500
_MOST_LINES = 5
# The terminal shows this many of the newest runs, if there are only a few cases.
_FEW_CASES, _TERMINAL_RUNS = 4, 10
_METHOD = (
    "A change is given only between runs under the same conditions: GPU, driver, versions and caches.",
    "The interval is for the median within one run. Runs differ by more than that; nsysprof compare gives a verdict.",
)


def history_report(title: str, cases: Sequence[CaseHistory], figures: Mapping[str, Figure]) -> Report:
    """Return an overview, and a table and a figure for each case.

    figures: the figures by name of the case.
    """
    said = (
        (Lines(_newest_lines(cases), is_verdict=True),)
        if cases
        else (Paragraph("This database holds no results yet."),)
    )
    sections = [Section("", (*said, _overview(cases)))]
    for case in cases:
        parts: list[Part] = [figures[case.name]] if case.name in figures else []
        runs = replace(_runs(case), terminal_rows=_TERMINAL_RUNS if len(cases) <= _FEW_CASES else 0)
        sections.append(Section(case.name, (*parts, runs)))
    sections.append(Section("Method", (Lines(_METHOD),), in_terminal=False))
    return Report(title, tuple(sections))


def _newest_lines(cases: Sequence[CaseHistory]) -> tuple[str, ...]:
    """Return how the newest run of each case differs from the one before it under the same conditions."""
    changes = []
    states = Counter(case.state for case in cases)
    for case in cases:
        latest = case.latest()
        change = None if latest is None else case.change_pct(*latest)
        if case.state is HistoryState.CHANGED and latest is not None and change is not None:
            changes.append((change, case.name, latest))
    lines = [
        f"{name} takes {abs(change):.1f} % {'longer' if change > 0 else 'less'} than in the run before: "
        f"{format_ns(later.median_ns)} instead of {format_ns(earlier.median_ns)}."
        for change, name, (earlier, later) in sorted(changes, key=lambda each: -abs(each[0]))[:_MOST_LINES]
    ]
    counts = (
        (len(changes) - len(lines), "more changed by more than the intervals of both runs"),
        (states[HistoryState.SAME], "did not change by more than the intervals of both runs"),
        (states[HistoryState.UNSURE], "have no intervals"),
        (states[HistoryState.ALONE], "have no time in the newest run, or no earlier run under the same conditions"),
    )
    said = tuple(f"Cases that {what}: {count}." for count, what in counts if count)
    return (*lines, *said, *_oldest_lines(cases))


def _oldest_lines(cases: Sequence[CaseHistory]) -> tuple[str, ...]:
    """Return how many cases have changed since their oldest run, of those that have more than two, and the worst."""
    found = []
    for case in cases:
        timed = case.comparable() if case.timed else ()
        change = case.change_pct(timed[0], timed[-1]) if len(timed) > 2 and case.overlaps_oldest is False else None
        if change is not None:
            found.append((change, case.name))
    if not found:
        return ()
    longer = sum(change > 0 for change, _ in found)
    most, name = max(found, key=lambda each: abs(each[0]))
    return (
        f"Cases that take longer than in the oldest run under the same conditions: {longer}; less: "
        f"{len(found) - longer}; the largest change is of {name}: {most:+.1f} %.",
    )


def _overview(cases: Sequence[CaseHistory]) -> Table:
    columns = (
        Column("case", Unit.NAME), Column("runs", Unit.COUNT), Column("newest", Unit.NS),
        Column("oldest", Unit.NS, drop=2), Column("since then", Unit.CHANGE_PERCENT),
        Column("shortest", Unit.NS, drop=3), Column("newest run", drop=1),
    )  # fmt: skip
    rows = []
    for case in cases:
        timed = case.comparable() if case.timed else ()
        if not timed:
            reason = case.points[-1].status if case.points else "no run"
            rows.append((case.name, len(case.points), Cell(reason=reason), Cell(), Cell(), Cell(), _date(case.points)))
            continue
        change = case.change_pct(timed[0], timed[-1]) if len(timed) > 1 else None
        since = Cell(reason="one run under these conditions")
        since = _change(change, case.overlaps_oldest) if len(timed) > 1 else since
        rows.append(
            (
                case.name, len(case.points), _median(timed[-1]), _median(timed[0]),
                since, Cell(min(point.median_ns or 0 for point in timed)),
                _date(case.points),
            )
        )  # fmt: skip
    return make_table("Cases", columns, rows, document_rows=1000)


def _runs(case: CaseHistory) -> Table:
    columns = (
        Column("run"), Column("median [95 %]", Unit.NS), Column("since the run before", Unit.CHANGE_PERCENT),
        Column("samples", Unit.COUNT, drop=1), Column("conditions", Unit.PROSE, drop=2),
    )  # fmt: skip
    rows = []
    before: dict[str, HistoryPoint] = {}
    for point in case.points:
        last = before.get(point.conditions)
        change = None if last is None else case.change_pct(last, point)
        median = _median(point) if point.median_ns is not None else Cell(reason=point.status)
        since = Cell(reason="first of these conditions") if last is None else _change(change, point.overlaps_before)
        rows.append((_date((point,)), median, since, point.samples, point.setup))
        if point.median_ns is not None:
            before[point.conditions] = point
    newest = rows[::-1]
    return make_table("", columns, newest[:_MOST_RUNS], total_rows=len(newest), document_rows=_MOST_RUNS)


def _change(change_pct: float | None, overlaps: bool | None) -> Cell:
    """Return a change, with a caution where it may be within the variation of a single run.

    overlaps: whether the intervals of both runs overlap; None where one has none.
    """
    remarks = {None: "(no intervals)", True: "(intervals overlap)", False: ""}
    return Cell(change_pct, is_signed=True, remark=remarks[overlaps])


def describe_history(case: CaseHistory) -> str:
    """Return a description of a case's figure: its first and last time, and what lies between."""
    timed = case.timed
    last, same = timed[-1], case.comparable()
    values = [point.median_ns or 0 for point in same]
    text = f"Median latency of {case.name} over {len(timed)} runs: {format_ns(values[-1])} in the newest"
    if len(same) > 1:
        change = case.change_pct(same[0], last)
        text += f", {format_ns(values[0])} in the oldest under the same conditions"
        text += "" if change is None else f" ({change:+.1f} %)"
        text += f"; between {format_ns(min(values))} and {format_ns(max(values))}"
    conditions = len({point.conditions for point in timed})
    return text + (f"; {conditions} different conditions, each with a line of its own." if conditions > 1 else ".")


def _median(point: HistoryPoint) -> Cell:
    return Cell(point.median_ns, low=point.low_ns, high=point.high_ns)


def _date(points: Sequence[HistoryPoint]) -> str:
    """Return when the last of these runs began, to the minute."""
    return points[-1].created_utc[:16].replace("T", " ") if points else ""
