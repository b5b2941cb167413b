"""One program in the schema of every nsys from 2020.3 to 2026.2: the same numbers wherever the schema can hold them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nsysprof.app.analyze import analyze_trace
from tests.builders.build_trace import OTHER_PID, OTHER_TID, PID, TID, TraceBuilder
from tests.builders.generations import GENERATIONS, VERSIONS, schema
from tests.builders.record_with_nsys import record_nvtx
from tests.conftest import REPOSITORY
from tests.trace.numbers import codes, numbers, records

WITH_MEMORY = GENERATIONS[GENERATIONS.index("2022.2") :]
WITH_GRAPH_TRACE = GENERATIONS[GENERATIONS.index("2024.2") :]
WITH_DEVICE_MAP = GENERATIONS[GENERATIONS.index("2025.3") :]


def two_boards(generation: str, *, lazy: bool = True) -> TraceBuilder:
    """Two boards whose CUDA ordinals are not their ids."""
    builder = TraceBuilder(generation, lazy=lazy)
    builder.gpu(0, "second", cuda=1)
    builder.gpu(1, "first", cuda=0)
    return builder


def tiny_program(generation: str, *, lazy: bool = True) -> TraceBuilder:
    """Two processes, each on a device of its own, whose correlation ids repeat."""
    builder = two_boards(generation, lazy=lazy)
    for pid in (PID, OTHER_PID):
        builder.cuda_device(1, 0, pid)
        builder.cuda_device(0, 1, pid)
    builder.range(1_000, 2_000, "step", kind=60)
    builder.range(1_000, 1_500, "forward", registered=True)
    builder.range(1_500, 2_000, "backward", tid=OTHER_TID)
    builder.range(1_000, None, "a mark", kind=34)
    builder.range(3_000, 4_000, "other", tid=OTHER_PID | 1)
    builder.launch(1_100, 1, name="gemm")
    builder.launch(1_600, 2, name="gemm_backward", tid=OTHER_TID)
    builder.launch(3_100, 1, name="reduce", tid=OTHER_PID | 1, device=1)
    builder.launch(3_300, 2, name="reduce", tid=OTHER_PID | 1, device=1)
    for at, correlation in ((1_100, 1), (1_600, 2)):
        builder.call(at, at + 10, correlation, tid=TID if correlation == 1 else OTHER_TID, event_class=67)
    builder.call(1_300, 1_310, 3, "cudaMemcpyAsync_v3020")
    builder.copy(1_320, 1_340, 3, 4_096, kind=1)
    builder.call(3_500, 3_510, 4, "cuMemsetD8Async", tid=OTHER_PID | 1, event_class=1)
    builder.fill(3_520, 3_530, 4, 512, device=1, pid=OTHER_PID)
    builder.allocate(1_050, 0xA000, 1_000)
    builder.allocate(1_060, 0xB000, 10, kind=1)
    builder.free(1_900, 0xA000)
    builder.allocate(3_050, 0xA000, 300, pid=OTHER_PID, device=1)
    builder.allocate(3_060, 0xC000, 200, pid=OTHER_PID, device=1)
    return builder


@pytest.mark.parametrize(
    ("generation", "lazy"), [*((name, True) for name in GENERATIONS), *((name, False) for name in GENERATIONS[::4])]
)
def test_the_same_program_has_the_same_numbers(tmp_path: Path, generation: str, lazy: bool) -> None:
    analysis = analyze_trace(tiny_program(generation, lazy=lazy).write(tmp_path / "t.sqlite"))
    found = numbers(analysis)
    assert {key: found[key] for key in ("kernel_count", "launch_count", "graph_launch_count")} == {
        "kernel_count": 4, "launch_count": 4, "graph_launch_count": 0,
    }  # fmt: skip
    assert (found["kernel_total_ns"], found["gpu_busy_ns"], found["gpu_span_ns"]) == (200, 230, 2_330)
    assert found["memcpy_bytes"] == {"[CUDA memcpy Host-to-Device]": 4_096}
    assert found["memset_bytes"] == 512
    assert found["work_by_device"] == {"first": 3, "second": 3}
    assert found["coverage"] == {
        "kernels": 4, "attributed_kernels": 4, "launches": 4, "launches_without_gpu_record": 0, "reasons": {},
        "adopted_kernels": 0, "captured_kernels": 0, "graph_kernels": 0, "graph_reasons": {},
    }  # fmt: skip
    assert [(row["name"], row["instances"]) for row in found["kernels"]] == [
        ("reduce(int)", 2), ("gemm(int)", 1), ("gemm_backward(int)", 1),
    ]  # fmt: skip
    columns = ("range", "style", "kernel_count", "launch_count", "gpu_busy_ns", "memcpy_bytes", "memset_bytes")
    assert [tuple(row[column] for column in columns) for row in found["ranges"]] == [
        ("step", "StartEnd", 2, 2, 120, 4_096, 0),
        ("forward", "PushPop", 1, 1, 70, 4_096, 0),
        ("backward", "PushPop", 1, 1, 50, 0, 0),
        ("other", "PushPop", 2, 2, 110, 0, 512),
    ]
    assert [(row["name"], row["calls"]) for row in found["api"]] == [
        ("cudaLaunchKernel", 4), ("cudaMemcpyAsync", 1), ("cuMemsetD8Async", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("generation", GENERATIONS)
def test_peak_memory_is_by_board_or_unknown_with_a_note_and_versions_are_those_that_the_export_names(
    tmp_path: Path, generation: str
) -> None:
    analysis = analyze_trace(tiny_program(generation).write(tmp_path / "t.sqlite"))
    found = numbers(analysis)
    peaks = [row["peak_vram_bytes"] for row in found["ranges"]]
    if generation in WITH_MEMORY:
        assert found["peak_vram_bytes"] == {"first": 1_000, "second": 500}
        assert peaks == [1_000, 1_000, 1_000, 500]
        assert "no-memory-usage" not in codes(analysis)
    else:
        assert found["peak_vram_bytes"] is None
        assert peaks == [None] * 4
        assert "no-memory-usage" in codes(analysis)
    expected = VERSIONS[generation][1:] if generation in VERSIONS else (None, None)
    assert (analysis.trace.nsys_version, analysis.trace.schema_version) == expected


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_graph_recorded_as_a_whole_has_unknown_kernels(tmp_path: Path, generation: str) -> None:
    """Before 2024.2 no table holds the replay, so its GPU time is unknown too."""
    builder = two_boards(generation)
    builder.launch(0, 1)
    builder.call(1_000, 1_010, 2, "cudaGraphLaunch_v10000")
    builder.graph(1_100, 1_400, 2)
    builder.range(900, 1_500, "replay")
    analysis = analyze_trace(builder.write(tmp_path / "t.sqlite"))
    whole = generation in WITH_GRAPH_TRACE
    totals, (row,) = analysis.totals, records(analysis.ranges)
    assert (totals.kernel_count, totals.kernel_total_ns) == (None, None)
    assert totals.gpu_busy_ns == (350 if whole else None)
    assert (totals.launch_count, totals.graph_launch_count) == (2, 1)
    assert (row["kernel_count"], row["gpu_busy_ns"]) == (None, 300 if whole else None)
    assert "graph-mode" in codes(analysis)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_graph_recorded_by_node_has_all_kernels_of_its_one_launch(tmp_path: Path, generation: str) -> None:
    """CUDA_GRAPH_EVENTS changed its meaning in 2024.2: nodes before, graphs since. Neither is GPU work."""
    builder = two_boards(generation)
    builder.call(1_000, 1_010, 2, "cudaGraphLaunch_v10000")
    for node in (1, 2, 3):
        builder.kernel(1_000 + 100 * node, 1_050 + 100 * node, 2, node=node)
        builder.put("CUDA_GRAPH_EVENTS", start=10, end=20, globalTid=TID, graphNodeId=node, graphId=1)
    totals = analyze_trace(builder.write(tmp_path / "t.sqlite")).totals
    assert (totals.kernel_count, totals.launch_count, totals.graph_launch_count) == (3, 1, 1)
    assert (totals.kernel_total_ns, totals.gpu_span_ns) == (150, 250)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_was_not_traced_is_null_and_not_zero(tmp_path: Path, generation: str) -> None:
    """A full export has every table, filled or not: the numbers are those of the lazy export all the same."""
    builders = [TraceBuilder(generation, lazy=lazy) for lazy in (True, False)]
    lazy, full = (
        analyze_trace(builder.write(tmp_path / f"{number}.sqlite")) for number, builder in enumerate(builders)
    )
    ignored = {"coverage": None}  # next test
    assert {**numbers(lazy), **ignored} == {**numbers(full), **ignored}
    assert numbers(lazy)["kernel_count"] is numbers(lazy)["peak_vram_bytes"] is None
    assert codes(lazy) == codes(full) >= {"no-gpu"}


def test_calls_that_were_not_traced_are_unknown_in_full_exports_too(tmp_path: Path) -> None:
    analysis = analyze_trace(TraceBuilder("2024.2", lazy=False).write(tmp_path / "t.sqlite"))
    assert analysis.coverage.launches is None


def test_ranges_without_recorded_calls_have_unknown_gpu_work(tmp_path: Path) -> None:
    """Kernels meet ranges by the calls that launched them; an export may leave the calls out."""
    builder = TraceBuilder("2024.2")
    builder.gpu(0, cuda=0)
    builder.range(0, 1_000, "step")
    builder.kernel(100, 200, 1)
    analysis = analyze_trace(builder.write(tmp_path / "t.sqlite"))
    (row,) = records(analysis.ranges)
    assert (analysis.totals.kernel_count, analysis.totals.launch_count) == (1, None)
    assert (row["kernel_count"], row["launch_count"], row["gpu_busy_ns"]) == (None, None, None)


@pytest.mark.parametrize("generation", WITH_DEVICE_MAP)
def test_ordinals_restart_in_every_process(tmp_path: Path, generation: str) -> None:
    """With CUDA_VISIBLE_DEVICES each rank has one board, and calls it device 0."""
    builder = TraceBuilder(generation)
    for board, pid in ((0, PID), (1, OTHER_PID)):
        builder.gpu(board, f"board {board}", cuda=board)
        builder.cuda_device(board, 0, pid)
        builder.launch(1_000, 1, tid=pid | 1)
        builder.allocate(500, 0xA000, 1_000 + board, pid=pid)
    found = numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))
    assert found["gpu_busy_ns"] == 100, "two boards that work at the same time"
    assert found["work_by_device"] == {"board 0": 1, "board 1": 1}
    assert found["peak_vram_bytes"] == {"board 0": 1_000, "board 1": 1_001}


@pytest.mark.parametrize("generation", WITH_DEVICE_MAP)
def test_the_map_of_one_process_goes_before_the_ordinal_of_the_board(tmp_path: Path, generation: str) -> None:
    builder = TraceBuilder(generation)
    builder.gpu(0, "unused", cuda=0)
    builder.gpu(1, "used", cuda=1)
    builder.cuda_device(1, 0)
    builder.launch(0, 1)
    assert numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))["work_by_device"] == {"used": 1}


def test_a_map_without_a_board_falls_back_on_the_ordinal(tmp_path: Path) -> None:
    """gpuId is NULL where nsys could not tell the board."""
    builder = two_boards("2025.3")
    builder.cuda_device(None, 0)
    builder.cuda_device(None, 1)
    builder.launch(0, 1, device=1)
    assert numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))["work_by_device"] == {"second": 1}


def test_ids_stand_for_ordinals_where_none_were_kept(tmp_path: Path) -> None:
    """cuDevice is NULL in newer exports of old reports."""
    builder = TraceBuilder("2022.4")
    builder.gpu(0, "zero")
    builder.gpu(1, "one")
    builder.launch(0, 1, device=1)
    assert numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))["work_by_device"] == {"one": 1}


def test_a_board_without_a_name_is_not_called_none(tmp_path: Path) -> None:
    builder = TraceBuilder("2022.4")
    builder.gpu(0, None, cuda=0)
    builder.launch(0, 1)
    (device,) = analyze_trace(builder.write(tmp_path / "t.sqlite")).devices
    assert device.name == "GPU 0"


def test_the_oldest_exports_know_the_number_of_multiprocessors(tmp_path: Path) -> None:
    (first, _second) = analyze_trace(tiny_program("2020.3").write(tmp_path / "t.sqlite")).devices
    assert first.sm_count == 132


@pytest.mark.parametrize(
    ("generation", "names"),
    [
        ("2022.4", ["sdpa22"]),
        ("2023.4", ["sdpa23"]),
        ("2025.3", ["sdpa", "mem", "mp", "graph_node", "ddp_rank0", "gm10k"]),
    ],
)
def test_the_tables_of_a_generation_are_those_of_its_real_traces(
    trace_path: Callable[[str], Path], generation: str, names: list[str]
) -> None:
    compared = set()
    for name in names:
        compared |= compare_with_real(trace_path(name), generation)
    assert {"StringIds", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "TARGET_INFO_GPU"} <= compared


def compare_with_real(path: Path, generation: str) -> set[str]:
    """Assert that the file's tables are as the generation has them; return the names of those compared."""
    listed = {table for each in GENERATIONS for table in schema(each)}
    database = sqlite3.connect(path.as_uri() + "?mode=ro", uri=True)
    names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in names & listed:
        assert name in schema(generation), f"{path.name} has {name}"
        real = {
            column: kind + " NOT NULL" * required + " PRIMARY KEY" * bool(key)
            for _, column, kind, required, _, key in database.execute(f"PRAGMA table_info({name})")
        }
        assert list(schema(generation)[name].items()) == list(real.items()), name
    database.close()
    return names & listed


