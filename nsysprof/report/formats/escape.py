"""Escape text from a trace, which is untrusted: it may contain markup, control characters or a megabyte."""

from __future__ import annotations

import re

from nsysprof.plain_text import plain_line

# GitHub makes links and mentions of these even after a backslash. An invisible space of zero width prevents that.
_ALIVE = re.compile(r"://|@|#(?=\d)|\bwww(?=\.)|\bGH(?=-\d)|\b(mailto|xmpp)(?=:)", re.IGNORECASE)


def clean(text: str, limit: int = 0) -> str:
    """Return one line without control characters. A text longer than `limit` is cut in the middle (0: no limit)."""
    line = plain_line(text if limit == 0 else text[: limit * 64])
    if limit and len(line) > limit:
        head = (limit - 1) * 2 // 3
        line = line[:head] + "…" + line[len(line) - (limit - 1 - head) :]
    return line


def escape_markdown(text: str) -> str:
    """Return a text that GitHub shows literally, inside a table cell too."""
    escaped = re.sub(r"([\\`*_{}\[\]<>|#~$!@&])", r"\\\1", clean(text))
    return _ALIVE.sub(lambda match: ":\u200b//" if match.group() == "://" else f"{match.group()}\u200b", escaped)


def escape_mathtext(text: str) -> str:
    """Return a text that matplotlib does not read as mathematics."""
    return clean(text).replace("$", r"\$")
