"""Open any trace that the command line reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.capture.find_nsys import find_nsys
from nsysprof.trace import open as trace_open
from nsysprof.trace.locate import REPORTS, identity_of, resolve_input
from nsysprof.trace.open import Trace


@contextmanager
def open_trace(source: str | os.PathLike[str], *, nsys: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Open a trace read-only, for the length of a `with` block.

    source: whatever `nsysprof analyze` takes: an nsys .sqlite, that file compressed (.xz, .gz, .zst), a .nsys-rep, a
    folder of nsys' Parquet files, Kineto's JSON, a capture folder, a bundle. What has to be unpacked, exported or
    converted first goes to a temporary folder that ends with the block.
    nsys: the nsys that exports a .nsys-rep; searched for when not given.

    Raises NsysprofError (see nsysprof.errors) for what is missing, damaged or no trace; str(error) says what and
    error.next_step what to do. Tables that are damaged are left out, with a Note in trace.notes.
    """
    path = Path(source)
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        exporter = find_nsys(None if nsys is None else Path(nsys)) if path.suffix in REPORTS else None
        found = resolve_input(path, exporter, Path(scratch))
        with trace_open.open_trace(found, identity_of(path, found)) as trace:
            yield trace
