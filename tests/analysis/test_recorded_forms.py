"""Traces of programs whose every launch is known from their source: scripts/programs, recorded on an H200."""

import pandas as pd
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.api import use_cases
from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.analysis import first_report
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

MIB = 1 << 20


@pytest.fixture
def figures(trace_path):
    """`figures(program)`: the analysis, and its ranges as {name: (instances, launches, kernels, graphs)}."""

    def read(program):
        with open_trace(trace_path(f"h200-forms/{program}")) as trace:
            analysis = summarize(read_tables(trace))
        columns = ["instances", "launch_count", "kernel_count", "graph_launch_count"]
        table = analysis.ranges.set_index(["domain", "range"])[columns]
        counts = (tuple(None if pd.isna(count) else int(count) for count in row) for row in table.to_numpy())
        return analysis, dict(zip(table.index, counts, strict=True))

    return read


def test_every_form_of_a_range_holds_what_its_source_launches(figures):
    analysis, ranges = figures("nvtx_forms")
    # nvtx_forms 12: ten launches a round, and one inside the range that never ends.
    assert analysis.totals.launch_count == analysis.totals.kernel_count == 121
    for key, launches in {
        ("forms.registered", "step"): 24,
        ("forms.registered", "load"): 12,
        ("forms.payloads", "step"): 12,
        ("", "step"): 12,
        ("", "request"): 24,  # started by one thread and ended by another, which launches one of the two
        ("", "worker"): 12,
        ("TensorRT", "ExecutionContext::enqueue"): 48,
    }.items():
        assert ranges[key] == (12, launches, launches, 0), key
    layers = [row for (domain, name), row in ranges.items() if domain == "TensorRT" and "MatMul" in name]
    assert layers == [(12, 12, 12, 0)] * 4
    assert ranges["", "never ends"] == (1, 1, 1, 0)


def test_graphs_by_node_hold_their_kernels_and_copies(figures):
    analysis, ranges = figures("node_graphs")
    # whole_graphs 50: graphs of 2 and 12 kernels and one without, and a kernel outside graphs.
    assert ranges["", "small"] == (50, 50, 100, 50)
    assert ranges["", "large"] == (50, 50, 600, 50)
    assert ranges["", "bytes alone"] == (50, 50, 0, 50)
    assert ranges["", "eager"] == (50, 50, 50, 0)
    table = analysis.ranges.set_index("range")
    assert table.loc["large", "memcpy_bytes"] == table.loc["bytes alone", "memset_bytes"] == 200 * MIB


@pytest.mark.parametrize(("program", "rounds"), [("whole_graphs", 50), ("two_processes", 40)])
def test_graphs_as_wholes_hold_an_unknown_number_of_kernels(figures, program, rounds):
    analysis, _ = figures(program)
    table = analysis.ranges.set_index("range")
    assert table.loc[["small", "large", "bytes alone"], "kernel_count"].isna().all()
    assert table.loc[["small", "large", "bytes alone"], "graph_launch_count"].tolist() == [rounds] * 3
    assert table.loc["eager", "kernel_count"] == rounds
    graphs = analysis.kernels[analysis.kernels["category"] == "graph"]
    assert graphs["instances"].tolist() == [rounds] * 3


def test_migrations_of_managed_memory_are_counted_beside_the_ranges(figures):
    analysis, ranges = figures("memory_forms")
    # memory_forms 10: the host touches each page of 4 MiB and the GPU takes them back, by faults and by prefetching.
    assert ranges["", "faults"] == ranges["", "prefetched"] == ranges["", "imported"] == (10, 10, 10, 0)
    moved = analysis.totals.memcpy_bytes
    assert moved["[CUDA memcpy Unified Host-to-Device]"] == 10 * 4 * MIB
    # The first round finds the pages on the host.
    assert moved["[CUDA memcpy Unified Device-to-Host]"] == 9 * 4 * MIB
    assert analysis.ranges.set_index("range").loc["faults", "memcpy_bytes"] == 0
    note = next(note for note in analysis.notes if note.code == "migrations")
    assert note.severity == "warning"
    assert "cudaMemPrefetchAsync" in note.next_step


def test_two_processes_under_mps_keep_their_own_graphs(figures):
    analysis, ranges = figures("mps")
    # whole_graphs 20, twice at once, by node.
    assert ranges["", "small"] == (40, 40, 80, 40)
    assert ranges["", "large"] == (40, 40, 480, 40)
    assert analysis.totals.kernel_count == 40 * (2 + 12 + 1)


def test_copies_between_gpus_belong_to_the_range_that_asked_for_them(figures):
    analysis, ranges = figures("peer_copies")
    # Ten rounds copy 4 MiB to the other GPU and back, and run a kernel that writes to the other GPU's memory.
    assert ranges["", "peer access"] == (10, 10, 10, 0)
    assert analysis.totals.memcpy_bytes["[CUDA memcpy Peer-to-Peer]"] == 2 * 10 * 4 * MIB
    assert analysis.ranges.set_index("range").loc["peer copies", "memcpy_bytes"] == 2 * 10 * 4 * MIB


def test_what_an_import_lost_is_said(figures):
    analysis, _ = figures("lost_import")
    assert [loss.note.code for loss in analysis.losses] == ["import-failed"]


def test_numbers_in_the_names_of_emit_nvtx_are_columns_and_not_names(figures):
    _, ranges = figures("emit_nvtx")
    # Six steps of two linear layers: forward calls each twice, and no name holds a sequence number or an op id.
    assert ranges["", "aten::linear"][0] == ranges["", "aten::addmm"][0] == 12
    assert not [name for _, name in ranges if "seq = " in name or "op_id = " in name]


def test_a_trace_that_lost_a_part_speaks_of_no_step_and_is_not_compared(figures, trace_path):
    """Its first line told a step, although findings were unknown, and compared with itself it was SAME."""
    analysis, _ = figures("lost_import")
    assert analysis.step_times is None
    first = render_console(first_report(analysis), 100)
    assert first.strip().startswith("This trace is not complete. nsys failed to import")
    assert "step" not in first
    path = trace_path("h200-forms/lost_import")
    found = use_cases.compare(path, path).comparison
    assert (found.step, {change.wall_verdict for change in found.ranges}) == (None, {None})
    numbers = [metric.candidate for change in found.ranges for metric in change.metrics.values()]
    assert set(numbers) == {None}
    assert found.losses[0].startswith("lost_import.sqlite")