# The one that CI has, and those that scripts/install_nsys.py .nsys-VERSION --version VERSION puts beside it.
REAL = ["", *sorted(str(path) for path in REPOSITORY.glob(".nsys-*/bin/nsys"))]
# A process that ends at once may end before nsys has set up its own thread.
PROGRAM = """
import time
from nsysprof.workload.recording.nvtx_ranges import annotate
with annotate("RUN::math::S8"):
    for _ in range(3):
        with annotate("inner"):
            pass
time.sleep(0.5)
"""


@pytest.mark.nsys
@pytest.mark.parametrize("other", REAL, ids=[Path(path).parents[1].name if path else "NSYSPROF_NSYS" for path in REAL])
def test_real_exports_have_these_tables_and_these_numbers(
    tmp_path: Path, request: pytest.FixtureRequest, other: str
) -> None:
    nsys = Path(other) if other else request.getfixturevalue("nsys")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    report, _ = record_nvtx(nsys, tmp_path, [sys.executable, "-c", PROGRAM], env=environment)
    version = subprocess.run([nsys, "--version"], check=True, capture_output=True, text=True).stdout
    generation = next((each for each in GENERATIONS if f" {each}." in version), None)
    for lazy in ("true", "false"):
        path = tmp_path / f"lazy-{lazy}.sqlite"
        export = [nsys, "export", "--type=sqlite", f"--lazy={lazy}", "-o", path, report]
        subprocess.run(export, check=True, capture_output=True)
        analysis = analyze_trace(path)
        rows = [(row["range"], row["style"], row["instances"]) for row in records(analysis.ranges)]
        assert sorted(rows) == [
            ("RUN::math::S8", "PushPop", 1), ("RUN::math::S8", "StartEnd", 1),
            ("inner", "PushPop", 3), ("inner", "StartEnd", 3),
        ]  # fmt: skip
        assert (analysis.totals.kernel_count, analysis.totals.peak_vram_bytes) == (None, None)
        assert "no-gpu" in codes(analysis)
        if generation in VERSIONS:
            assert (analysis.trace.nsys_version or "").startswith(f"{generation}.")
            assert analysis.trace.schema_version == VERSIONS[generation][2]
            compared = compare_with_real(path, generation)
            assert lazy == "true" or compared == set(schema(generation)), "a full export has every table"
