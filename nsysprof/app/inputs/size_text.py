"""Parse sizes such as "64MiB", which users give as limits."""

from __future__ import annotations

import re

from nsysprof.errors import UsageError

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_size(text: str) -> int:
    """Return the bytes of a text such as "64MiB". Raises UsageError for any other text."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a valid size.", f"Give a number with one of {', '.join(_SIZES)}.")
    return int(float(match[1]) * _SIZES[match[2]])
