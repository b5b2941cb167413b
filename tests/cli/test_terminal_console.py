import fcntl
import json
import math
import os
import pty
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace

import numpy as np

from nsysprof.cli import terminal
from nsysprof.cli.terminal import has_colors, paint, print_json, say, wrap_sentences
from nsysprof.notes import make_note


def test_json_keeps_every_digit_and_says_null_for_what_is_no_number(capsys):
    note = make_note("open-ranges", count=1)
    print_json({"sum": 0.1 + 0.2, "large": 2**53 + 1, "unknown": math.nan, "of_numpy": np.float64(1 / 3), "note": note})
    said = capsys.readouterr().out
    assert json.loads(said) == {
        "format_version": 1,
        "sum": 0.30000000000000004,
        "large": 2**53 + 1,
        "unknown": None,
        "of_numpy": 1 / 3,
        "note": {"code": note.code, "severity": "warning", "text": note.text, "next_step": note.next_step},
    }


def test_json_holds_no_control_character(capsys):
    print_json({"range": "\x1b]0;title\x07\u202eevil"})
    said = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert json.loads(said) == {"format_version": 1, "range": "\x1b]0;title\x07\u202eevil"}


def test_a_terminal_breaks_sentences_between_words_and_leaves_tables_alone():
    text = "Together these changes save much.\n   -> Do it\nrange    n\n─────────"
    assert wrap_sentences(text, 20) == ("Together these\nchanges save much.\n   -> Do it\nrange    n\n─────────")
    assert wrap_sentences("  one two three", 9) == "  one two\n  three"


PROGRAM = """
from nsysprof.cli.terminal import print_report
from nsysprof.report.document import Column, Lines, Report, Section, Unit, make_table
names = [(10 * letter + 30 * "x" + letter, *range(1000000, 1000008)) for letter in "ab"]
table = make_table("T", [Column("range", Unit.NAME), *(Column(f"n{d}", Unit.COUNT, drop=d) for d in range(8))], names)
print_report(Report("R", (Section("S", (Lines((30 * "word ",)), table)),)))
"""


def printed_lines(stderr):
    """Return the lines that a report has in a pipe, with this as standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=stderr, env=environment, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_pipe_in_a_terminal_gets_no_line_that_is_wider_than_the_terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 72, 0, 0))
    try:
        in_terminal = printed_lines(theirs)
    finally:
        os.close(theirs)
        os.close(ours)
    assert 60 < max(map(len, in_terminal)) <= 72
    assert any("no room for" in line for line in in_terminal)
    # A log has no width: a sentence is one line there.
    in_log = printed_lines(subprocess.PIPE)
    assert 30 * "word " in in_log
    assert not any("no room for" in line for line in in_log)


def test_what_is_said_fits_a_terminal_and_a_path_stays_whole(monkeypatch, capsys):
    text = "\n  -> Give one of the traces that are in it, such as /a/very/long/path/that/is/wider/than/all.sqlite"
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(terminal, "_terminal_columns", lambda: 40)
    say(text)
    assert capsys.readouterr().out.split("\n") == [
        "",
        "  -> Give one of the traces that are in",
        "  it, such as",
        "  /a/very/long/path/that/is/wider/than/all.sqlite",
        "",
    ]
    monkeypatch.setattr(terminal, "_terminal_columns", lambda: 0)
    say(text, err=True)
    assert capsys.readouterr().err == f"{text}\n", "a log gets one line"


def test_a_number_is_not_parted_from_its_unit():
    assert wrap_sentences("It takes 12.3 ms of 94 % in all.", 13) == "It takes\n12.3 ms of\n94 % in all."


def test_a_terminal_shows_titles_codes_steps_and_what_is_wrong_by_weight_and_colour(monkeypatch):
    text = "Findings\n1. sync in step: 1 ms\n   text\n   -> Do it\n   now\nwarning: lost\nslower:3%: regression (1)"
    assert paint(text, {"Findings"}).split("\n") == [
        "\x1b[1mFindings\x1b[0m",
        "1. \x1b[1msync\x1b[0m in step: 1 ms",
        "   text",
        "\x1b[36m   -> Do it\x1b[0m",
        "\x1b[36m   now\x1b[0m",
        "\x1b[33mwarning: \x1b[0mlost",
        "slower:3%: \x1b[31mregression\x1b[0m (1)",
    ]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
    cases = (("TERM", "xterm", True), ("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False))
    for name, value, shown in cases:
        monkeypatch.setenv(name, value)
        assert has_colors() is shown
