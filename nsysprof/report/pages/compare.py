"""Compose and write what a comparison found: warnings, the verdict, the tables and the result of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nsysprof.attention.range_name import range_label
from nsysprof.files.plain_file import VERSION, encode_json, json_value, write_whole
from nsysprof.report.document import (
    Cell,
    Column,
    Figure,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    ValueChange,
    count_of,
    make_table,
    table_of,
)
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.compare import describe_parts, describe_ratios, draw_parts, draw_ratios
from nsysprof.report.figures.drawing import can_draw
from nsysprof.report.pages.analysis import figure_sections
from nsysprof.report.pages.memory import memory_comparison_parts
from nsysprof.report.pages.trace_tables import MOST_ROWS
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import (
    METRICS,
    PARTS,
    WHOLE_TRACE,
    Difference,
    FindingChange,
    KernelChange,
    LatencyVerdict,
    MetricChange,
    RangeChange,
    Side,
    SideOfCase,
    VersionComparison,
)
from nsysprof.units import format_apart, format_bytes, format_factor, format_ns

OUTCOMES = {Outcome.PASS: "pass", Outcome.REGRESSION: "REGRESSION", Outcome.INCONCLUSIVE: "inconclusive"}
_SIDE_NAMES = 3


def compare_report(comparison: VersionComparison, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of a comparison.

    figures: the figures that were drawn, in order.
    """
    title = "nsysprof compare" + (f": {OUTCOMES[comparison.outcome]}" if comparison.outcome is not None else "")
    head: list[Part] = [
        Paragraph(f"{_side(comparison.baseline)} against {_side(comparison.candidate)}"),
        *_forced(comparison),
        *(
            Paragraph(f"Not complete, so that what it lost is not compared: {text}", is_warning=True)
            for text in comparison.losses
        ),
    ]
    sections = [Section("", tuple(head))]
    if comparison.outcome is not None:
        sections.append(Section(f"gate: {OUTCOMES[comparison.outcome]}", (Gate(comparison.gate),), is_conclusion=True))
    lines = filter(None, (step_line(comparison), wall_line(comparison), verdict_line(comparison)))
    sections.append(Section("", (Lines(tuple(lines), is_verdict=True),)))
    changed = finding_lines(comparison.findings)
    if changed:
        sections.append(Section("Findings", (Lines(tuple(changed)),)))
    if comparison.memory is not None:
        sections.append(Section("Memory of torch's allocator", memory_comparison_parts(comparison.memory)))
    sections += figure_sections(figures)
    tables = (latency_table(comparison), range_table(comparison), part_table(comparison), kernel_table(comparison))
    floor = floor_lines(comparison)
    sections += [
        Section("", (*tables, Lines(open_questions(comparison)), Lines(floor))),
        Section("Notes", (Notes(comparison.notes),)),
        Section(
            "Method and environment",
            (Lines(comparison.method), _environment_table(comparison)),
            in_terminal=False,
            is_folded=True,
        ),
    ]
    return Report(title, tuple(sections))


def _side(side: Side) -> str:
    names = ", ".join(side.inputs[:_SIDE_NAMES])
    more = f" and {len(side.inputs) - _SIDE_NAMES} more" if len(side.inputs) > _SIDE_NAMES else ""
    return f"{names}{more} ({', '.join(side.kinds)})"


def _forced(comparison: VersionComparison) -> list[Part]:
    if not comparison.differences:
        return []
    text = "NOT COMPARABLE, compared because of --ignore-conditions. A change may come from these differences:"
    return [Paragraph(text, is_warning=True), Lines(difference_lines(comparison.differences))]


def floor_lines(comparison: VersionComparison) -> tuple[str, ...]:
    """Return the noise floor that differences had to exceed, where it is known."""
    latency = comparison.latency
    if not latency.uses_floor or latency.floor_pct is None:
        return ()
    return (f"noise floor of one {latency.unit}: {latency.floor_pct:.2f} %, {latency.floor_from}",)


def _environment_table(comparison: VersionComparison) -> Table:
    old, new = comparison.baseline.environment, comparison.candidate.environment
    rows: list[tuple[Cell, Cell, Cell]] = [(Cell("nsysprof"), Cell(VERSION), Cell(VERSION))]
    for fact in dict.fromkeys((*old, *new)):
        cells = (Cell(str(side.get(fact, "differs or unknown"))) for side in (old, new))
        rows.append((Cell(fact), *cells))  # type: ignore[arg-type]
    columns = (Column("what"), Column("baseline", Unit.PROSE), Column("candidate", Unit.PROSE))
    return make_table("Environment", columns, rows, document_rows=100)


