import json
import math

import numpy as np

from nsysprof.cli.terminal.console import print_json, wrap_sentences
from nsysprof.notes import make_note


def test_json_keeps_every_digit_and_says_null_for_what_is_no_number(capsys):
    note = make_note("open-ranges", count=1)
    print_json({"sum": 0.1 + 0.2, "large": 2**53 + 1, "unknown": math.nan, "of_numpy": np.float64(1 / 3), "note": note})
    said = capsys.readouterr().out
    assert json.loads(said) == {
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
    assert json.loads(said) == {"range": "\x1b]0;title\x07\u202eevil"}


def test_a_terminal_breaks_sentences_between_words_and_leaves_tables_alone():
    text = "Together these changes save much.\n   -> Do it\nrange    n\n─────────"
    assert wrap_sentences(text, 20) == ("Together these\nchanges save much.\n   -> Do it\nrange    n\n─────────")
    assert wrap_sentences("  one two three", 9) == "  one two\n  three"
