"""Without matplotlib, which is an extra: everything but the figures is there, and what brings them is said."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

import pytest

from nsysprof.cli import app
from nsysprof.report.figures import drawing as png
from nsysprof.report.figures.drawing import can_draw, new_figure, png_bytes, svg_bytes


@pytest.fixture
def without_matplotlib(monkeypatch):
    """Hide matplotlib from whoever looks for it or imports it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    find = PathFinder.find_spec
    monkeypatch.setattr(
        PathFinder, "find_spec", lambda name, *more: None if name.startswith("matplotlib") else find(name, *more)
    )


def test_matplotlib_is_found_where_it_is():
    assert can_draw()


@pytest.mark.parametrize("installed", [(), ("DejaVu Sans Mono",)])
def test_a_name_in_a_script_without_a_font_is_drawn_without_a_complaint(monkeypatch, capfd, installed):
    monkeypatch.setattr(png, "_installed_fonts", lambda: installed)
    figure = new_figure(1.0)
    text = figure.text(0, 0, "训练步骤 🚀")
    assert png_bytes(figure).startswith(b"\x89PNG"), "and every warning is an error here"
    assert svg_bytes(figure)
    assert set(installed) <= set(text.get_fontfamily())
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("without_matplotlib")
def test_an_analysis_lacks_only_its_figures(trace_path, tmp_path, capsys):
    assert not can_draw()
    app(["analyze", str(trace_path("mem")), "--out", str(tmp_path / "o")], standalone_mode=False)
    assert "pip install 'nsysprof[figures]'" in capsys.readouterr().err
    assert list((tmp_path / "o").glob("*.png")) == []
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert 'id="timeline' in page
    app(["analyze", str(trace_path("mem")), "--out", str(tmp_path / "p"), "--no-figures"], standalone_mode=False)
    assert "nsysprof[figures]" not in capsys.readouterr().err, "nobody wanted any"


@pytest.mark.usefixtures("without_matplotlib")
def test_comparisons_lack_only_theirs(trace_path, tmp_path, capsys):
    path = str(trace_path("mem"))
    app(["compare", path, path, "--out", str(tmp_path / "c")], standalone_mode=False)
    assert "pip install 'nsysprof[figures]'" in capsys.readouterr().err
    assert (tmp_path / "c" / "report.md").is_file()
    assert list((tmp_path / "c").glob("*.png")) == []
