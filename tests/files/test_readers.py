"""A folder whose run was killed, or goes on, is refused by all that read folders of ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.app.bundle import bundle
from nsysprof.app.compare import compare
from nsysprof.app.export import export
from nsysprof.app.inputs.reading_requests import BundleRequest, CompareRequest, ExportRequest, WhatIfRequest
from nsysprof.app.whatif import what_if
from nsysprof.errors import TraceError
from nsysprof.files.folder_state import STATE
from tests.builders.build_trace import TraceBuilder
from tests.cli.planted import make_capture


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "capture")


@pytest.fixture
def bench(tmp_path: Path, capture: Path) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    shutil.copy(capture / "samples.json", folder)
    return folder


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        builder = TraceBuilder()
        builder.launch(10 * rank, 1)
        builder.write(folder / f"rank{rank}.sqlite")
    return folder


READERS: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "analyze": ("capture", lambda folder, out: analyze(AnalyzeRequest((folder,), out=out))),
    "export": ("capture", lambda folder, out: export(ExportRequest(folder, chrome=out))),
    "whatif": ("capture", lambda folder, _: what_if(WhatIfRequest(folder, no_sync=("all",)))),
    "compare": ("capture", lambda folder, _: compare(CompareRequest((folder,), (folder,)))),
    "compare benches": ("bench", lambda folder, _: compare(CompareRequest((folder,), (folder,)))),
    "bundle": ("capture", lambda folder, out: bundle(BundleRequest(folder, out.with_suffix(".zip")))),
    "bundle of ranks": ("ranks", lambda folder, out: bundle(BundleRequest(folder, out.with_suffix(".zip")))),
    "analyze of ranks": ("ranks", lambda folder, out: analyze(AnalyzeRequest((folder,), out=out))),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_not_whole_is_refused(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kind, read = READERS[name]
    folder = request.getfixturevalue(kind)
    (folder / STATE).write_text(json.dumps({"kind": kind, "whole": False, "files": []}))
    with pytest.raises(TraceError, match="is incomplete") as caught:
        read(folder, tmp_path / "out")
    assert "--force" in caught.value.next_step
    assert not (tmp_path / "out").exists()