_JSON = "compare.json"
_ORDER = (LatencyVerdict.SLOWER, LatencyVerdict.INCONCLUSIVE, LatencyVerdict.FASTER, LatencyVerdict.SAME)
_UNITS = {"count": Unit.COUNT, "bytes": Unit.BYTES, "ns": Unit.NS}
_PART_TITLES = dict(zip(PARTS, ("before", "kernels", "copies", "fills", "graphs", "gaps", "after"), strict=True))
# The order in which columns of ranges are left out in a narrow terminal. Columns in which nothing changed go first.
_DROP = {
    "wall": 0, "kernel_time": 1, "vram": 2, "launches": 3, "kernels": 4, "dram": 5, "copied": 6, "filled": 7, "gaps": 8,
    "busy": 9,
}  # fmt: skip
_UNCHANGED = 20
# A smaller change of the time of a step (percent) is not written as a number.
_LEAST_STEP_PCT = 0.1
# A time that is this many times as long is written as a factor.
_LEAST_FACTOR = 10.0


def finding_lines(findings: Sequence[FindingChange]) -> list[str]:
    """Return one line for each finding that appeared or disappeared."""
    lines = []
    for change in findings:
        if change.how != "both":
            is_new = change.how == "appeared"
            size = change.candidate_bytes if is_new else change.baseline_bytes
            saving = f"{format_ns(change.candidate_ns if is_new else change.baseline_ns)} a step"
            where = f" in {change.range}" if change.range else ""
            lines.append(f"{change.code}{where} {change.how}: {saving if size is None else format_bytes(size)}.")
    return lines


def latency_table(comparison: VersionComparison) -> Table:
    """Return one row for each case, those that need attention first."""
    order = [*_ORDER, None]
    changes = sorted(comparison.latency.changes, key=lambda change: (order.index(change.verdict), -(change.ratio or 1)))
    columns = (
        (Column("case", Unit.NAME), "case"),
        (Column("verdict"), lambda change: change.verdict.value if change.verdict else ""),
        (Column("baseline", Unit.NS, drop=3), lambda change: _side_cell(change.baseline)),
        (Column("candidate", Unit.NS, drop=2), lambda change: _side_cell(change.candidate)),
        (
            Column(f"ratio [{100 * (1 - comparison.latency.alpha):g} %]", Unit.QUOTIENT),
            lambda change: Cell(change.ratio, low=change.low, high=change.high),
        ),
        (Column("p (BH)", Unit.PROBABILITY, drop=4), "p"),
        (Column("delta", Unit.NUMBER, drop=5), lambda change: Cell(change.delta, is_signed=True)),
    )
    return table_of("Latency", changes, columns, source=_JSON)


def _side_cell(side: SideOfCase) -> Cell:
    return Cell(side.median_ns, reason=side.status if side.median_ns is None else "")


def open_questions(comparison: VersionComparison) -> tuple[str, ...]:
    """Return why cases have no verdict and what to do, combined by reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    of_ranges = [change.wall_verdict for change in comparison.ranges if change.wall_verdict is not None]
    of_step = [comparison.step.verdict] if comparison.step is not None and comparison.step.verdict is not None else []
    for change in (*comparison.latency.changes, *of_step, *of_ranges):
        if change.verdict is LatencyVerdict.INCONCLUSIVE:
            groups.setdefault((change.reason, change.next_step), []).append(change.case)
    return tuple(
        f"{_some(cases)}: {reason}" + (f" → {step}" if step else "") for (reason, step), cases in groups.items()
    )


def range_table(comparison: VersionComparison) -> Table:
    """Return one row for each range: the candidate's numbers per call, with the change from the baseline.

    They come as compare_ranges orders them.
    """
    shown = [name for name in METRICS if any(_says_something(change.metrics[name]) for change in comparison.ranges)]
    judged = any(change.wall_verdict for change in comparison.ranges)
    has_interval = any(_wall_interval(change)[1] is not None for change in comparison.ranges)
    columns = [Column("range", Unit.NAME)]
    if judged:
        title = "wall [95 %]" if has_interval else "wall, ratio"
        columns += [Column("verdict"), Column(title, Unit.QUOTIENT, drop=_DROP["launches"])]
    for name in shown:
        changed = any(_has_changed(change.metrics[name]) for change in comparison.ranges)
        drop = _DROP[name] + (0 if changed or not _DROP[name] else _UNCHANGED)
        columns.append(Column(METRICS[name].title, _UNITS[METRICS[name].unit], drop))
    rows: list[tuple[Any, ...]] = [
        (
            _range_label(change),
            *(_wall_verdict_cells(change) if judged else ()),
            *(_metric_cell(change, name) for name in shown),
        )
        for change in comparison.ranges[:MOST_ROWS]
    ]
    title = "Ranges (the candidate's numbers per call or instance, and the change)"
    return make_table(title, columns, rows, source=_JSON, total_rows=len(comparison.ranges))


def _wall_verdict_cells(change: RangeChange) -> tuple[Any, ...]:
    """Return the verdict on the range's time, and the ratio with its interval."""
    verdict = change.wall_verdict
    ratio, low, high = _wall_interval(change)
    word = "" if verdict is None or verdict.verdict is None else verdict.verdict.value
    return word, Cell(ratio, low=low, high=high)


