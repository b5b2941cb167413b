"""Pack columns of numbers for a page: little-endian, compressed by gzip, as text in base64."""

from __future__ import annotations

import base64
import gzip

from nsysprof.arrays import Int64s


def pack_column(column: Int64s, dtype: str) -> str:
    """Return a column as text that the page's script unpacks.

    dtype: the numpy type, such as "<f8".
    """
    return base64.b64encode(gzip.compress(column.astype(dtype).tobytes(), 6, mtime=0)).decode()
