"""What is said of figures to those who do not see them."""

from __future__ import annotations

import re

import pandas as pd

from nsysprof.analysis.comparison.compare import compare_inputs
from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.app.analyze import analyze_trace
from nsysprof.app.inputs.compare_inputs import read_input
from nsysprof.app.trace_analysis.assemble import join_counters, read_record
from nsysprof.report.figures.benches import describe_bench, describe_scaling, describe_winners
from nsysprof.report.figures.compare import describe_parts
from nsysprof.report.figures.memory import describe_vram
from nsysprof.report.figures.timeline import describe_kernels, describe_timeline
from nsysprof.report.write import write_analysis
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.builders.build_trace import TraceBuilder
from tests.conftest import REPOSITORY
from tests.report import samples


def test_the_numbers_are_those_of_the_trace(tmp_path):
    builder = TraceBuilder()
    builder.gpu()
    for number in range(3):
        builder.launch(number * 1000, number + 1, name="sm80_xmma_gemm")
    builder.launch(5000, 9, name="softmax_kernel")
    analysis = samples.analysis(tmp_path, builder)
    timeline, kernels = describe_timeline(analysis), describe_kernels(analysis)
    # 4 kernels of 50 ns, from 100 to 5150.
    assert "busy for 200 ns of 5.05 us (4.0 %)" in timeline
    assert "By kind: gemm 150 ns (75.0 %), softmax 50 ns (25.0 %)." in timeline
    assert kernels.startswith("4 kernels take 200 ns.")
    assert kernels.endswith("150 ns in 3 runs.")


def test_what_is_unknown_is_not_said(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 100, "alone")
    builder.call(1, 9, 1)
    assert "The trace does not show how busy" in describe_timeline(samples.analysis(tmp_path, builder))


def test_each_figure_of_a_capture_has_numbers_in_its_text(tmp_path):
    source = REPOSITORY / "traces" / "h200-sdpa"
    analysis = analyze_trace(resolve_input(source, None, tmp_path))
    analysis, record = join_counters(analysis, read_record(source), [], None, foreign=False)
    write_analysis(analysis, record, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    texts = set(re.findall(r'<img[^>]* alt="([^"]*)"', page))
    assert len(texts) >= 3
    assert all(re.search(r"\d", text) for text in texts), texts
    vram = describe_vram(analysis, record)
    assert vram.startswith("Peak VRAM: RUN::math::S4096")


def test_the_best_and_the_worst_of_a_bench_are_named():
    table = pd.DataFrame(
        {"case": ["a", "b", "c"], "median_ns": [2e6, 1e6, None], "flops_per_s": [1e12, 2e12, None], "flops": [1e9] * 3}
    )
    told = describe_bench(table, "median_ns", "Median latency", "ns")
    assert told == "Median latency of 2 cases, from the best to the worst: b 1.00 ms to a 2.00 ms."
    assert "b 2.00 TFLOP/s to a 1.00 TFLOP/s" in describe_bench(table, "flops_per_s", "Rate", "FLOP/s")
    assert "b 1.00 ms to a 2.00 ms" in describe_scaling(table)
    assert describe_bench(table[:0], "median_ns", "Median latency", "ns") == "Median latency of 0 cases."


def test_winners_are_counted():
    winners = pd.DataFrame({"backend": ["flash", "flash", "math"], "verdict": ["fastest", "fastest", "tie"]})
    assert describe_winners(winners) == "The best backend of each of 3 shapes: flash for 2, none for 1."


def test_the_ranges_that_changed_most_are_named(tmp_path):
    sides = []
    for name, gap in (("old", 0), ("new", 5000)):
        builder = TraceBuilder()
        builder.gpu()
        builder.launch(10, 1)
        builder.launch(200 + gap, 2)
        builder.range(0, 1000 + gap, "step")
        sides.append(read_input(builder.write(tmp_path / f"{name}.sqlite"), None, lambda _text: None))
    found = compare_inputs([sides[0]], [sides[1]], {}, (), Settings(3.0, None), force=False)
    told = describe_parts(found)
    assert "step +5.00 us, most of it gaps +5.00 us" in told
