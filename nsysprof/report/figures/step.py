"""Draw step.png: a usual step as one bar, what the GPU does and why it waits, with the least time of each work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import CATEGORY_COLORS, IDLE_COLORS, INK, NS_PER_S, label_seconds, new_figure
from nsysprof.results.analysis import Analysis, StepPart
from nsysprof.units import format_ns

_MOST_DEVICES = 8
# The floor of a category is drawn where it is known for so much of its time.
_LEAST_KNOWN = 0.9
# A part with less than this share of the step is drawn, and not named.
_LEAST_NAMED = 0.005
# The bar has room for so many letters.
_LETTERS = 120
_COLUMNS = 3
# What is above the floor is paler than the floor.
_PALE = 0.45
_KEY = "Where the least time of work is known, it has the full colour, and what is above it is pale. Hatched: idle."


@dataclass(frozen=True)
class BarPart:
    """A part of the bar: busy with a category of work, or idle for a cause.

    floor_ns: the least time that this work needs (ns); None for idle time, and where it is unknown.
    """

    name: str
    is_busy: bool
    mean_ns: float
    floor_ns: float | None

    @property
    def color(self) -> str:
        """Return the colour of the category or of the cause."""
        return (CATEGORY_COLORS if self.is_busy else IDLE_COLORS).get(self.name, "#999999")


def list_parts(analysis: Analysis, device: int) -> list[BarPart]:
    """Return the parts of a usual step on a device, which add up to its time: busy, then idle; the longest first.

    The floor is known of all kernels of a category in the trace; here it has the same share of the category's time.
    Where a part of the trace was read, or it is not known when a device worked, the parts are those of work.csv.
    """
    floors = _floor_shares(analysis, device)
    if analysis.part is not None or analysis.step_times is None:
        assert analysis.work is not None
        own = analysis.work[(analysis.work["device_id"] == device) & analysis.work["range"].isna()]
        busy = own.groupby("category", sort=False)["busy_ns"].sum()
        every = [StepPart(str(name), True, float(busy_ns)) for name, busy_ns in busy.items() if busy_ns]
    else:
        every = analysis.step_times.parts_of(device)
    parts = sorted(every, key=lambda part: (not part.is_busy, -part.mean_ns))
    return [BarPart(part.name, part.is_busy, part.mean_ns, _floor_of(part, floors)) for part in parts]


def _floor_of(part: StepPart, floors: dict[str, float]) -> float | None:
    return part.mean_ns * floors[part.name] if part.is_busy and part.name in floors else None


def _floor_shares(analysis: Analysis, device: int) -> dict[str, float]:
    """Return the floor of each category whose floor is known, as a share of its time (0 to 1)."""
    if analysis.work is None:
        return {}
    whole = analysis.work[(analysis.work["device_id"] == device) & analysis.work["range"].isna()]
    shares = {}
    for category, rows in whole.groupby("category"):
        known = rows[rows["floor_ns"].notna()]
        busy_ns, known_ns = float(rows["busy_ns"].sum()), float(known["busy_ns"].sum())
        if busy_ns > 0 and known_ns >= _LEAST_KNOWN * busy_ns:
            # A floor is that of the kernels; copies by the copy engines count as they are.
            copied_ns = (known["busy_ns"] - known["kernel_total_ns"]).clip(lower=0)
            shares[str(category)] = min(1.0, float((known["floor_ns"] + copied_ns).sum()) / known_ns)
    return shares


def draw_step(analysis: Analysis) -> mpl.Figure | None:
    """Draw a bar for each device. None where no steps are known, or nothing ran."""
    times = analysis.step_times
    if times is None or not times.are_steps or analysis.work is None or len(analysis.work) == 0:
        return None
    devices = times.devices[:_MOST_DEVICES]
    bars = [list_parts(analysis, device) for device in devices]
    shown: dict[str, BarPart] = {}
    for part in (part for bar in bars for part in bar if part.mean_ns >= _LEAST_NAMED * times.step_ns):
        shown.setdefault(part.name, part)
    figure = new_figure(1.3 + 0.55 * len(devices) + 0.17 * -(-len(shown) // _COLUMNS))
    axes = figure.subplots()
    for row, bar in enumerate(bars):
        _draw_bar(axes, row, bar)
    longest = max(sum(part.mean_ns for part in bar) for bar in bars)
    axes.set_xlim(0, longest / NS_PER_S)
    axes.set_ylim(len(devices) - 0.5, -0.5)
    axes.set_yticks(range(len(devices)), [f"GPU {device}" for device in devices] if len(devices) > 1 else [""])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    label_seconds(axes.xaxis)
    title = _message(analysis, bars[0], devices[0])
    if any(part.floor_ns is not None for bar in bars for part in bar):
        title += f"\n{_KEY}"
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    _add_legend(figure, shown.values(), has_times=len(devices) == 1)
    return figure


def _draw_bar(axes: mpl.Axes, row: int, bar: Sequence[BarPart]) -> None:
    whole, left = sum(part.mean_ns for part in bar), 0.0
    for part in bar:
        width = part.mean_ns / NS_PER_S
        has_floor = part.floor_ns is not None
        alpha = _PALE if has_floor else 1.0
        hatch = None if part.is_busy else "////"
        axes.barh(row, width, left=left, height=0.8, color=part.color, alpha=alpha, hatch=hatch, edgecolor="white",
                  linewidth=0.5)  # fmt: skip
        if part.floor_ns is not None:
            axes.barh(row, part.floor_ns / NS_PER_S, left=left, height=0.8, color=part.color, linewidth=0)
        text = f"{part.name}\n{format_ns(part.mean_ns)}"
        if _LETTERS * part.mean_ns / whole >= max(map(len, text.split("\n"))) + 1:
            axes.text(left + width / 2, row, text, ha="center", va="center", fontsize=7.5, color=INK,
                      bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.2})  # fmt: skip
        left += width


def _add_legend(figure: mpl.Figure, parts: Iterable[BarPart], *, has_times: bool) -> None:
    handles = []
    for part in parts:
        floor = "" if part.floor_ns is None else f", least {format_ns(part.floor_ns)}"
        label = f"{part.name} {format_ns(part.mean_ns)}{floor}" if has_times else part.name
        hatch = None if part.is_busy else "////"
        handles.append(mpl.Patch(facecolor=part.color, hatch=hatch, edgecolor="white", label=label))
    figure.legend(handles=handles, loc="outside lower left", ncols=_COLUMNS, fontsize=8, frameon=False)


def _message(analysis: Analysis, bar: Sequence[BarPart], device: int) -> str:
    """Return what the bar of the busiest device says: its busy time, the floor of it, and the largest idle cause."""
    assert analysis.step_times is not None
    busy = [part for part in bar if part.is_busy]
    busy_ns = sum(part.mean_ns for part in busy)
    text = f"A step of {format_ns(analysis.step_times.step_ns)}: GPU {device} is busy for {format_ns(busy_ns)}"
    known = [part for part in busy if part.floor_ns is not None]
    if sum(part.mean_ns for part in known) >= _LEAST_KNOWN * busy_ns > 0:
        rest_ns = busy_ns - sum(part.mean_ns for part in known)
        least_ns = rest_ns + sum(part.floor_ns or 0.0 for part in known)
        text += f"; at the least time of each kind of work it would be {format_ns(least_ns)}"
    return f"{text}."


def describe_step(analysis: Analysis) -> str:
    """Return the parts of the step in words, the longest first."""
    times = analysis.step_times
    if times is None or not times.are_steps:
        return ""
    device = times.devices[0]
    bar = list_parts(analysis, device)
    named = [part for part in bar if part.mean_ns >= _LEAST_NAMED * times.step_ns]
    busy, idle = (
        ", ".join(f"{part.name} {format_ns(part.mean_ns)}" for part in named if part.is_busy is is_busy)
        for is_busy in (True, False)
    )
    return f"{_message(analysis, bar, device)} Busy: {busy or 'nothing'}. Idle: {idle or 'nothing'}."
