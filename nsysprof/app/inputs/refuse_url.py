"""Refuse a URL where a file is wanted."""

from __future__ import annotations

import re
from pathlib import Path

from nsysprof.errors import UsageError

# At least two letters, so that a Windows drive is not a URL. pathlib has turned two slashes into one.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])", re.IGNORECASE)


def refuse_url(source: Path) -> None:
    """Raise UsageError for a URL."""
    found = _URL.match(str(source))
    if found is None or source.exists():
        return
    address = f"{found[1]}://{str(source)[found.end() :]}"
    raise UsageError(
        f"{address} is a URL, and nsysprof reads only files.", "Download it first, and give the file or folder."
    )
