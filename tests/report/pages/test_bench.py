import base64

import numpy as np
import pytest

from nsysprof.analysis.sampling.bench import summarize_bench
from nsysprof.analysis.sampling.latency import stall_note
from nsysprof.analysis.sampling.tune import find_winners, insights
from nsysprof.attention.shape import Case
from nsysprof.notes import Note, Severity, make_note
from nsysprof.report.document import Figure, Lines, Section
from nsysprof.report.figures.benches import _cell_text, draw_latency, draw_scaling, draw_throughput, draw_winners
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.html import render_html
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.bench import (
    BenchReport,
    bench_report,
    latency_table,
    results_csv,
    target_table,
    tuning_report,
    tuning_sections,
    verdict_lines,
)
from nsysprof.results.samples import Block
from tests.analysis.blocks import make_blocks


def results(cells, medians, count=12, extra=()):
    rng = np.random.default_rng(1)
    blocks = [
        block
        for cell, median in enumerate(medians)
        if median
        for block in make_blocks(rng, count, cell=cell, median=median, within=0.005)
    ]
    names = [f"{case.backend}::S{case.seq}" for case in cells]
    return summarize_bench(cells, names, [*blocks, *extra], {"flops": {"fp16": 7e14}, "bytes_per_s": 4e12}, {})


def report(found, **fields):
    return BenchReport(
        "a bench", found.table, found.floor_pct, found.floor_pairs, {"flops": {"fp16": 7e14}, "bytes_per_s": 4e12},
        {"gpu_name": "GPU"}, found.notes, ["how it was done."], "nsysprof bench", **fields,
    )  # fmt: skip


THREE = [Case("flash", seq=512), Case("math", seq=512), Case("cudnn", seq=512)]


def test_a_verdict_says_who_ties_and_who_is_slower():
    (line,) = verdict_lines(results(THREE, (50e3, 200e3, 50e3)).table)
    assert "a tie with" in line
    assert "math takes 4.0x as long" in line
    assert line.startswith("S=512: ")


def test_what_must_be_beaten_is_the_latency_less_what_the_bench_would_tell():
    found = results(THREE, (50e3, 200e3, 100e3))
    (row,) = target_table(found.table).rows
    assert row[0].value == "flash::S512"
    latency = found.table.loc[0, "median_ns"]
    assert found.floor_pct
    assert row[2].value == pytest.approx(latency / (1 + found.floor_pct / 100))


def test_a_report_of_hundreds_of_cells_fits_a_comment():
    cells = [
        Case(backend, seq=16 * i, batch=b) for backend in ("flash", "math") for i in range(1, 26) for b in (1, 2, 4)
    ]
    found = results(cells, [1e4 * (i + 1) for i in range(len(cells))], count=4)
    winners = find_winners(found.table)
    extra = tuning_sections(
        winners, insights(found.table, winners, 1.0), price=2.0, policy="policy.json", budget_note="ended"
    )
    text = render_markdown(bench_report(report(found, extra=extra)))
    assert len(text) < 60_000
    assert "30 of 150 rows; all are in `results.csv`" in text
    assert "- and 45 more" in text


@pytest.mark.parametrize("name", ["a|b<script>", "x\x1b[31m", "=cmd()", "mod:f"])
def test_names_stay_text(name):
    cells = [Case("mod:f", seq=512)]
    rng = np.random.default_rng(1)
    found = summarize_bench(cells, [name], make_blocks(rng, 4), {}, {})
    text = render_markdown(bench_report(report(found)))
    assert "<script>" not in text
    assert "\x1b" not in text + render_console(bench_report(report(found)), 100)
    assert b"\n=cmd" not in results_csv(found.table)


def test_failures_and_notes_are_there():
    found = results(THREE, (50e3, 60e3, None), extra=[Block(2, 0, 0, "wrong", "out differs by 0.3 | relative")])
    text = render_markdown(bench_report(report(found)))
    assert "## Not ranked" in text
    assert "differs by 0.3 \\| relative" in text
    note = Note("x", Severity.WARNING, "look <here>", "do this")
    found = results(THREE, (50e3, 60e3, 70e3))
    text = render_markdown(bench_report(BenchReport("t", found.table, None, 0, {}, {}, [note], [], "c")))
    assert "look \\<here\\>" in text
    assert "No ceiling was measured." in text


