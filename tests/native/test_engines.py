"""An analysis says the same whatever engine each loop has: compiled code or numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.app.progress import SILENT
from nsysprof.native import load
from tests.builders.build_trace import OTHER_TID, TraceBuilder

TRACES = Path(__file__).parents[2] / "traces"
NAMES = tuple(load.FUNCTIONS)

pytestmark = pytest.mark.skipif(load.native_problem() is not None, reason="the installation compiled nothing")


def graphs_of_two_threads(path: Path) -> Path:
    """Return a trace with many gaps and few calls: replays of a graph, while another thread launches."""
    builder = TraceBuilder()
    for step in range(60):
        at = 1_000_000 * (step + 1)
        correlation = 2 * step + 1
        builder.range(at, at + 950_000, "step")
        builder.call(at + 10, at + 10_010, correlation, "cudaGraphLaunch_v10000")
        for node in range(400):
            begin = at + 12_000 + 2_000 * node
            builder.kernel(begin, begin + 1_000, correlation, f"k{node % 5}", node=node + 1)
        builder.call(at + 300_000, at + 305_000, correlation + 1, "cudaLaunchKernel_v7000", tid=OTHER_TID)
        builder.kernel(at + 310_500, at + 311_500, correlation + 1, "other", stream=8)
    return builder.write(path)


def written_files(trace: Path, folder: Path) -> dict[str, bytes]:
    """Return what an analysis writes, by name."""
    analyze(AnalyzeRequest((trace,), out=folder, figures=False, force=True), SILENT)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def compare_engines(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """Draw an engine for each loop, and compare the files with those of numpy alone."""
    monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
    wanted = written_files(trace, folder)
    assert wanted
    for seed in seeds:
        random = np.random.default_rng(seed)
        drawn = {unit: bool(random.integers(0, 2)) for unit in sorted({load.UNITS.get(one, one) for one in NAMES})}
        monkeypatch.setattr(load, "is_wanted", drawn.__getitem__)
        written = written_files(trace, folder)
        assert [name for name in wanted if wanted[name] != written.get(name)] == [], drawn
        assert set(written) == set(wanted)


def test_graphs_of_two_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The causes of many gaps were found by compiled code, and the ends of few calls were not: exit 70."""
    compare_engines(graphs_of_two_threads(tmp_path / "t.sqlite"), tmp_path / "out", monkeypatch, range(3))


@pytest.mark.parametrize("name", ["pools", "graph_node", "mp"])
def test_engines_drawn_at_random(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_engines(TRACES / f"{name}.sqlite.xz", tmp_path / "out", monkeypatch, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("trace", sorted(TRACES.rglob("*.sqlite.xz")), ids=lambda path: path.stem)
def test_every_trace_of_the_repository(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_engines(trace, tmp_path / "out", monkeypatch, range(1))
