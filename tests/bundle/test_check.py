"""The last search lets the rebuilt form of every committed trace through, and a name of the user's in none."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from nsysprof.bundle.archive import write_archive
from nsysprof.bundle.check import check_bundle
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.sanitize import SanitizeOptions, sanitize_trace
from nsysprof.bundle.source import read_source
from nsysprof.bundle.verify import SecretLeakError

# The others hold no kind of row that these do not; all are bundled whole by a slow test.
TRACES = ("ddp_rank0", "graph_node", "h200-ranges/nccl", "managed", "mem", "mp", "pools", "sdpa", "sdpa23", "two_gpus")


def share(trace: Path, folder: Path, change: str = "") -> None:
    """Rebuild a trace without the user's names, change the result with SQL, and search it as a bundle is searched."""
    source, names, target = read_source(trace, None, folder), NameTokens(), folder / "nsys.sqlite"
    sanitize_trace(trace, target, SanitizeOptions(names))
    if change:
        with sqlite3.connect(target) as connection:
            connection.execute(change)
        connection.close()
    (folder / "nsys.sqlite.xz").write_bytes(lzma.compress(target.read_bytes(), preset=0))
    (folder / "clean").write_text("clean")
    (folder / "work").mkdir()
    write_archive(folder / "a.zip", {"nsys.sqlite.xz": folder / "nsys.sqlite.xz"}, "title", {})
    check_bundle(source, [target], folder / "a.zip", folder / "clean", "title", names, folder / "work")


@pytest.mark.parametrize("name", TRACES)
def test_nothing_in_a_rebuilt_trace_is_taken_for_a_name_of_the_user(
    trace_path: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    share(trace_path(name), tmp_path)


def test_a_field_of_a_payload_that_is_not_nccls_is_refused(trace_path: Callable[[str], Path], tmp_path: Path) -> None:
    changed = "UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET name = 'acme rank' WHERE name = 'Rank'"
    with pytest.raises(SecretLeakError, match="1 names that are not on the list"):
        share(trace_path("ddp_rank0"), tmp_path, changed)
