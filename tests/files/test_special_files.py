"""Folders with pipes and links to devices where files should be: nothing waits for them or reads them for ever."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.app.bundle import bundle
from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.errors import NsysprofError, TraceError
from nsysprof.files.plain_file import FileHeader, read_json
from nsysprof.trace.open import open_trace
from tests.builders.build_trace import TraceBuilder
from tests.cli.planted import make_capture

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["manifest.json", "results.csv", "samples.json", "counters.csv", "nsys.sqlite"])
def test_a_capture_folder(tmp_path: Path, kind: str, name: str) -> None:
    folder = make_capture(tmp_path / "capture")
    (folder / name).unlink(missing_ok=True)
    KINDS[kind](folder / name)
    try:
        analyze(AnalyzeRequest((folder,), out=tmp_path / "out", figures=False))
    except NsysprofError as error:
        assert error.next_step
    else:
        assert name in ("counters.csv", "samples.json"), "the others are needed"
    with contextlib.suppress(NsysprofError):
        bundle(BundleRequest(folder, tmp_path / "b.zip"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["t.sqlite", "t.json", "t.sqlite.xz", "t.nsys-rep", "rank1.sqlite"])
def test_a_trace(tmp_path: Path, kind: str, name: str) -> None:
    KINDS[kind](tmp_path / name)
    with pytest.raises(TraceError) as caught:
        analyze(AnalyzeRequest((tmp_path / name,), out=tmp_path / "out", figures=False))
    assert caught.value.next_step
    with pytest.raises(TraceError, match="not a plain file"), open_trace(tmp_path / name):
        pass
    with pytest.raises(TraceError, match="not a plain file"):
        read_json(tmp_path / name, FileHeader, kind="a manifest", advice="Look.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_ranks_and_one_of_tables(tmp_path: Path, kind: str) -> None:
    builder = TraceBuilder()
    builder.launch(0, 1)
    (tmp_path / "ranks").mkdir()
    builder.write(tmp_path / "ranks" / "rank0.sqlite")
    KINDS[kind](tmp_path / "ranks" / "rank1.sqlite")
    (tmp_path / "tables").mkdir()
    KINDS[kind](tmp_path / "tables" / "StringIds.parquet")
    for folder in ("ranks", "tables"):
        try:
            analyze(AnalyzeRequest((tmp_path / folder,), out=tmp_path / f"{folder}-out", figures=False))
        except NsysprofError as error:
            assert error.next_step
