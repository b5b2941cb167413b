"""Read files in a folder from somebody else: only plain files, because a pipe or a device might never end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_LARGEST_BYTES = 1 << 30


def read_plain_text(path: Path) -> str:
    """Return the text of a plain file. Raises OSError for anything else and for more than 1 GiB, else ValueError."""
    size = path.stat().st_size
    if not path.is_file() or size > _LARGEST_BYTES:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
    return path.read_text(encoding="utf-8")
