"""Values that no nsys writes and damage does: left out with a note, and never part of a sum."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.results.analysis import Analysis
from tests.builders.build_trace import TraceBuilder
from tests.trace.numbers import codes, numbers, records


@pytest.fixture
def builder() -> TraceBuilder:
    """Return a trace with a launch, a fill and an allocation that are sound."""
    made = TraceBuilder("2025.3")
    made.gpu(0, cuda=0)
    made.launch(1_000, 1)
    made.fill(2_000, 2_010, 2, 64)
    made.copy(3_000, 3_010, 3, 32)
    made.allocate(10, 0xA000, 100)
    return made


def analyze(builder: TraceBuilder, folder: Path) -> Analysis:
    return analyze_trace(builder.write(folder / "t.sqlite"))


@pytest.mark.parametrize("end", [999, -(2**62), 2**63 - 1])
def test_calls_that_end_before_they_start_or_never(builder: TraceBuilder, tmp_path: Path, end: int) -> None:
    builder.call(1_000, end, 9, "cudaFree_v3020")
    analysis = analyze(builder, tmp_path)
    assert [row["name"] for row in records(analysis.api)] == ["cudaLaunchKernel"]
    assert "impossible-times" in codes(analysis)


def test_times_so_late_that_a_duration_wraps_around(builder: TraceBuilder, tmp_path: Path) -> None:
    """The end is before the start by nearly 2^64, which is a plausible duration in 64 bits."""
    builder.kernel(2**63 - 1_000, -(2**63) + 1_000, None, "late")
    analysis = analyze(builder, tmp_path)
    assert [row["name"] for row in records(analysis.kernels)] == ["kernel(int)"]
    assert "impossible-times" in codes(analysis)


def test_copies_that_end_before_they_start(builder: TraceBuilder, tmp_path: Path) -> None:
    builder.copy(3_000, 2_000, 4, 32)
    found = numbers(analyze(builder, tmp_path))
    assert {row["operation"]: row["total_ns"] for row in found["memops"]} == {
        "[CUDA memcpy Host-to-Device]": 10, "[CUDA memset]": 10,
    }  # fmt: skip


@pytest.mark.parametrize("size", ["many", -1])
def test_sizes_that_are_no_sizes(builder: TraceBuilder, tmp_path: Path, size: object) -> None:
    builder.put("CUPTI_ACTIVITY_KIND_MEMSET", start=4_000, end=4_010, deviceId=0, contextId=1, streamId=7, bytes=size)
    builder.put(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=4_100, end=4_110, contextId=1, streamId=7, bytes=size, copyKind=1
    )  # fmt: skip
    found = numbers(analyze(builder, tmp_path))
    assert (found["memset_bytes"], found["memcpy_bytes"]) in (
        (None, None),
        (64, {"[CUDA memcpy Host-to-Device]": 32}),
    )


def test_a_copy_of_no_kind(builder: TraceBuilder, tmp_path: Path) -> None:
    builder.put("CUPTI_ACTIVITY_KIND_MEMCPY", start=4_100, end=4_110, contextId=1, streamId=7, bytes=8, copyKind="x")
    found = numbers(analyze(builder, tmp_path))
    assert [name for name in found["memcpy_bytes"] if str(2**63) in name] == []


def test_memory_on_no_device(builder: TraceBuilder, tmp_path: Path) -> None:
    builder.put("CUDA_GPU_MEMORY_USAGE_EVENTS", start=20, deviceId="x", address=0xB000, bytes=50, memKind=2)
    peaks = analyze(builder, tmp_path).totals.peak_vram_bytes
    assert peaks is not None
    assert set(peaks) == {0}


def test_sums_beyond_64_bits(builder: TraceBuilder, tmp_path: Path) -> None:
    for correlation in range(10, 15):
        builder.kernel(0, 2**61, correlation)
    total = analyze(builder, tmp_path).totals.kernel_total_ns
    assert total in (None, 50, 5 * 2**61 + 50)


def test_ranges_without_a_start(builder: TraceBuilder, tmp_path: Path) -> None:
    builder.put("NVTX_EVENTS", start="x", end=5_000, eventType=59, text="broken", globalTid=1)
    analysis = analyze(builder, tmp_path)
    assert [row["wall_ns"] for row in records(analysis.ranges) if row["wall_ns"] < 0] == []
