"""What is read of a folder, and what of it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.source import BENCH, CAPTURE, TRACE, clean_texts, read_source
from nsysprof.errors import TraceError, TraceForeignError, UsageError
from tests.bundle.hostile import HOME, TOKEN, write_trace


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "capture"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "nsys.txt").write_text(TOKEN)
    (folder / "nsys.nsys-rep").write_text(TOKEN)
    (folder / "ncu.ncu-rep").write_text(TOKEN)
    (folder / f"{TOKEN}.txt").write_text("mine")
    write_trace(folder / "nsys.sqlite")
    step = {"name": "nsys", "argv": [f"{HOME}/bin/nsys", "-o", f"{HOME}/x"], "exit_code": 0}
    manifest = {"steps": [step], "notes": [{"text": f"token {TOKEN}"}], "user": "wonderer", "profiler": "nsys"}
    manifest["environment"] = {"gpu_name": "NVIDIA H200", "hostname": "wonderland-9"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "samples.json").write_text(json.dumps({"samples": {"RUN::math::S1": {"values": [1.5, 2.5]}}}))
    (folder / "results.csv").write_text(f"backend,reason\nmath,no {HOME}/x/lib.so\n")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_a_capture(capture: Path, work: Path) -> None:
    source = read_source(capture, None, work)
    assert source.kind == CAPTURE
    assert source.trace == capture / "nsys.sqlite"
    assert {TOKEN, "wonderer", "wonderland-9", "alice", HOME} <= source.secrets
    assert source.public == {"NVIDIA H200"}
    assert source.left_behind.keys() == {"logs", "nsys.nsys-rep", "ncu.ncu-rep", "1 other file"}
    written, left_out = clean_texts(source, NameTokens(), work)
    assert sorted(written) == ["manifest.json", "results.csv", "samples.json"]
    manifest = json.loads(written["manifest.json"].read_text())
    assert manifest["steps"] == [{"name": "nsys", "argv": ["nsys", "-o", "<argument>"], "exit_code": 0}]
    assert manifest["notes"] == [{"text": "token <redacted>"}]
    assert written["results.csv"].read_text() == "backend,reason\nmath,no <path-1>\n"
    assert left_out == {"manifest.json": {"field user", "environment field hostname"}}
    for path in written.values():
        assert TOKEN not in path.read_text()


def test_a_bench_and_a_trace(tmp_path: Path, work: Path) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "samples.json").write_text("{}")
    assert read_source(folder, None, work).kind == BENCH
    source = read_source(write_trace(tmp_path / "t.sqlite"), None, work)
    assert (source.kind, source.texts) == (TRACE, {})
    assert TOKEN in source.secrets


def test_a_variable_with_the_name_of_the_gpu_is_no_secret(tmp_path: Path, work: Path) -> None:
    gpu = "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'GPU_NAME=\"NVIDIA H200\"')"
    source = read_source(write_trace(tmp_path / "t.sqlite", gpu), None, work)
    assert "NVIDIA H200" not in source.secrets


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("manifest.json", b"{", "damaged"),
        ("manifest.json", b"[1]", "not a JSON object"),
        ("manifest.json", b"\xff\xfe", "not UTF-8"),
        ("samples.json", b"[" * 50_000, "damaged"),
        ("results.csv", b"\xff", "not UTF-8"),
    ],
)
def test_a_damaged_file_is_said(capture: Path, work: Path, name: str, content: bytes, words: str) -> None:
    (capture / name).write_bytes(content)
    with pytest.raises(TraceError, match=words):
        read_source(capture, None, work)


def test_what_is_no_source(tmp_path: Path, capture: Path, work: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        read_source(tmp_path / "absent", None, work)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="contains no trace"):
        read_source(tmp_path / "empty", None, work)
    (tmp_path / "text.sqlite").write_text("hello")
    with pytest.raises(TraceForeignError):
        read_source(tmp_path / "text.sqlite", None, work)
    (tmp_path / "x.zip").write_bytes(b"PK")
    (capture / "bundle.json").write_text("{}")
    for bundle in (tmp_path / "x.zip", capture):
        with pytest.raises(UsageError, match="is a bundle already"):
            read_source(bundle, None, work)
