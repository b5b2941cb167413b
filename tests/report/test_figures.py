import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.report.figures.drawing import CATEGORY_COLORS
from nsysprof.report.figures.memory import draw_vram
from nsysprof.report.figures.timeline import choose_panels, draw_kernels, draw_timeline
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder
from tests.report import samples
from tests.report.samples import HOSTILE


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_one_panel_a_backend_with_one_call_of_each_on_one_time_scale(tmp_path):
    analysis = samples.analysis(tmp_path)
    panels = choose_panels(analysis, {"RUN::math::S1024": 2, "RUN::flash::S1024": 2})
    assert [panel.title.split(",")[0] for panel in panels] == ["math", "flash"]
    assert [panel.end_ns - panel.start_ns for panel in panels] == [1950, 150], "to the end of the last kernel of a call"
    assert "10 kernels a call" in panels[0].title
    assert "1 kernel a call" in panels[1].title
    figure = draw_timeline(analysis, {"RUN::math::S1024": 2, "RUN::flash::S1024": 2})
    assert len({axes.get_xlim() for axes in figure.axes[1:]}) == 1, "the first is the overview"
    assert {"CUDA API", "NVTX", "stream 7"} <= set(texts(figure))


def test_any_trace_has_a_timeline_and_a_kernel_figure(tmp_path):
    made = TraceBuilder()
    made.launch(10, 1, name="k")
    analysis = samples.analysis(tmp_path, made)
    assert "trace.sqlite: 1 kernels" in texts(draw_timeline(analysis))
    assert any(text.endswith(" = 1 × 50 ns, 100.0 %") for text in texts(draw_kernels(analysis)))


def test_nothing_to_draw_is_none(tmp_path):
    made = TraceBuilder()
    made.fact("a", "b")
    analysis = samples.analysis(tmp_path, made)
    assert draw_timeline(analysis) is None
    assert draw_kernels(analysis) is None
    assert draw_vram(analysis, None) is None


def test_the_kernel_figure_gives_time_per_call(tmp_path):
    analysis = samples.analysis(tmp_path)
    shown = texts(draw_kernels(analysis, {"RUN::math::S1024": 2, "RUN::flash::S1024": 2}))
    assert " 500 ns, 10 kernels" in shown
    assert " 50 ns, 1 kernel" in shown


def test_the_memory_figure_prefers_torchs_own_peak_and_says_so(tmp_path):
    analysis = samples.analysis(tmp_path)
    assert "peak allocated by torch, untraced pass" in texts(draw_vram(analysis, samples.record(analysis)))
    assert "peak VRAM in the range, from the driver" in texts(draw_vram(analysis, None))


@pytest.mark.parametrize("name", ["$x^2$", "$\\frac{", HOSTILE, "x" * 100_000, "漢字"])
def test_names_are_neither_mathematics_nor_endless(tmp_path, name, monkeypatch):
    made = samples.builder(kernel=name)
    made.range(0, 10**6, name)
    analysis = samples.analysis(tmp_path, made)
    for figure in (draw_timeline(analysis), draw_kernels(analysis)):
        with monkeypatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_args, **_kwargs: None)  # a font without the glyph
            figure.savefig(tmp_path / "f.png")
        shown = texts(figure)
        assert max(map(len, shown)) < 200
        assert not any(text.replace(r"\$", "").count("$") for text in shown), "every dollar sign is escaped"


def heights(axes, color):
    """Return how tall what is drawn in a colour is at most; a full lane is 0.8."""
    from matplotlib.colors import to_rgba

    drawn = [each for each in axes.collections if tuple(each.get_facecolor()[0]) == to_rgba(color)]
    assert drawn, "the colour is there"
    tall = [np.ptp(path.vertices[:, 1]) for each in drawn for path in each.get_paths()]
    return max(tall)


def test_two_hundred_thousand_kernels_are_as_tall_as_they_are_busy(tmp_path):
    made = TraceBuilder()
    columns = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, demangledName INTEGER, shortName INTEGER"
    name = made.text("k")
    rows = [(1000 * n, 1000 * n + 500, 0, 7, name, name) for n in range(200_000)]
    made.tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (columns, rows)
    figure = draw_timeline(samples.analysis(tmp_path, made))
    assert heights(figure.axes[-1], CATEGORY_COLORS["other"]) == pytest.approx(0.4, abs=0.02), "half busy, half as tall"


def test_few_kernels_are_drawn_by_the_same_rule_as_many(tmp_path):
    made = TraceBuilder()
    for at in range(0, 1_000_000, 1000):
        made.kernel(at, at + 100, None, name="k")
        if at % 10_000 == 0:
            made.kernel(at + 500, at + 520, None, name="flash_fwd")
    made.kernel(1_000_000, 1_000_001, None, name="k")
    axes = draw_timeline(samples.analysis(tmp_path, made)).axes[-1]
    assert heights(axes, CATEGORY_COLORS["other"]) < 0.15
    assert heights(axes, CATEGORY_COLORS["attention"]) < 0.05, "20 ns in 10 us is not a solid bar"
    assert "10 %" in [text.get_text() for text in axes.texts]


def test_a_program_with_steps_is_drawn_by_one_of_them_below_the_whole_run(tmp_path):
    made = TraceBuilder()
    for step in range(10):
        made.range(1000 * step, 1000 * step + 990, f"step{step}")
        made.range(1000 * step + 100, 1000 * step + 500, "forward")
        made.launch(1000 * step + 100, step + 1, name="sgemm")
    figure = draw_timeline(samples.analysis(tmp_path, made))
    overview, lanes = figure.axes
    assert lanes.get_xlim()[1] == pytest.approx(1e-6)
    assert "a typical step (step#): number 1 of 10, 1.00 us" in lanes.get_title(loc="left")
    assert overview.get_xlim()[1] > 9e-6
    assert {"step0", "forward"} <= set(texts(figure))


def test_the_title_of_a_jax_step_has_its_short_name(tmp_path):
    made = TraceBuilder()
    for step in range(10):
        made.range(1000 * step, 1000 * step + 990, "XlaModule:#hlo_module=jit_step,program_id=6633#")
        made.launch(1000 * step + 100, step + 1, name="sgemm")
    _, lanes = draw_timeline(samples.analysis(tmp_path, made)).axes
    assert lanes.get_title(loc="left").startswith("a typical step (XlaModule jit_step): number 1 of 10")


def test_shading_is_explained_only_where_something_is_shaded(tmp_path):
    made = samples.builder()
    assert any("shaded" in text for text in texts(draw_vram(samples.analysis(tmp_path, made), None)))
    made = TraceBuilder()
    made.allocate(10, 1, 1 << 20)
    made.launch(10, 1)
    (tmp_path / "trace.sqlite").unlink()
    assert not any("shaded" in text for text in texts(draw_vram(samples.analysis(tmp_path, made), None)))


# figures/test_drawing_collisions.py draws those of more traces.
@pytest.mark.parametrize(
    "name",
    ["graph_node", "sdpa22", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sdpa", "ddp_rank0", "gm10k"))],
)
def test_figures_of_real_traces(trace_path, tmp_path, name):
    with open_trace(trace_path(name)) as trace:
        analysis = summarize(read_tables(trace))
    for figure in (draw_timeline(analysis), draw_kernels(analysis), draw_vram(analysis, None)):
        if figure is not None:
            figure.savefig(tmp_path / "f.png")
            width, height = figure.get_size_inches()
            assert width == 9.0
            assert 1 < height < 20
