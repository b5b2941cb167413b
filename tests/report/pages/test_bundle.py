"""The Markdown to paste: what it says, and that nothing of a trace is formatting in it."""

from __future__ import annotations

from pathlib import Path

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.bundle import Shared, bundle_report
from tests.builders.build_trace import TraceBuilder

SHARED = Shared("my run.zip", 12_345, "ab" * 32, "my run", has_trace=True, named=False, left_out=[("logs", "output")])
HOSTILE = "<script>alert(1)</script> | [x](http://evil) @everyone `rm` \n# title"


def render(shared: Shared, trace: Path) -> str:
    return render_markdown(bundle_report(shared, analyze_trace(trace), None), level=3)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.gpu(name=HOSTILE)
    builder.range(0, 1000, HOSTILE)
    builder.launch(10, 1, name=HOSTILE)
    markdown = render(SHARED, builder.write(tmp_path / "t.sqlite"))
    assert "<script>" not in markdown
    assert "\n# title" not in markdown
    assert "http://" not in markdown
    assert "\\@\u200beveryone" in markdown
    # A hostile name does not add a cell: every row of a table has as many as the table's head.
    tables = [block.splitlines() for block in markdown.split("\n\n") if block.startswith("| ")]
    assert len(tables) > 1
    for head, *rows in tables:
        assert {row.replace("\\|", "").count("|") for row in rows} == {head.count("|")}, head


def test_what_it_says(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.launch(10, 1)
    markdown = render(SHARED, builder.write(tmp_path / "t.sqlite"))
    assert "ab" * 32 in markdown
    assert "nsysprof analyze 'my run.zip'" in markdown
    assert "all others replaced by tokens" in markdown
    assert "- logs: output" in markdown
    assert "GPU 0" in markdown
    assert "`no-nvtx`" in markdown


def test_a_quote_in_a_file_name_cannot_end_the_command(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.launch(10, 1)
    odd = Shared("a'; rm -rf ~ #`.zip", 1, "0" * 64, "a", has_trace=True, named=True)
    markdown = render(odd, builder.write(tmp_path / "t.sqlite"))
    assert """nsysprof analyze 'a'"'"'; rm -rf ~ #`.zip'""" in markdown
    assert "`a'; rm" not in markdown
