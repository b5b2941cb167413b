import csv
import io
import json
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.errors import TraceError
from nsysprof.files.plain_file import encode_json, plain_json
from nsysprof.notes import Note, Severity
from nsysprof.plain_text import plain_cell, plain_line, plain_lines
from nsysprof.results.column_registry.analysis_columns import KERNELS
from nsysprof.results.column_registry.csv_table import render_csv

ATTACKS = "\x1b]0;title\x07 \x1b]52;c;ZXZpbA==\x07 \x1b[2J \x9b31m a\r=cmd() \u202egpj.exe \u2028 \x85"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_a_line_has_no_control_character_and_as_many_characters(text):
    assert len(plain_line(text)) == len(text)
    assert not CONTROL.search(plain_line(text))
    assert "\n" not in plain_line(text)
    assert plain_lines(text).count("\n") == text.count("\n")


def test_errors_and_notes_print_as_they_are_whatever_name_they_quote():
    error = TraceError(f"Range {ATTACKS}", f"See {ATTACKS}")
    note = Note("x", Severity.INFO, f"Range {ATTACKS}", f"See {ATTACKS}")
    for text in (error.text, error.next_step, str(error), note.text, note.next_step, encode_json(note).decode()):
        assert not CONTROL.search(text)


@given(st.text())
def test_json_says_the_same_and_shows_letters_alone(text):
    written = plain_json({"name": text, "rank": "é"})
    assert json.loads(written) == {"name": text, "rank": "é"}
    assert not CONTROL.search(written)
    assert "é" in written


def test_no_cell_of_a_table_is_a_formula_or_begins_another_row():
    starts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", "a\r=cmd()", "a\n=cmd()", ATTACKS]
    written = render_csv(pd.DataFrame({"name": starts, "instances": 1}), KERNELS).decode()
    assert "\r" not in written
    rows = [row for line in re.split("[\r\n]", written) for row in csv.reader(io.StringIO(line))]
    assert [len(row) for row in rows if row] == [2] * (len(starts) + 1)
    assert not any(re.match("[=+@\uff1d-]", cell) for row in rows for cell in row)
    assert plain_cell("kernel<int>") == "kernel<int>"
    assert plain_cell("a; b") == "a; b"


@pytest.mark.parametrize("text", [";=cmd|' /C calc'!A0;", 'a; "=1', "a;;-1", "a;\uff1d1"])
def test_no_cell_is_a_formula_where_semicolons_separate_cells(text):
    cells = next(csv.reader(io.StringIO(plain_cell(text)), delimiter=";", skipinitialspace=True))
    assert not any(re.match("[=+@\uff1d-]", cell) for cell in cells)
