import nsysprof
from nsysprof.results.analysis import Analysis
from tests.builders.build_trace import TraceBuilder
from tests.builders.training import training
from tests.report.samples import HOSTILE


def test_a_notebook_shows_an_analysis_and_draws_its_figures(tmp_path):
    made = training()
    made.range(10_000, 10_500, HOSTILE)
    made.allocate(10_000, 1, 1 << 20)
    with nsysprof.open_trace(made.write(tmp_path / "t.sqlite")) as trace:
        shown = nsysprof.summarize(trace)
    assert isinstance(shown, Analysis)
    text = shown._repr_html_()
    assert "The GPU is busy for 15 % of a step" in text
    assert "<svg" in text and "<script>" not in text
    assert "a typical step (step#)" in shown.plot_timeline().axes[1].get_title(loc="left")
    assert len(shown.plot_kernels().axes) == len(shown.plot_memory().axes) == 1


def test_an_empty_trace_is_shown_too(tmp_path):
    made = TraceBuilder()
    made.fact("a", "b")
    with nsysprof.open_trace(made.write(tmp_path / "t.sqlite")) as trace:
        shown = nsysprof.summarize(trace)
    assert "t.sqlite" in shown._repr_html_()
    assert shown.plot_timeline() is None


def test_what_analyze_returns_is_shown_as_well(tmp_path):
    made = training()
    result = nsysprof.analyze(made.write(tmp_path / "t.sqlite"), out=tmp_path / "a", figures=False)
    assert "busy for" in result.analysis._repr_html_()
    for shown in (repr(result), result._repr_html_()):
        assert "The GPU is busy for 15 % of a step" in shown
        assert shown.count(str(tmp_path / "a")) == 1, "and where the files are"
    assert len(repr(result.analysis).splitlines()) < 40
