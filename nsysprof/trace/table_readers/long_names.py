"""Cut names that are too long: a text of a megabyte, repeated in every row, would fill memory and disk."""

from __future__ import annotations

import hashlib
import re

# Characters. Kernels of templates within templates reach some thousands; a range has the name that a person gave it.
LONGEST_NAME = 8_192
LONGEST_RANGE_NAME = 1_024
LONGEST_DEVICE_NAME = LONGEST_METRIC_NAME = 200
_DIGITS = 16
_MARK = re.compile(rf"… \([\d,]+ characters, SHA-256 [0-9a-f]{{{_DIGITS}}}\)$")


def cut_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Return the name; of a longer one its beginning, its length and its SHA-256, which keeps it unique.

    A name that was already cut gives the same result as the whole name.

    longest: how many characters to keep.
    """
    if len(name) <= longest:
        return name
    marked = _MARK.search(name[-100:])
    if marked is not None:
        return name[:longest] + marked.group()
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[:longest]}… ({len(name):,} characters, SHA-256 {digest})"
