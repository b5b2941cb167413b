import sys

import pytest
from jinja2 import DictLoader, Environment

from nsysprof.report.formats.html import kept_templates


@pytest.fixture(autouse=True)
def keeps_code(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def rendered(folder, text, monkeypatch):
    """Return what a template renders to, and whether it was compiled for that."""
    compiled = []
    real = Environment._generate
    monkeypatch.setattr(Environment, "_generate", lambda *given, **more: compiled.append(1) or real(*given, **more))
    engine = Environment(loader=DictLoader({"t": text}), autoescape=True, bytecode_cache=kept_templates(folder))
    return engine.get_template("t").render(name="<b>"), bool(compiled)


def test_a_template_is_compiled_once_and_again_when_it_changes(tmp_path, monkeypatch):
    assert rendered(tmp_path, "one {{ name }}", monkeypatch) == ("one &lt;b&gt;", True)
    assert rendered(tmp_path, "one {{ name }}", monkeypatch) == ("one &lt;b&gt;", False)
    assert rendered(tmp_path, "two {{ name }}", monkeypatch) == ("two &lt;b&gt;", True)


@pytest.mark.parametrize("keep", [0, 30, 60])
def test_damaged_code_is_compiled_again(tmp_path, monkeypatch, keep):
    rendered(tmp_path, "one {{ name }}", monkeypatch)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:keep])
    assert rendered(tmp_path, "one {{ name }}", monkeypatch) == ("one &lt;b&gt;", True)


def test_an_installation_that_cannot_be_written_still_renders(tmp_path, monkeypatch):
    def refuse(*_given, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    assert rendered(tmp_path, "one {{ name }}", monkeypatch) == ("one &lt;b&gt;", True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_kept_where_python_keeps_no_code(tmp_path, monkeypatch):
    assert kept_templates(tmp_path / "missing") is None
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert kept_templates(tmp_path) is None
