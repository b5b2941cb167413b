"""Make text safe to show: remove whatever could move a cursor, set a title, fill a clipboard or reverse a line."""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
CONTROL_IN_LINES = re.compile(f"(?!\n)[{_CONTROLS}]")
# Characters that begin a formula in a spreadsheet, in every width that it recognises. A ; may separate cells.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_LATER_FORMULA = re.compile(rf";(?=[\s\"']*[{re.escape(''.join(_FORMULA))}])")


def plain_line(text: str) -> str:
    """Return the text with control characters, bidirectional marks and lone surrogates replaced by U+FFFD."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def plain_lines(text: str) -> str:
    """Return a text of several lines, each cleaned as plain_line does."""
    return CONTROL_IN_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def plain_cell(text: str) -> str:
    """Return a cell of a CSV file: one line that a spreadsheet does not treat as a formula."""
    line = _LATER_FORMULA.sub(";'", plain_line(text))
    return f"'{line}" if line.startswith(_FORMULA) else line
