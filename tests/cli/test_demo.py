"""`nsysprof demo`: what a new user sees first. Its numbers are tested where the README's answer is."""

from __future__ import annotations

import tomllib
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from nsysprof.app import demo as use_case
from nsysprof.cli import app
from nsysprof.errors import MissingToolError
from tests.builders.published_schema import as_published
from tests.conftest import REPOSITORY


@pytest.fixture
def small_trace(trace_path, monkeypatch):
    """Put a small trace in the place of the demo's."""
    monkeypatch.setattr(use_case, "demo_trace", lambda: trace_path("inputs"))


@pytest.mark.usefixtures("small_trace")
def test_what_was_found_is_printed_and_where_the_page_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    app(["demo", "--no-figures"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "Eight performance problems were planted" in " ".join(said.split())
    assert "Findings" in said
    page = tmp_path / "nsysprof-demo" / "report.html"
    assert f"The page: {page}" in said
    assert all(len(line) <= 80 for line in said.splitlines() if str(page) not in line)
    assert '<h2 id="timeline">' in page.read_text(encoding="utf-8")
    assert opened == []
    # Again into the same folder, without --force: it holds nothing but a demo.
    app(["demo", "--no-figures", "--open"], standalone_mode=False)
    assert [Path(unquote(urlparse(each).path)) for each in opened] == [page]


@pytest.mark.usefixtures("small_trace")
def test_a_machine_without_a_browser(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(webbrowser, "open", lambda _address: False)
    app(["demo", "--no-figures", "--json", "--out", str(tmp_path / "json")], standalone_mode=False)
    assert as_published("analyze", capsys.readouterr().out)["folder"] == str(tmp_path / "json")
    app(["demo", "--no-figures", "--open", "--out", str(tmp_path / "o")], standalone_mode=False)
    said = capsys.readouterr()
    assert f"The page: {tmp_path / 'o' / 'report.html'}" in said.out
    assert "No browser was found." in said.err


def test_the_wheel_has_the_trace_that_a_copy_of_the_repository_has():
    hatch = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    ((source, target),) = (
        pair for pair in hatch["targets"]["wheel"]["force-include"].items() if pair[0].endswith(".sqlite.xz")
    )
    assert source in hatch["targets"]["sdist"]["include"]
    assert use_case.demo_trace() == REPOSITORY / source
    assert REPOSITORY / target == use_case._PACKAGED
    assert (REPOSITORY / source).stat().st_size < 1_500_000, "a download of the package holds it"


def test_an_installation_without_the_trace_says_so(monkeypatch, tmp_path):
    for name in ("_PACKAGED", "_IN_REPOSITORY"):
        monkeypatch.setattr(use_case, name, tmp_path / "none")
    with pytest.raises(MissingToolError, match=r"lacks the demo's trace\."):
        use_case.demo_trace()
