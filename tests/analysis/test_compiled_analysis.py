"""An analysis says the same with compiled code and without, of traces in which nothing is as it should be."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.comparison.range_facts import collect_range_facts
from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary, summarize
from nsysprof.native import load
from nsysprof.results.analysis import Analysis
from nsysprof.results.comparison import RangeFacts
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, OTHER_TID, TID, TraceBuilder


def disorderly(path: Path, seed: int) -> Path:
    """Return a trace whose ranges overlap, whose calls outlast ranges and begin at their edges, and are in no order."""
    random = np.random.default_rng(seed)
    builder = TraceBuilder()
    threads = (TID, OTHER_TID, OTHER_PID + 5)
    calls = 120
    times = 10 * random.integers(0, 200, calls)
    if seed % 3:
        times.sort()
    for number, at in enumerate(times.tolist()):
        tid, length = threads[random.integers(0, 3)], int(random.choice([0, 5, 10, 90]))
        name = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaFree", "cudaGraphLaunch_v10000")[number % 7 % 4]
        builder.call(at, at + length, number + 1, name, tid=tid)
        where = {"pid": tid & ~0xFFFFFF, "device": int(random.integers(0, 2))}
        begin = at + int(random.integers(0, 60))
        if name.startswith("cudaLaunch") and random.random() < 0.9:
            builder.kernel(begin, begin + int(random.integers(0, 80)), number + 1, f"k{random.integers(0, 3)}", **where)
        elif name.startswith("cudaMemcpy"):
            builder.copy(begin, begin + 20, number + 1, int(random.integers(1, 99)), **where)
        elif name.startswith("cudaGraph") and seed % 4 == 1:
            for node in range(2):
                builder.kernel(begin + 9 * node, begin + 30, number + 1, "of graph", node=node + 1, **where)
    for number in range(40):
        begin, length = 10 * int(random.integers(0, 200)), 10 * int(random.choice([0, 1, 3, 30, 100]))
        kind = 60 if number % 9 == 8 and seed % 2 else 59
        builder.range(begin, begin + length, f"step{number % 6}", kind=kind, tid=threads[number % 3], domain=number % 2)
    return builder.write(path)


def compare_facts(path: Path) -> dict[tuple[str, str], RangeFacts]:
    with open_trace(path) as trace:
        tables = read_tables(trace)
        summary = run_summary(tables, SummaryOptions(), keeps_attribution=True)
        analysis, attribution = summary.analysis, summary.attribution
        assert attribution is not None
        found = collect_range_facts(tables, analysis, {}, attributed=(attribution, summary.caused))
        assert found == collect_range_facts(tables, analysis, {})  # without what the analysis has found already
        return found


def analyze(path: Path) -> Analysis:
    with open_trace(path) as trace:
        return summarize(read_tables(trace))


@pytest.mark.parametrize("seed", range(6))
def test_every_table_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    path = disorderly(tmp_path / "t.sqlite", seed)
    monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
    plain, plain_facts = analyze(path), compare_facts(path)
    used = []
    monkeypatch.setattr(load, "is_wanted", lambda unit: used.append(unit) or True)
    compiled, compiled_facts = analyze(path), compare_facts(path)
    assert {"summarize", "count_calls"} <= set(used)
    assert compiled_facts == plain_facts
    assert len(plain.ranges) > 3
    for each in dataclasses.fields(plain):
        one, other = getattr(plain, each.name), getattr(compiled, each.name)
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other, check_exact=True, obj=each.name)
    assert (plain.totals, plain.coverage, plain.notes) == (compiled.totals, compiled.coverage, compiled.notes)
