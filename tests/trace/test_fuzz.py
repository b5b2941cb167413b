"""Damaged and arbitrary traces: a result or an error of ours, no hang, memory within a bound, the input as it was."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysprof.app.analyze import analyze_trace
from nsysprof.errors import NsysprofError
from tests.builders.build_trace import OTHER_PID, PID, TID, TraceBuilder
from tests.builders.generations import GENERATIONS, schema
from tests.conftest import REPOSITORY
from tests.trace.numbers import codes, numbers

SCRIPT = REPOSITORY / "tests/builders/fuzz_traces.py"
# The size of a trace makes its analysis slow and its damage no different.
SMALL = [path for path in sorted((REPOSITORY / "traces").glob("*.sqlite.xz")) if path.stat().st_size < 150_000]


def fuzz(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, SCRIPT, "--json", *arguments]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == int(bool(result["failures"]))
    return result


@pytest.fixture(scope="module", params=[20, pytest.param(200, marks=pytest.mark.slow)])
def damaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Damaged real traces, of small ones; `tests/builders/fuzz_traces.py` alone makes 2000 of all."""
    files: int = request.param
    kept = tmp_path_factory.mktemp("fuzz") / "kept"
    return {"wanted": files, **fuzz(*SMALL, "--files", files, "--seed", 2, "--reports", "--keep", kept)}


def test_damaged_traces_end_in_a_result_or_an_error_of_ours(damaged: dict[str, Any]) -> None:
    assert [failure for failure in damaged["failures"] if failure["kind"] != "nonsense"] == []
    assert damaged["files"] == sum(damaged["outcomes"].values()) == damaged["wanted"]
    assert min(damaged["outcomes"]["read"], damaged["outcomes"]["refused"]) > damaged["wanted"] / 10, "both are tested"


def test_no_result_of_a_damaged_trace_is_impossible(damaged: dict[str, Any]) -> None:
    assert [failure for failure in damaged["failures"] if failure["kind"] == "nonsense"] == []


@pytest.mark.slow
def test_both_readers_read_the_same_of_damaged_traces(tmp_path: Path) -> None:
    """Of small real traces; `fuzz_traces.py --readers --files 5000` reads more, and test_readers_agree one."""
    more = ("--seconds", 120, "--memory", 1024, "--keep", tmp_path)
    result = fuzz(*SMALL, "--readers", "--files", 100, "--seed", 4, *more)
    assert result["failures"] == []
    assert result["outcomes"]["read"] > 30


FAULTS = {
    "read": "pass",
    "refused": "raise NsysprofError('no', 'next')",
    "nonsense": "raise NsysprofError('no next step')",
    "exception": "raise KeyError('x')",
    "signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hang": "time.sleep(60)",
    "memory": "bytearray(1 << 30)",
    "changed": "path.write_bytes(b'other')",
    "littered": "path.with_name('t.sqlite-wal').touch()",
}


def faulty_package(folder: Path, fault: str) -> Path:
    """Return a package in the place of ours that does `fault` on every file but the whole one it warms up with."""
    package = folder / "nsysprof"
    for part in (package, package / "app", package / "report"):
        part.mkdir()
        (part / "__init__.py").touch()
    (package / "errors.py").write_text(
        "class NsysprofError(Exception):\n"
        "    def __init__(self, text, next_step=''):\n        self.text, self.next_step = text, next_step\n"
    )
    (package / "report" / "write.py").write_text("write_analysis = None\n")
    (package / "app" / "export.py").write_text("read_content = None\n")
    (package / "app" / "analyze.py").write_text(
        "import os, signal, time\nfrom types import SimpleNamespace\nfrom nsysprof.errors import NsysprofError\n"
        "from dataclasses import dataclass\nimport pandas as pd\n"
        "@dataclass\nclass Totals:\n    memcpy_bytes = peak_vram_bytes = None\n"
        "def analyze_trace(path):\n"
        f"    if path.name == 't.sqlite':\n        {fault}\n"
        "    tables = dict.fromkeys(['kernels', 'ranges', 'range_kernels', 'api', 'memops'], pd.DataFrame())\n"
        "    coverage = SimpleNamespace(kernels=0, attributed_kernels=0, reasons={})\n"
        "    return SimpleNamespace(coverage=coverage, totals=Totals(), **tables)\n"
    )
    return folder


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    builder = TraceBuilder("2025.3")
    builder.launch(0, 1)
    return builder.write(tmp_path / "trace.sqlite")