def _wall_interval(change: RangeChange) -> tuple[float | None, float | None, float | None]:
    """Return the ratio of the times of the range, with the interval behind the verdict or else of these traces."""
    verdict = change.wall_verdict
    if verdict is not None and verdict.ratio is not None:
        return verdict.ratio, verdict.low, verdict.high
    return change.wall_ratio, change.wall_ratio_low, change.wall_ratio_high


def _range_label(change: RangeChange) -> str:
    return _label(change) if change.how == "both" else f"{change.how}: {_label(change)}"


def _label(change: RangeChange) -> str:
    label = range_label(change.range)
    return label if label != change.range else change.label


def _has_changed(metric: MetricChange) -> bool:
    return metric.baseline != metric.candidate


def _says_something(metric: MetricChange) -> bool:
    return any(value for value in (*metric.baselines, *metric.candidates))


def _metric_cell(change: RangeChange, name: str) -> Cell:
    metric = change.metrics[name]
    if change.how != "both":
        return Cell(metric.baseline if change.how == "vanished" else metric.candidate)
    if metric.change is None:
        if not _says_something(metric):
            return Cell()
        return Cell(metric.candidate, before="unknown" if metric.baseline is None else metric.baseline)
    if metric.change == 0:
        return Cell(metric.candidate)
    remark = "within its error" if metric.is_within_error else ""
    unit = _UNITS[METRICS[name].unit]
    if unit is Unit.COUNT or metric.change_pct is None:
        return Cell(metric.candidate, change=ValueChange(metric.change, unit, remark))
    return Cell(metric.candidate, change=ValueChange(metric.change_pct, Unit.CHANGE_PERCENT, remark))


def part_table(comparison: VersionComparison) -> Table:
    """Return where the change of each range's wall time is, in parts that add up to it.

    The ranges of libraries come last. A narrow terminal leaves the parts out that changed least.
    """
    changes = [change for change in comparison.ranges if change.parts is not None and any(change.parts.values())]
    changes.sort(key=lambda change: (change.is_library, -abs(change.wall_change_ns or 0)))
    used = [part for part in PARTS if any((change.parts or {})[part] for change in changes)]
    size = {part: sum(abs((change.parts or {})[part]) for change in changes) for part in used}
    largest = sorted(used, key=lambda part: -size[part])
    columns = [Column("range", Unit.NAME), Column("wall", Unit.NS)]
    columns += [Column(_PART_TITLES[part], Unit.NS, drop=1 + largest.index(part)) for part in used]
    are_per_call = all(change.per_call for change in changes)
    rows: list[tuple[Any, ...]] = [
        (
            _label(change) + (" (per call)" if change.per_call and not are_per_call else ""),
            Cell(change.wall_change_ns, is_signed=True),
            *(Cell((change.parts or {})[part], is_signed=True) for part in used),
        )
        for change in changes[:MOST_ROWS]
    ]
    title = "Where the time went" + (" (per call)" if changes and are_per_call else "")
    return make_table(title, columns, rows, source=_JSON, total_rows=len(changes))


def kernel_table(comparison: VersionComparison) -> Table:
    """Return kernels that appeared, disappeared, were renamed, ran more or less often, or took another time."""
    columns = (
        Column("range", Unit.NAME),
        Column("kernel", Unit.NAME),
        Column("what", drop=2),
        Column("role", drop=3),
        Column("instances", Unit.COUNT, drop=1),
        Column("total", Unit.NS),
    )
    notable = _kernels_once(comparison.ranges)
    rows = (_kernel_row(change, kernel) for change, kernel in notable[:MOST_ROWS])
    return make_table(
        "Kernels that differ (a description, without a test)", columns, rows, source=_JSON, total_rows=len(notable)
    )


