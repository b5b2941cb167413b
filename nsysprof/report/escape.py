"""Trace text is untrusted: it may hold markup, control characters or a megabyte. Nothing of it is ever formatting."""

from __future__ import annotations

import re

# Control characters, bidirectional overrides and lone surrogates: they could move a cursor or break an encoder.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def clean(text: str, limit: int = 0) -> str:
    """One line without control characters, its middle cut out when longer than `limit` (0: no limit)."""
    line = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text if limit == 0 else text[: limit * 64])
    if limit and len(line) > limit:
        head = (limit - 1) * 2 // 3
        line = line[:head] + "…" + line[len(line) - (limit - 1 - head) :]
    return line


def escape_markdown(text: str) -> str:
    """Text that GitHub shows as it is, inside a table cell too."""
    return re.sub(r"([\\`*_{}\[\]<>|#~$!@&])", r"\\\1", clean(text)).replace("://", ":\u200b//")


def escape_mathtext(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return clean(text).replace("$", r"\$")


def defuse_formula(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
