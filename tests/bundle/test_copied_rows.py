"""A trace that is cropped has the ranges that were asked for, with their numbers, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.sanitize import SanitizeOptions, sanitize_trace
from nsysprof.errors import UsageError
from tests.builders.build_trace import OTHER_PID, OTHER_TID, PID, TraceBuilder


def crop(source: Path, target: Path, *patterns: str) -> Path:
    sanitize_trace(source, target, SanitizeOptions(NameTokens(keep=True), patterns))
    return target


def rows_of(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Rows of these ranges, without what depends on the ranges and kernels around them."""
    table = table.drop(columns=["path", "label"], errors="ignore")
    return table[table["range"].isin(names)].reset_index(drop=True)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("sdpa", "RUN::flash::*"),
        ("mp", "proc0::*"),
        ("mem", "h2d_*"),
        ("gm10k", "RUN::math::S4096"),
        ("graph_node", "RUN::math_graph::*"),
        ("graph_whole", "replays"),
        ("pools", "again"),
        ("ddp_rank0", "backward"),
    ],
)
def test_the_ranges_that_are_kept_keep_their_numbers(
    trace_path: Callable[[str], Path], tmp_path: Path, name: str, pattern: str
) -> None:
    from fnmatch import fnmatchcase

    whole = analyze_trace(trace_path(name))
    part = analyze_trace(crop(trace_path(name), tmp_path / "part.sqlite", pattern))
    wanted = [text for text in whole.ranges["range"].unique() if fnmatchcase(text, pattern)]
    assert wanted
    # Cut out of its step, a range is the step, whose warm-up is that of the GPU and not of the host.
    warm_up = [column for column in whole.ranges if column.startswith(("warmup_", "steady_"))]
    dropped = warm_up if name == "ddp_rank0" else []
    pd.testing.assert_frame_equal(
        rows_of(part.ranges, wanted).drop(columns=dropped), rows_of(whole.ranges, wanted).drop(columns=dropped)
    )
    pd.testing.assert_frame_equal(
        rows_of(part.range_kernels, wanted), rows_of(whole.range_kernels, wanted), check_dtype=False
    )
    assert "bundle-left-out" in {note.code for note in part.notes}
    if len(wanted) < whole.ranges["range"].nunique():
        assert len(part.ranges) < len(whole.ranges)


def test_what_is_outside_goes_and_what_is_nested_stays(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.range(0, 1000, "around secret")
    builder.range(100, 200, "mine")
    builder.range(120, 150, "inside")
    builder.range(300, 400, "next secret")
    for start, correlation in ((130, 1), (350, 2), (500, 3)):
        builder.launch(start, correlation)  # and its kernel
    path = crop(builder.write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite", "mine")
    connection = sqlite3.connect(path)
    try:
        named = "SELECT coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM NVTX_EVENTS ORDER BY start"
        assert connection.execute(named).fetchall() == [("mine",), ("inside",)]
        assert connection.execute("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall() == [(1,)]
        assert connection.execute("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM StringIds WHERE value LIKE '%secret%'").fetchall() == [(0,)]
    finally:
        connection.close()


def test_another_process_and_the_same_correlation_id(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.range(0, 100, "mine")
    builder.launch(10, 1)
    builder.launch(10, 1, tid=OTHER_PID | 9)
    builder.launch(20, 2, tid=OTHER_TID)  # another thread of the process, which start/end ranges count
    path = crop(builder.write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite", "min?")
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone() == (2,)
    finally:
        connection.close()
    assert PID != OTHER_PID


def test_no_range_of_that_name(trace_path: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No range of the trace is named nothing or RUN::flash::S1"):
        crop(trace_path("sdpa"), tmp_path / "out.sqlite", "nothing", "RUN::flash::S1")
    assert list(tmp_path.iterdir()) == []
    builder = TraceBuilder()
    builder.launch(0, 1)
    with pytest.raises(UsageError):
        crop(builder.write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite", "*")