def _kernels_once(ranges: Sequence[RangeChange]) -> list[tuple[RangeChange, KernelChange]]:
    """Return the kernels worth a line, each once where a range and one inside it have the same change of it.

    The range with fewer kernels is the inner one. The whole trace has a kernel only where no range shows it, and where
    the ranges that have it ran as often on both sides; otherwise the trace with more steps would have more of it.
    """
    inner: dict[tuple[str | None, float, float], tuple[RangeChange, KernelChange]] = {}
    in_ranges: set[str | None] = set()
    for change in (change for change in ranges if change.range != WHOLE_TRACE):
        for kernel in change.kernels:
            name = kernel.candidate_name or kernel.baseline_name
            if kernel.is_notable or change.baseline_calls != change.candidate_calls:
                in_ranges.add(name)
            if kernel.is_notable:
                more = kernel.candidate_instances - kernel.baseline_instances
                key = name, more, 0.0 if more else kernel.candidate_instances
                if key not in inner or len(change.kernels) < len(inner[key][0].kernels):
                    inner[key] = change, kernel
    chosen = {(id(change), id(kernel)) for change, kernel in inner.values()}
    return [
        (change, kernel)
        for change in ranges
        for kernel in change.kernels
        if (id(change), id(kernel)) in chosen
        or (
            change.range == WHOLE_TRACE
            and kernel.is_notable
            and (kernel.candidate_name or kernel.baseline_name) not in in_ranges
        )
    ]


def _kernel_row(change: RangeChange, kernel: KernelChange) -> tuple[Any, ...]:
    old = kernel.baseline_label or kernel.baseline_name
    new = kernel.candidate_label or kernel.candidate_name
    full = " → ".join(dict.fromkeys(name for name in (kernel.baseline_name, kernel.candidate_name) if name))
    name = Cell(new, before=old, full=full) if old and new and old != new else Cell(new or old, full=full)
    return (
        _label(change),
        name,
        "differs" if kernel.how == "both" else kernel.how,
        kernel.role,
        _from_to(kernel.baseline_instances, kernel.candidate_instances),
        _from_to(kernel.baseline_ns, kernel.candidate_ns),
    )


def _from_to(old: float, new: float) -> Cell:
    return Cell(new) if old == new else Cell(new, before=old)


