"""Ranges around ranges: a small file can say as much of them as the square of its size, and is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysprof.analysis.attribution import attribute
from nsysprof.analysis.ranges.range_work import launched_work
from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
from nsysprof.errors import TraceForeignError
from tests.builders.build_trace import TraceBuilder


def nested(path: Path, count: int) -> Path:
    """Return a trace whose ranges all hold every launch, each under a name of its own."""
    builder = TraceBuilder("2025.3")
    for number in range(count):
        builder.range(number, 4_000 * count - number, f"range {number}")
        builder.launch(1_000 * number + 2 * count, number + 1, name=f"kernel{number}")
    return builder.write(path)


def test_more_ranges_around_each_launch_than_any_program_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 of them, in a megabyte, took more than ten minutes and 4 GB of tables."""
    path = nested(tmp_path / "t.sqlite", 40)
    assert len(analyze_trace(path).range_kernels) == 40 * 40
    monkeypatch.setattr(attribute, "FREE_PAIRS", 0)
    monkeypatch.setattr(attribute, "MOST_AROUND", 39)
    with pytest.raises(TraceForeignError, match="More than 39 ranges"):
        analyze_trace(path)


def test_more_kernels_by_range_than_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nested(tmp_path / "t.sqlite", 40)
    monkeypatch.setattr(launched_work, "_FREE_PAIRS", 0)
    with pytest.raises(TraceForeignError, match="kernels of almost all others"):
        analyze_trace(path)


def test_ranges_with_open_ends_are_cut_alike_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that end inside a call: each call is looked at, a portion at a time."""
    builder = TraceBuilder("2025.3")
    for number in range(30):
        builder.range(7 * number, 7 * number + 151, f"range {number}")
        builder.launch(20 * number, number + 1)
    path = builder.write(tmp_path / "t.sqlite")
    whole = analyze_trace(path).ranges
    monkeypatch.setattr(attribute, "_PAIRS_AT_ONCE", 5)
    assert analyze_trace(path).ranges.equals(whole)
