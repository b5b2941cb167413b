"""The same capture has the same findings through every door."""

from __future__ import annotations

import csv
import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pytest

import nsysprof
from nsysprof.app.agents.trace_tools import TraceTools
from nsysprof.app.analyze import TraceResult, analyze, analyze_trace
from nsysprof.app.bundle import bundle
from nsysprof.app.inputs.compare_inputs import read_input
from nsysprof.app.inputs.reading_requests import AnalyzeRequest, BundleRequest
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, assemble
from nsysprof.files.plain_file import encode_json, scratch_folder
from nsysprof.results.analysis import COSTS, HOST_FINDINGS, STEPS, RangeCost, RecordingCosts
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a decode whose steps took twice as long while they were recorded."""
    folder = tmp_path_factory.mktemp("held") / "recording-1"
    folder.mkdir()
    packed = REPOSITORY / "traces/h200-programs/decode.sqlite.xz"
    (folder / "nsys.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    cost = RangeCost(STEPS, 20, 20, 2_000_000, 1_000_000, 2.0, 1.9, 2.1, is_distorted=True)
    (folder / COSTS).write_bytes(encode_json(RecordingCosts(1, (cost,))))
    return folder


def codes(analysis: Any) -> list[str]:
    return [item.code for item in analysis.findings.items]


def test_findings_that_recording_distorts_are_left_out_behind_every_door(capture: Path, tmp_path: Path) -> None:
    alone = codes(analyze_trace(capture / "nsys.sqlite"))
    assert set(alone) & set(HOST_FINDINGS), "the trace by itself accuses the host"
    kept = codes(assemble(capture, capture / "nsys.sqlite").analysis)
    assert kept == [code for code in alone if code not in HOST_FINDINGS]
    result = analyze(AnalyzeRequest((capture,), out=tmp_path / "out", figures=False))
    assert isinstance(result, TraceResult)
    assert codes(result.analysis) == kept
    assert codes(nsysprof.analyze(capture, out=tmp_path / "api", figures=False).analysis) == kept
    side = read_input(capture, None, lambda _text: None)
    assert side.savings is not None
    assert sorted({code for code, _range in side.savings}) == sorted(set(kept))
    shared = bundle(BundleRequest(capture, out=tmp_path / "shared.zip", max_bytes=10**9))
    assert "analysis/findings.csv" in shared.sizes
    with zipfile.ZipFile(tmp_path / "shared.zip") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("analysis/findings.csv"))
        assert [row["code"] for row in csv.DictReader(io.StringIO(archive.read(name).decode()))] == kept
    received = analyze(AnalyzeRequest((tmp_path / "shared.zip",), out=tmp_path / "received", figures=False))
    assert isinstance(received, TraceResult)
    assert codes(received.analysis) == kept
    listed = TraceTools(capture.parent)
    assert [row["code"] for row in listed.findings(capture.name)["findings"]] == kept


def test_a_part_of_a_capture_has_its_own_cases_and_nothing_about_the_whole() -> None:
    folder = REPOSITORY / "traces/h200-sdpa"
    with scratch_folder() as scratch:
        trace = resolve_input(folder, None, scratch)
        assembled = assemble(folder, trace, AnalysisOptions(range="RUN::math::S4096"))
    assert assembled.record is not None
    assert assembled.record.results["range"].tolist() == ["RUN::math::S4096"]
    assert assembled.record.results["kernel_count"].tolist() == [200]
    assert assembled.analysis.allocator is assembled.analysis.memory_owners is None
