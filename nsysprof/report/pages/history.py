"""Compose, draw and write how the latency of each case changed over the runs of a results database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

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
    clean,
    escape_mathtext,
    make_table,
)
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import INK, NS_PER_S, SOFT, label_seconds, new_figure, quieten
from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState
from nsysprof.units import format_apart, format_ns

_MOST_FIGURES = 24


def write_history(
    title: str, cases: Sequence[CaseHistory], folder: Path, *, figures: bool, say: Callable[[str], None]
) -> list[Path]:
    """Write figures and reports into `folder`, and return their paths. Only the first cases have a figure."""
    drawn = [case for case in cases if case.timed][:_MOST_FIGURES] if figures else []
    names = {f"history-{number}": case for number, case in enumerate(drawn)}
    pictures = write_figures(
        {name: partial(draw_history, case) for name, case in names.items()},
        {name: partial(describe_history, case) for name, case in names.items()},
        folder,
        say=say,
    )
    by_case = {names[picture.file.removesuffix(".png")].name: picture for picture in pictures}
    return [*figure_paths(pictures, folder), *write_report(history_report(title, cases, by_case), folder)]


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
        f"{' instead of '.join(reversed(format_apart(format_ns, earlier.median_ns, later.median_ns)))}."
        for change, name, (earlier, later) in sorted(changes, key=lambda row: -abs(row[0]))[:_MOST_LINES]
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
    changes = []
    for case in cases:
        timed = case.comparable() if case.timed else ()
        change = case.change_pct(timed[0], timed[-1]) if len(timed) > 2 and case.overlaps_oldest is False else None
        if change is not None:
            changes.append((change, case.name))
    if not changes:
        return ()
    longer = sum(change > 0 for change, _ in changes)
    most, name = max(changes, key=lambda change_and_name: abs(change_and_name[0]))
    return (
        f"Cases that take longer than in the oldest run under the same conditions: {longer}; less: "
        f"{len(changes) - longer}; the largest change is of {name}: {most:+.1f} %.",
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


_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"
# An interval that is far longer than every median does not set the scale.
_MOST_OF_LONGEST = 2.5
_MOST_TICKS, _MOST_LABELS = 8, 6


def draw_history(case: CaseHistory) -> mpl.Figure | None:
    """Draw the median of each run with its interval, and a line for each of the conditions. None without a time."""
    timed = case.timed
    if not timed:
        return None
    figure = new_figure(2.8)
    axes = figure.subplots()
    for number, conditions in enumerate(dict.fromkeys(point.conditions for point in timed)):
        places = [place for place, point in enumerate(timed) if point.conditions == conditions]
        middle = [(timed[place].median_ns or 0) / NS_PER_S for place in places]
        low = [_down(timed[place].median_ns, timed[place].low_ns) for place in places]
        high = [_down(timed[place].high_ns, timed[place].median_ns) for place in places]
        label = escape_mathtext(clean(timed[places[0]].setup, 60)) if number < _MOST_LABELS else None
        color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
        axes.errorbar(
            places, middle, yerr=[low, high], capsize=2.5, linewidth=1.4, markersize=4.5, color=color, marker=marker,
            label=label,
        )  # fmt: skip
    step = -(-len(timed) // _MOST_TICKS)
    ticks = range(0, len(timed), step)
    axes.set_xticks(ticks, [escape_mathtext(clean(text, 16)) for text in _dates([timed[tick] for tick in ticks])])
    axes.set_xlim(-0.5, len(timed) - 0.5)
    longest = max((point.median_ns or 0) for point in timed) / NS_PER_S
    axes.set_ylim(0, min(axes.get_ylim()[1], _MOST_OF_LONGEST * longest) or None)
    label_seconds(axes.yaxis)
    quieten(axes)
    axes.grid(axis="y", color=SOFT, linewidth=0.5)
    axes.set_ylabel("median latency, 95 % interval", fontsize=9, color=INK)
    axes.set_xlabel("run", fontsize=9, color=INK)
    figure.legend(loc="outside upper left", ncols=2, fontsize=9, frameon=False)
    return figure


def _dates(points: Sequence[HistoryPoint]) -> list[str]:
    """Return the days of the runs, or day and time where two are of one day."""
    days = [point.created_utc[:10] for point in points]
    return days if len(set(days)) == len(days) else [point.created_utc[5:16].replace("T", " ") for point in points]


def _down(upper: float | None, lower: float | None) -> float:
    """Return a difference in seconds; 0 where a bound is unknown."""
    return 0.0 if upper is None or lower is None else max(0.0, (upper - lower) / NS_PER_S)
