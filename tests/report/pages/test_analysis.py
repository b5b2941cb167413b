"""Console, Markdown and HTML of the same analysis."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import ClassVar

import pandas as pd
import pytest

from nsysprof.report.document import Figure
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.html import render_html
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.formats.timeline_data import timeline_data
from nsysprof.report.pages.analysis import analysis_report, capture_report, finding_item
from tests.report import fixed_results, samples
from tests.report.samples import HOSTILE


def render(kind, analysis, record):
    report = analysis_report(analysis, record)
    if kind == "console":
        return render_console(report, 160)
    return render_markdown(report) if kind == "markdown" else render_html(report)


KINDS = ("console", "markdown", "html")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_record", [True, False])
def test_operators_are_never_called_kernels(tmp_path, kind, with_record):
    analysis = samples.analysis(tmp_path, samples.builder(operators=True, kernel="aten::bmm"))
    record = samples.record(analysis, "cpu") if with_record else None
    text = re.sub(r"flash_fwd_kernel|not a kernel of a GPU|kernels\.(csv|png)|xmma", "", render(kind, analysis, record))
    assert "perator" in text
    assert not re.search(r"\bkernels?\b", text, re.IGNORECASE)
    assert "VRAM" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_stay_text(tmp_path, kind):
    analysis = samples.analysis(tmp_path, samples.builder(kernel=HOSTILE))
    text = render(kind, analysis, samples.record(analysis))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "alert(1)" in text, "the name is shown"
    if kind == "markdown":
        assert not re.search(r"(?<!\\)<script", text)
    if kind == "html":
        assert "<script>alert" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_is_a_dash_or_named_below_and_has_its_reason(tmp_path, kind):
    made = samples.builder()
    del made.tables["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    text = render(kind, samples.analysis(tmp_path, made), None)
    assert {"console": "not known here: peak VRAM", "html": "Not known here: peak VRAM", "markdown": "–"}[kind] in text
    assert "no allocation was recorded" in text


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_per_call_and_covered(tmp_path, kind):
    analysis = samples.analysis(tmp_path)
    text = render(kind, analysis, samples.record(analysis))
    assert "22 kernels: 22 inside ranges" in text
    assert "hot" in text and "wait" in text, "the capture's own notes are shown"
    assert "warm end-to-end" in text


def test_the_capture_prints_its_cases_and_the_reasons_of_the_failed(tmp_path):
    record = samples.record(samples.analysis(tmp_path))
    text = render_console(capture_report(record.results, {"device": "cpu"}, ()), 120)
    assert "math::S1024" in text
    assert "RUN::cudnn::S1024: ineligible: " in text
    assert max(map(len, text.splitlines()[:6])) <= 120


def test_a_narrow_terminal_cuts_names_and_never_numbers(tmp_path):
    analysis = samples.analysis(tmp_path)
    text = render_console(analysis_report(analysis, samples.record(analysis)), 40)
    assert "130 [120, 140] ns" in text


class _Balance(HTMLParser):
    VOID: ClassVar[set[str]] = {"meta", "img", "br", "link", "hr", "input"}

    def __init__(self):
        super().__init__()
        self.open = []
        self.inside = {"script": [], "style": []}
        self.policy = ""

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in self.inside and "type" not in names:
            self.inside[tag].append("")
        if names.get("http-equiv") == "Content-Security-Policy":
            self.policy = names["content"]
        assert not any(name == "style" or name.startswith("on") for name in names), "the policy would stop it"
        for name in ("src", "href"):
            assert names.get(name, "#").startswith(("data:", "#"))

    def handle_data(self, text):
        if self.open and self.inside.get(self.open[-1]):
            self.inside[self.open[-1]][-1] += text

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("with_timeline", [True, False])
def test_the_page_is_well_formed_and_runs_what_its_policy_names(tmp_path, with_timeline):
    analysis = samples.analysis(tmp_path, samples.builder(kernel=HOSTILE))
    timeline = timeline_data(analysis) if with_timeline else None
    parser = _Balance()
    parser.feed(render_html(analysis_report(analysis, samples.record(analysis), timeline=timeline)))
    assert parser.open == []
    assert parser.policy.startswith("default-src 'none'; img-src data:; script-src 'sha256-")
    assert "unsafe" not in parser.policy
    assert [len(parser.inside["style"]), len(parser.inside["script"])] == [1, 5 if with_timeline else 2]
    for text in (*parser.inside["style"], *parser.inside["script"]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in parser.policy


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_the_fastest_case_of_a_shape_is_marked(tmp_path, kind):
    analysis = samples.analysis(tmp_path)
    text = render(kind, analysis, samples.record(analysis, "cpu"))
    row = next(line for line in text.splitlines() if "★" in line)
    assert "flash::S1024" in row and "★ fastest" in row
    assert text.count("★") == 1
    tied = samples.record(analysis, math=dict(latency_median_ns=131, latency_ci_low_ns=125, latency_ci_high_ns=140))
    assert render(kind, analysis, tied).count("★ among the fastest") == 2


def test_markdown_tables_have_as_many_cells_as_headers(tmp_path):
    analysis = samples.analysis(tmp_path, samples.builder(kernel="a|b|c"))
    figures = [Figure("timeline.png", "A timeline")]
    text = render_markdown(analysis_report(analysis, samples.record(analysis), figures=figures))
    assert "![A timeline](timeline.png)" in text
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(blocks) >= 5
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_a_report_of_thousands_of_ranges_fits_a_github_comment(tmp_path):
    made = samples.builder()
    for number in range(1500):
        made.range(number, number + 1, f"work {7919 * number % 100_003} " + "x" * 200)
        made.launch(100_000 + number * 1000, 5000 + number, name=f"kernel_{number}_" + "y" * 300)
    text = render_markdown(analysis_report(samples.analysis(tmp_path, made), None))
    assert len(text) < 60_000
    assert "all are in `range_tree.csv`" in text


@pytest.mark.parametrize("cases", [50, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_report_of_many_cases_fits_one_too_and_folds_them(tmp_path, cases):
    analysis = samples.analysis(tmp_path)
    record = samples.record(analysis)
    many = pd.concat([record.results.iloc[[0, 2]]] * (cases // 2), ignore_index=True)
    many["seq"] = range(cases)
    many["range"] = [f"RUN::math::S{number}" for number in range(cases)]
    text = render_markdown(analysis_report(analysis, replace(record, results=many, rankings=())))
    assert len(text) < 60_000
    assert f"<details><summary>Cases (counts, times and bytes per call) ({cases})</summary>" in text
    assert ("all are in `results.csv`" in text) == (cases == 2000)
    assert text.count("<details>") == text.count("</details>") >= 1


@pytest.mark.parametrize(("found_in", "location", "where"), [
    ("step#", "train.py:7", "step# at train.py:7 in layers.[0-3].mlp"), ("", "", "layers.[0-3].mlp"),
])  # fmt: skip
def test_a_finding_says_where_it_is_in_the_model(found_in, location, where):
    first = replace(fixed_results.findings().items[0], range=found_in, location=location, location_share_pct=None)
    assert finding_item(replace(first, layer="layers.[0-3].mlp")).where == where