def test_the_terminal_table_has_every_case():
    text = render_console(bench_report(report(results(THREE, (50e3, 200e3, 50e3)))), 100)
    assert all(name in text for name in ("flash::S512", "math::S512", "cudnn::S512"))
    assert len(latency_table(results(THREE, (50e3, None, None)).table).rows) == 3


def panels(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def test_figures_have_a_line_a_backend_and_a_panel_a_rest():
    cells = [Case(b, seq=s, batch=n) for b in ("flash", "math") for s in (128, 256) for n in (1, 4)]
    found = results(cells, [1e4 * (i + 1) for i in range(8)])
    figure = draw_latency(found.table)
    assert len(panels(figure)) == 2
    assert [len(axes.containers) for axes in panels(figure)] == [2, 2]
    assert panels(figure)[0].get_yscale() == "log"
    assert draw_throughput(found.table, {"flops": {"fp16": 7e14}}).axes[0].get_ylim()[1] > 700
    assert draw_scaling(found.table) is not None
    assert draw_latency(found.table.assign(median_ns=np.nan)) is None


def test_the_heat_map_names_ties_and_gives_margins():
    cells = [Case(b, seq=s) for s in (128, 256) for b in ("flash", "math")]
    winners = find_winners(results(cells, (10e3, 15e3, 20e3, 20e3)).table)
    texts = [text.get_text() for text in draw_winners(winners).axes[0].texts]
    assert texts[0].startswith(("flash\n+5", "flash\n+4"))
    assert texts[1] == "flash\nmath"
    colors = [
        [patch.get_facecolor() for patch in draw_winners(winners.assign(over_auto=gain)).axes[0].patches]
        for gain in (1.0, 1.2, 3.0)
    ]
    assert len({color for cells in colors for color in cells}) == 3, "the colour is what torch's own choice loses"
    assert draw_winners(winners.iloc[:0]) is None


def test_a_backend_that_only_later_panels_have_is_in_the_legend():
    cells = [
        Case(name, seq=s, batch=b)
        for b, names in ((1, ("flash",)), (2, ("flash", "math")))
        for name in names
        for s in (16, 32)
    ]
    found = results(cells, [1e4] * len(cells))
    (legend,) = draw_latency(found.table).legends
    assert [text.get_text() for text in legend.get_texts()] == ["flash", "math"]


def test_a_page_of_many_shapes_opens_with_what_follows_and_folds_most_verdicts():
    cells = [Case(backend, seq=16 * i) for backend in ("flash", "math") for i in range(1, 21)]
    found = results(cells, [1e4 * (i + 1) for i in range(len(cells))], count=4)
    winners = find_winners(found.table)
    picture = Figure("winners.png", "the winners", b"drawn")
    extra = tuning_sections(winners, ["flash wins."], price=None, policy=None, budget_note="", figures=[picture])
    page = render_html(bench_report(report(found, extra=extra)))
    assert page.index("flash wins.") < page.index("S=16:") < page.index("10 more</summary>") < page.index("S=320:")
    assert base64.b64encode(b"drawn").decode() in page
    assert 'src="data:image/png;base64,"' not in page
    assert '<h2 id="notes">' not in page, "there are none"


def test_a_surplus_of_thousands_of_percent_is_a_factor():
    row = {"verdict": "faster", "backend": "flash", "tied": ""}
    assert [_cell_text({**row, "margin": margin}, 14) for margin in (1.27, 26.65)] == ["flash\n+27 %", "flash\n27x"]


def test_an_interval_that_says_nothing_is_not_shown_and_the_next_step_is() -> None:
    table = results(THREE[:2], [1000, 2000]).table
    assert "processes" not in " ".join(verdict_lines(table))
    table[["low_ns", "high_ns"]] = table[["low_ns", "high_ns"]].astype(float)
    table.loc[0, ["processes", "low_ns", "high_ns"]] = [2, 0.01, 417_569e6]
    said = verdict_lines(table)
    assert said[-1] == (
        "The interval of one latency is not shown: 2 processes differ so much that it says nothing. Give --processes 3 "
        "or more."
    )
    assert "417" not in " ".join(said)
    assert sorted(row[2].low is None for row in latency_table(table).rows) == [False, True]


def test_a_tuning_on_a_machine_that_stalls_says_so_first():
    notes = [make_note("cpu"), stall_note("math 512", "Their shapes have no verdict.")]
    text = render_console(tuning_report([Section("What follows", (Lines(("1 shape is refused.",)),))], notes), 100)
    assert text.splitlines()[0].startswith("The machine stalls: over 10 % of the samples of math 512")
    assert text.count("The machine stalls") == 1
