"""No text of a figure lies on another one or leaves the figure, on real data and on awkward data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from nsysprof.app.trace_analysis.assemble import AnalysisOptions, Assembled, assemble
from nsysprof.report.figures.benches import draw_latency, draw_scaling, draw_throughput, draw_winners
from nsysprof.report.figures.compare import draw_parts, draw_ratios
from nsysprof.report.figures.memory import draw_memory, draw_vram
from nsysprof.report.figures.ranks import draw_heatmap
from nsysprof.report.figures.ranks import draw_step as draw_step_of_ranks
from nsysprof.report.figures.roofline import draw_roofline, draw_traffic
from nsysprof.report.figures.step import draw_step
from nsysprof.report.figures.timeline import draw_kernels, draw_timeline
from nsysprof.results.rank_results import StepLane, StepPicture
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.builders.build_trace import TraceBuilder
from tests.conftest import REPOSITORY
from tests.report import fixed_results, samples

# How far texts may reach into each other, or over the edge (pixels of 150 to the inch).
SLACK = 2.0
TRACES = REPOSITORY / "traces"
TUNING = REPOSITORY / "analysis" / "h200-tune"
SOME = ("mp.sqlite.xz", "two_gpus.sqlite.xz", "h200-ranges/nccl.sqlite.xz", "h200-sdpa", "h200-roofline")
LONG = "a_backend_whose_name_is_longer_than_any_column_of_a_legend_"


def texts_of(figure: Figure) -> Iterator[Text]:
    """Yield the visible texts of a figure that is laid out."""
    legends = [*figure.legends, *(legend for axes in figure.axes if (legend := axes.get_legend()) is not None)]
    yield from figure.texts
    for legend in legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        yield from axes.texts
        for place in ("left", "center", "right"):
            yield axes.title if place == "center" else getattr(axes, f"_{place}_title")
        for axis in (axes.xaxis, axes.yaxis):
            yield from (axis.label, axis.offsetText)
            for tick in axis._update_ticks():  # those within the limits
                yield from (tick.label1, tick.label2)


def find_collisions(figure: Figure) -> list[str]:
    """Return which texts lie on each other or leave the figure."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    shown = [text for text in texts_of(figure) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown]
    whole = figure.bbox.padded(SLACK)
    found = [f"{text} leaves the figure" for text, box in boxes if not all(map(whole.contains, *box.get_points().T))]
    for (one, a), (other, b) in combinations(boxes, 2):
        if min(a.x1, b.x1) - max(a.x0, b.x0) > SLACK and min(a.y1, b.y1) - max(a.y0, b.y0) > SLACK:
            found.append(f"{one} lies on {other}")
    return found


def check(*figures: Figure | None) -> None:
    drawn = [figure for figure in figures if figure is not None]
    assert drawn
    for figure in drawn:
        assert find_collisions(figure) == []


def figures_of(of_trace: Assembled) -> list[Figure | None]:
    analysis, record = of_trace.analysis, of_trace.record
    calls = None
    if record is not None and record.has_cases:
        timed = record.results[record.results["traced_calls"].notna()]
        calls = dict(zip(timed["range"], timed["traced_calls"].astype(int), strict=True))
    figures = [draw_timeline(analysis, calls), draw_kernels(analysis, calls), draw_vram(analysis, record)]
    figures += [] if calls else [draw_step(analysis)]
    figures += [] if analysis.allocator is None else [draw_memory(analysis.allocator.over_time)]
    return figures if record is None else [*figures, draw_roofline(record), draw_traffic(record)]


def check_trace(source: Path, folder: Path) -> None:
    check(*figures_of(assemble(source, resolve_input(source, None, folder), AnalysisOptions())))


@pytest.mark.parametrize("name", SOME)
def test_figures_of_traces_that_once_had_collisions(name: str, tmp_path: Path) -> None:
    check_trace(TRACES / name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.relative_to(TRACES).as_posix() for path in TRACES.glob("*/*.sqlite.xz")))
def test_figures_of_every_trace(name: str, tmp_path: Path) -> None:
    check_trace(TRACES / name, tmp_path)


def test_figures_of_an_awkward_trace(tmp_path: Path) -> None:
    """Long names, names that begin alike, every category, shares that are tiny and shares that are equal."""
    kernels = (
        "sgemm", "flash_fwd", "softmax", "layer_norm", "reduce", "vectorized_elementwise", "index", "dgrad_engine",
        "multi_tensor_apply", "philox_random", "nchwToNhwc", "fft", "cat_copy", "nccl_AllReduce", "unknown",
    )  # fmt: skip
    made, number = TraceBuilder(), 1
    made.gpu()
    for step in range(8):
        start = step * 1_000_000
        for at, kernel in enumerate(kernels):
            begin = start + at * 60_000
            made.launch(begin, number, name=f"void {kernel}_kernel<{'long::' * 12}{at}>(int)")
            made.range(begin, begin + 50_000, f"{'a range with a long name ' * 3}{at}")
            made.range(begin + 10, begin + 20, f"tiny {at}")
            number += 1
        made.range(start, start + 900_000, f"step_{step}")
    analysis = samples.analysis(tmp_path, made)
    check(*figures_of(Assembled(analysis)))


def bench_table(backends: int, *, equal: bool) -> pd.DataFrame:
    """Return a bench of a grid in which the backends have long names, and perhaps one time for all."""
    table = pd.read_csv(TUNING / "bench" / "results.csv")
    timed = table[table["median_ns"].notna()]
    rows = [
        timed.assign(backend=f"{LONG}{number}", case=timed["case"] + f"{LONG}{number}") for number in range(backends)
    ]
    return pd.concat(rows).assign(**({"median_ns": 1e5, "low_ns": 1e5, "high_ns": 1e5} if equal else {}))


@pytest.mark.parametrize(("backends", "equal"), [(0, False), (1, False), (9, False), (9, True)])
def test_figures_of_benches(backends: int, equal: bool) -> None:
    table = bench_table(backends, equal=equal) if backends else pd.read_csv(TUNING / "bench" / "results.csv")
    ceilings = {"flops": {"fp16": 7e14}, "bytes_per_s": 4e12}
    check(draw_latency(table), draw_throughput(table, ceilings), draw_scaling(table))


@pytest.mark.parametrize("name", ["grid", "wider"])
def test_the_best_backend_of_each_shape(name: str) -> None:
    winners = pd.read_csv(TUNING / name / "winners.csv")
    check(draw_winners(winners), draw_winners(winners.assign(backend=winners["backend"] + LONG)))


def test_figures_of_comparisons() -> None:
    compared = fixed_results.compared()
    check(draw_ratios(compared), draw_parts(compared))
    (change, *_), latency = compared.latency.changes, compared.latency
    many = tuple(replace(change, case=f"{LONG}{number}") for number in range(40))
    check(draw_ratios(replace(compared, latency=replace(latency, changes=many))))


def test_figures_of_ranks() -> None:
    job = fixed_results.ranks_analysis()
    lanes = tuple(
        StepLane(rank, 0, 900, (50, 100), ((0, 300),), ((600, 900),), ((f"{LONG}{rank}", 0, 400), ("b", 400, 410)))
        for rank in range(64)
    )
    own = {"style": "PushPop", "domain": "", "host_ns": 0}
    ranges = pd.DataFrame(
        {"rank": rank, "range": name, "compute_ns": 10**6 + 10**4 * rank, **own}
        for rank in range(64)
        for name in (LONG, "b")
    )
    many = replace(job, rank_ranges=ranges, picture=StepPicture(1000, lanes, 3, 300))
    check(draw_heatmap(many))
    check(draw_step_of_ranks(many))
