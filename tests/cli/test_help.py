"""`nsysprof help` as a user runs it: the list, a page, JSON, and what a wrong word gives."""

import json
import re

from nsysprof.cli import app
from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run_process


def test_the_list_and_a_page(capsys):
    app(["help"], standalone_mode=False)
    listed = capsys.readouterr().out
    assert "causes        Why the GPU was idle\n" in listed
    app(["help", "causes"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("# Why the GPU was idle\n")


def test_a_terminal_gets_a_page_of_its_width(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    app(["help", "causes"], standalone_mode=False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[0].strip() == "Why the GPU was idle"
    assert max(map(len, lines)) <= 100


def test_json_is_as_its_schema_says(capsys):
    app(["help", "--json"], standalone_mode=False)
    assert as_published("help", capsys.readouterr().out)["topic"] is None
    app(["help", "mcp", "--json"], standalone_mode=False)
    data = as_published("help", capsys.readouterr().out)
    assert (data["topic"], data["text"][:1]) == ("mcp", "#")
    assert json.dumps(data["topics"]).count('"name"') > 30


def test_an_unknown_topic_is_one_clear_line():
    fails(run_process("help", "kauses"), 2, "There is no topic 'kauses'", "Nearest: causes")


def test_a_command_in_a_page_is_not_broken(capsys, monkeypatch):
    """Copied from a terminal, a broken address is another one."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    app(["help", "nsys"], standalone_mode=False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert [line for line in lines if line.startswith("wget https://") and line.endswith("/cuda-keyring_1.1-1_all.deb")]
