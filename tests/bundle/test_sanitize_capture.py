"""A whole capture folder, one made by hand and one by a real nsys."""

from __future__ import annotations

import json
import lzma
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from nsysprof.bundle import sanitize_capture as module
from nsysprof.bundle.sanitize import sanitize_trace
from nsysprof.bundle.sanitize_capture import sanitize_capture
from nsysprof.bundle.verify import SecretLeakError, find_leaks, verify_sanitized
from nsysprof.errors import OutputError, TraceError
from tests.bundle.hostile import HOME, TOKEN, write_trace
from tests.conftest import REPOSITORY


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "capture"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "nsys.txt").write_text(TOKEN)
    (folder / "nsys.nsys-rep").write_text(TOKEN)
    write_trace(folder / "nsys.sqlite")
    step = {"name": "nsys", "argv": [f"{HOME}/bin/nsys", "-o", f"{HOME}/my project/x"], "exit_code": 0}
    (folder / "manifest.json").write_text(json.dumps({"steps": [step], "note": f"token {TOKEN}", "user": "alice"}))
    (folder / "samples.json").write_text(json.dumps([{"case": {"backend": "math"}, "values": [1.5, 2.5]}]))
    (folder / "results.csv").write_text(f"backend,reason\nmath,no {HOME}/x/lib.so\n")
    return folder


def test_a_capture_is_written_without_its_private_parts(capture: Path, tmp_path: Path) -> None:
    done = sanitize_capture(capture, tmp_path / "out")

    names = [path.name for path in done.files]
    assert names == ["manifest.json", "nsys.sqlite.xz", "results.csv", "samples.json"]
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    step = {"name": "nsys", "argv": ["nsys", "-o", "x"], "exit_code": 0}
    assert manifest == {"steps": [step], "note": "token <redacted>"}
    assert (tmp_path / "out/results.csv").read_text() == "backend,reason\nmath,no lib.so\n"
    assert (tmp_path / "out/samples.json").read_text().count("2.5") == 1
    plain = tmp_path / "plain.sqlite"
    plain.write_bytes(lzma.decompress((tmp_path / "out/nsys.sqlite.xz").read_bytes()))
    assert verify_sanitized(capture / "nsys.sqlite", plain) == []


def test_refusals(capture: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no capture folder"):
        sanitize_capture(tmp_path, tmp_path / "out")
    with pytest.raises(OutputError, match="not an empty folder"):
        sanitize_capture(capture, capture)
    (capture / "manifest.json").write_text("{")
    with pytest.raises(TraceError, match="damaged"):
        sanitize_capture(capture, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_leak_leaves_no_folder(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sanitize_json", lambda data, secrets: data)
    with pytest.raises(SecretLeakError, match=r"manifest\.json"):
        sanitize_capture(capture, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_script(capture: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(REPOSITORY / "scripts/sanitize_capture")]
    done = subprocess.run([*script, str(capture), str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "dropped: PROCESSES" in done.stdout
    again = subprocess.run([*script, str(capture), str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert again.returncode == OutputError.exit_code
    assert "not an empty folder" in again.stderr


@pytest.fixture(scope="module")
def real_trace(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program with two ranges under a real nsys, with a secret in its environment and in a range name."""
    folder = tmp_path_factory.mktemp("real")
    program = folder / "program.py"
    program.write_text(
        "from nsysprof.workload.nvtx_ranges import annotate\n"
        "import os\n"
        "with annotate('RUN::math::S1024'):\n"
        "    with annotate('token ' + os.environ['SECRET_TOKEN']):\n"
        "        with annotate('reading ' + os.path.abspath(__file__)):\n"
        "            print('printed', os.environ['SECRET_TOKEN'])\n"
    )
    profile = [str(nsys), "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", str(folder / "run")]
    export = [str(nsys), "export", "--type", "sqlite", "-o", str(folder / "run.sqlite"), str(folder / "run.nsys-rep")]
    environment = {**os.environ, "SECRET_TOKEN": TOKEN, "PYTHONPATH": str(REPOSITORY)}
    for command in ([*profile, sys.executable, str(program)], export):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run.sqlite"


@pytest.mark.nsys
def test_a_real_trace_holds_the_secret_and_its_rebuild_does_not(real_trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    target = tmp_path / "shared.sqlite"
    assert find_leaks(real_trace, [TOKEN]), "the source must hold the secret, or this test proves nothing"

    report = sanitize_trace(real_trace, target)

    assert TOKEN.encode() not in target.read_bytes()
    assert str(real_trace.parent).encode() not in target.read_bytes()
    assert verify_sanitized(real_trace, target, [TOKEN, str(real_trace.parent)]) == []
    assert {"PROCESSES", "ProcessStreams", "TARGET_INFO_SYSTEM_ENV", "ThreadNames"} <= set(report.dropped_tables)
    names = _range_names(target)
    assert len(names) == len(_range_names(real_trace)) > 0
    assert "RUN::math::S1024" in names
    assert {"token <redacted>", "reading <path-1>"} <= names


@pytest.mark.nsys
def test_nsys_stats_reads_a_rebuilt_trace_as_it_reads_the_original(
    nsys: Path, real_trace: Path, tmp_path: Path
) -> None:
    pytest.importorskip("nvtx")
    target = tmp_path / "shared.sqlite"
    sanitize_trace(real_trace, target)
    assert _stats(nsys, target) == _stats(nsys, real_trace)


def _range_names(trace: Path) -> set[str]:
    connection = sqlite3.connect(trace)
    try:
        query = (
            "SELECT coalesce(s.value, e.text) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
            "WHERE e.eventType IN (59, 60)"
        )
        return {name for (name,) in connection.execute(query)}
    finally:
        connection.close()


def _stats(nsys: Path, trace: Path) -> list[str]:
    """Durations and counts of every range, without the names."""
    command = [str(nsys), "stats", "--report", "nvtx_sum", "--format", "csv", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    rows = [line.split(",")[:5] for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert rows, done.stdout + done.stderr
    return [",".join(row) for row in rows]