def difference_lines(differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return lines such as `driver_version: 580.1 in the baseline, 590.4 in the candidate`."""
    return tuple(
        f"{difference.fact}: {' and '.join(difference.baseline)} in the baseline, "
        f"{' and '.join(difference.candidate)} in the candidate"
        for difference in differences
    )


def verdict_line(comparison: VersionComparison) -> str:
    """Return `2 SLOWER, 13 SAME` and what changed in the traces."""
    judged = [change for change in comparison.latency.changes if change.verdict is not None]
    counts = {name: sum(change.verdict is name for change in judged) for name in _ORDER}
    parts = [f"{count} {name.value}" for name, count in counts.items() if count]
    text = f"Latency of {count_of(len(judged), 'case')}: {', '.join(parts)}." if parts else ""
    alone = len(comparison.latency.changes) - len(judged)
    text += f" {count_of(alone, 'case')} {'was' if alone == 1 else 'were'} not measured on both sides." if alone else ""
    ranges = [change for change in comparison.ranges if change.how == "both"]
    if not comparison.ranges:
        return text
    moved = [(sum(change.how == how for change in comparison.ranges), how) for how in ("appeared", "vanished")]
    if all(change.metrics["launches"].change is None for change in ranges) and not any(count for count, _ in moved):
        return f"{text} {count_of(len(ranges), 'range')} on both sides.".strip()
    more = sum((change.metrics["launches"].change or 0) > 0 for change in ranges)
    less = sum((change.metrics["launches"].change or 0) < 0 for change in ranges)
    moved += [(more, "with more launches"), (less, "with fewer")]
    nonzero = [f"{count} {what}" for count, what in moved if count]
    tail = ", ".join(nonzero) if nonzero else "the same launches in all"
    return f"{text} {count_of(len(ranges), 'range')} on both sides; {tail}.".strip()


def step_line(comparison: VersionComparison) -> str:
    """Return how the time of a step changed; empty where it is unknown."""
    change = comparison.step
    if change is None:
        return ""
    size = abs(change.change_pct)
    amount = "less than 0.1 %" if size < _LEAST_STEP_PCT else f"{size:.{int(size < 99.95)}f} %"
    direction = f"{amount} {'longer' if change.change_pct > 0 else 'shorter'}" if size else "no difference"
    old, new = format_apart(format_ns, change.baseline_ns, change.candidate_ns)
    text = f"A step takes {new} instead of {old}: {direction}"
    if size < _LEAST_STEP_PCT:
        text = f"A step takes {format_ns(change.candidate_ns)} on both sides: {direction}"
    verdict = change.verdict
    if verdict is None or verdict.verdict is None:
        text += "; there are too few steps for a verdict."
    elif verdict.ratio is None or verdict.low is None or verdict.high is None:
        text += f". {verdict.verdict.value}."
    else:
        interval = f"{verdict.ratio:.3f} [{verdict.low:.3f}, {verdict.high:.3f}]"
        text += f". {verdict.verdict.value}: the median step takes {interval} times as long."
    unmarked = " No range marks the steps: on each side they are where its own kernels repeat."
    return text + ("" if change.is_marked else unmarked)


def wall_line(comparison: VersionComparison) -> str:
    """Return how the wall time of the comparison's headline range changed; empty if it has none."""
    change = comparison.headline
    if change is None:
        return ""
    wall = change.metrics["wall"]
    where = "On the host, " if comparison.step is not None else ""
    old, new = format_apart(format_ns, wall.baseline, wall.candidate)
    text = f"{where}{_label(change)} takes {new} instead of {old} on average"
    text += f" ({_change(wall.change_pct or 0.0)})"
    if change.wall_verdict is None or change.wall_verdict.verdict is None:
        return f"{text}; there are too few instances for a verdict."
    ratio, low, high = _wall_interval(change)
    is_known = ratio is not None and low is not None and high is not None
    digits = 3 if (ratio or 0.0) < _LEAST_FACTOR else 0
    interval = f"{ratio:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" if is_known else ""
    typical = f" (its median instance {interval} times as long)" if interval else ""
    return f"{text}: {change.wall_verdict.verdict.value}{typical}."


def _change(change_pct: float) -> str:
    """Return a change of time in percent, or as a factor where it is large."""
    factor = 1 + change_pct / 100
    return f"{change_pct:+.1f} %" if factor < _LEAST_FACTOR else format_factor(factor)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


JSON = "compare.json"
FORMAT_VERSION = 1  # of compare.json


def write_compare(comparison: VersionComparison, folder: Path, *, figures: bool) -> list[Path]:
    """Write compare.json, figures and reports into `folder`, and return their paths. Raises OutputError."""
    written = [write_whole(folder / JSON, encode_json(comparison_json(comparison)))]
    pictures = _write_figures(comparison, folder) if figures and can_draw() else []
    report = compare_report(comparison, pictures)
    return [*written, *figure_paths(pictures, folder), *write_report(report, folder)]


def _write_figures(comparison: VersionComparison, folder: Path) -> list[Figure]:

    draw = {"ratios": partial(draw_ratios, comparison), "parts": partial(draw_parts, comparison)}
    return write_figures(
        draw, {"ratios": partial(describe_ratios, comparison), "parts": partial(describe_parts, comparison)}, folder
    )


def comparison_json(comparison: VersionComparison) -> dict[str, Any]:
    """Return a comparison as it is written to files and printed by --json; unknown is null."""
    ranges, step = [], comparison.step
    for change in comparison.ranges:
        data = json_value(change)
        for name, metric in change.metrics.items():
            data["metrics"][name] |= {"change": metric.change, "change_pct": metric.change_pct}
        ranges.append(data)
    return {
        "format_version": FORMAT_VERSION,
        "outcome": comparison.outcome,
        "baseline": json_value(comparison.baseline),
        "candidate": json_value(comparison.candidate),
        "differences": json_value(comparison.differences),
        "forced": comparison.forced,
        "latency": json_value(comparison.latency),
        "step": None if step is None else {**json_value(step), "change_pct": step.change_pct},
        "ranges": ranges,
        "findings": json_value(comparison.findings),
        "memory": json_value(comparison.memory),
        "gate": json_value(comparison.gate),
        "notes": json_value(comparison.notes),
        "method": list(comparison.method),
    }