@pytest.mark.parametrize(
    "kind", [kind if kind in ("read", "exception", "hang", "changed") else pytest.param(kind, marks=pytest.mark.slow)
             for kind in FAULTS]
)  # fmt: skip
def test_the_fuzzer_sees_each_fault(tmp_path: Path, sound: Path, kind: str) -> None:
    package = faulty_package(tmp_path, FAULTS[kind])
    result = fuzz(sound, "--files", 2, "--jobs", 1, "--seconds", 1, "--package", package, "--keep", tmp_path / "kept")
    assert result["outcomes"] == {kind: 2}
    kept = sorted(path.name for path in tmp_path.glob("kept/*"))
    assert kept == ([] if kind in ("read", "refused") else [f"{index}-{kind}.sqlite" for index in (0, 1)])


def test_a_file_of_a_run_can_be_made_again(tmp_path: Path, sound: Path) -> None:
    """Its number and the seed say what it holds; without that no failure could be looked at."""
    package = faulty_package(tmp_path, FAULTS["exception"])
    contents: list[bytes] = []
    for which in (("--files", 8), ("--only", 6)):
        keep = tmp_path / f"kept{len(contents)}"
        fuzz(sound, *which, "--seed", 5, "--jobs", 2, "--package", package, "--keep", keep)
        contents.append((keep / "6-exception.sqlite").read_bytes())
    assert contents[0] == contents[1] != sound.read_bytes()


# Few numbers, so that rows meet, and all others.
INTEGERS = st.one_of(
    st.sampled_from([0, 1, 2, 7, 59, 60, 67, 75, 1_000, 2_000, PID, TID, OTHER_PID, 2**61, 2**62, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
TEXTS = st.one_of(st.sampled_from(["cudaLaunchKernel_v7000", "cudaGraphLaunch", "RUN::math::S8"]), st.text(max_size=30))
CELLS = st.one_of(INTEGERS, INTEGERS, st.none(), st.floats(), TEXTS, st.binary(max_size=9))
TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_GPU_MEMORY_USAGE_EVENTS", "NVTX_EVENTS",
    "TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_CUDA_DEVICE", "META_DATA_CAPTURE", "META_DATA_EXPORT",
    "EXPORT_META_DATA", "DIAGNOSTIC_EVENT", "GPU_METRICS", "TARGET_INFO_GPU_METRICS",
)  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Rows of arbitrary cells, as far as the constraints of a generation take them."""
    generation = draw(st.sampled_from(GENERATIONS))
    builder = TraceBuilder(generation, lazy=draw(st.booleans()))
    for text in draw(st.lists(TEXTS, max_size=8)):
        builder.text(text)
    there = [table for table in TABLES if table in schema(generation)]
    for table in draw(st.lists(st.sampled_from(there), max_size=12)):
        columns = draw(st.lists(st.sampled_from(list(schema(generation)[table])), max_size=12, unique=True))
        cells = {name: draw(CELLS) for name in columns}
        required = [name for name in columns if "NOT NULL" in schema(generation)[table][name]]
        builder.put(
            table, **{name: cell for name, cell in cells.items() if name not in required or not _becomes_null(cell)}
        )
    return builder


def _becomes_null(cell: object) -> bool:
    """SQLite stores a float that is no number as NULL."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


@settings(max_examples=30, deadline=None)
@given(traces())
def test_arbitrary_values_end_in_a_result_or_an_error_of_ours(builder: TraceBuilder) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = builder.write(Path(folder) / "t.sqlite")
        before = hashlib.sha256(path.read_bytes()).digest()
        try:
            analysis = analyze_trace(path)
        except NsysprofError as error:
            assert error.next_step
        else:
            coverage = analysis.coverage
            assert coverage.kernels == coverage.attributed_kernels + sum(coverage.reasons.values())
            is_graph = analysis.kernels["name"].str.startswith("[CUDA graph")  # replays recorded as wholes
            assert coverage.kernels == analysis.kernels.loc[~is_graph, "instances"].sum()
        assert hashlib.sha256(path.read_bytes()).digest() == before
        assert [entry.name for entry in Path(folder).iterdir()] == [path.name]


@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 9)), max_size=20))
def test_a_sound_trace_has_the_same_numbers_in_every_schema(launches: list[tuple[int, int, int]]) -> None:
    """Whatever the program did, as long as every generation can hold it."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for generation in ("2020.3", "2022.4", "2024.2", "2026.2"):
            builder = TraceBuilder(generation)
            builder.gpu(0, cuda=0)
            builder.range(0, 500_000, "half")
            for correlation, (at, duration, name) in enumerate(launches, start=1):
                builder.call(at, at + 10, correlation)
                builder.kernel(at + 20, at + 20 + duration, correlation, f"kernel{name}")
            analysis = analyze_trace(builder.write(Path(folder) / f"{generation}.sqlite"))
            found.append((numbers(analysis), codes(analysis)))
        assert all(each == found[0] for each in found)
        assert (found[0][0]["kernel_total_ns"] or 0) == sum(duration for _, duration, _ in launches)
