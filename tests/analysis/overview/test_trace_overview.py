"""What is known of a trace as a whole."""

from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.analysis import analysis_report
from tests.builders.training import training
from tests.report import samples


def test_a_recording_of_a_processor_says_nothing_about_a_gpu(tmp_path):
    builder = training()
    builder.fact("NSYSPROF:WORK_KIND", "operator")
    analysis = samples.analysis(tmp_path, builder)
    assert (analysis.idle, analysis.findings, analysis.step_times, analysis.work) == (None, None, None, None)
    assert analysis.no_findings == ""
    texts = render_markdown(analysis_report(analysis, None))
    assert "GPU is busy" not in texts
    assert "CUDA graph" not in texts
