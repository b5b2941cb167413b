"""The analysis of a range says of it, and of all that is inside, what the whole analysis says."""

import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.analysis.parts.find_part import WantedPart, new_rows
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

# What depends on where a range is, or on the other instances of its name.
OF_PLACE = ("path", "depth", "paths")
# Traces with helper threads, replayed graphs, several processes, two GPUs, start/end ranges, and ranges without work.
CASES = [
    ("ddp_rank0", "backward"),
    ("ddp_rank0", "step# > forward"),
    ("ddp_rank0", "ncclAllReduce"),
    ("graph_node", "RUN::math_graph::S1024"),
    ("graph_whole", "eager"),
    ("mp", "proc1::iter#"),
    ("two_gpus", "visible 1,0 device 1"),
    ("mem", "h2d_pinned_4x64MiB"),
    ("h200-ranges/layers-cudagraphs", "step# > backward"),
    ("h200-ranges/nccl", "all_gather 64MiB > ncclAllGather"),
]


@pytest.fixture(scope="module")
def analyses(trace_path):
    def analyze(name, wanted=None):
        if (name, wanted) not in made:
            with open_trace(trace_path(name)) as trace:
                options = SummaryOptions(part=None if wanted is None else WantedPart(wanted))
                made[name, wanted] = run_summary(read_tables(trace), options).analysis
        return made[name, wanted]

    made = {}
    return analyze


def rows_of(table, chosen, but=OF_PLACE):
    columns = [column for column in table.columns if column not in but]
    return sorted(table.loc[chosen, columns].astype(str).to_numpy().tolist())


@pytest.mark.parametrize(("name", "wanted"), CASES)
def test_the_tables_of_a_range_are_those_of_the_whole_analysis(analyses, name, wanted):
    whole, part = analyses(name), analyses(name, wanted)
    tree = whole.range_tree
    is_root = (tree["path"] == wanted) | ((tree["range"] == wanted) & (" > " not in wanted))
    assert rows_of(part.range_tree, part.range_tree["depth"] == 0) == rows_of(tree, is_root)
    counts = tree.groupby("range").size()
    alone = [name for name in part.ranges["range"] if counts.get(name) == 1]
    for table in ("ranges", "range_kernels", "caused_kernels", "range_instances", "range_api"):
        one, other = getattr(part, table), getattr(whole, table)
        assert rows_of(one, one["range"].isin(alone)) == rows_of(other, other["range"].isin(alone)), table


@pytest.mark.parametrize(("name", "wanted"), CASES)
def test_what_is_counted_of_a_range_adds_up(analyses, name, wanted):
    part = analyses(name, wanted)
    roots = part.range_tree[part.range_tree["depth"] == 0]
    kinds = ("kernel_count", "adopted_kernel_count", "captured_kernel_count")
    assert part.totals.kernel_count == roots[list(kinds)].sum().sum() == part.kernels["instances"].sum()
    assert part.coverage.attributed_kernels == part.coverage.kernels == part.totals.kernel_count
    own_work = part.work[part.work["range"].isna()]
    assert own_work["busy_ns"].sum() == part.totals.gpu_busy_ns
    assert part.idle.devices, "the range lies between the first and the last work of a device"
    for device in part.idle.devices:
        of_device = part.idle.table[
            (part.idle.table["range"] == "") & (part.idle.table["device_id"] == device.device_id)
        ]
        assert of_device["idle_ns"].sum() == device.idle_ns
        assert 0 <= device.busy_ns == device.span_ns - device.idle_ns


def test_idle_time_of_a_range_is_that_of_its_rows_in_the_whole_analysis(analyses):
    whole, part = analyses("ddp_rank0").idle.table, analyses("ddp_rank0", "backward").idle.table
    columns = ["cause", "idle_ns", "count"]
    expected = whole[whole["range"] == "backward"][columns].to_numpy().tolist()
    assert part[part["range"] == ""][columns].to_numpy().tolist() == expected
    assert part[part["range"] == "backward"][columns].to_numpy().tolist() == expected


def test_findings_of_a_range_are_those_whose_place_is_in_it(analyses):
    whole = analyses("h200-programs/train-all").findings
    texts = {}
    for wanted, places in {"forward": {"forward", "small", "prepare"}, "load": {"load"}}.items():
        part = analyses("h200-programs/train-all", wanted).findings
        expected = [(item.code, item.saving_ns, item.text) for item in whole.items if item.range in places]
        texts[wanted] = [(item.code, item.saving_ns, item.text) for item in part.items]
        assert texts[wanted] == expected
        assert max(saving for _, saving, _ in expected) <= part.together_ns < whole.together_ns
    assert all(texts.values())


def test_the_peak_of_memory_is_that_of_the_range(analyses):
    whole, part = analyses("mem"), analyses("mem", "h2d_pinned_4x64MiB")
    row = whole.ranges[whole.ranges["range"] == "h2d_pinned_4x64MiB"]
    assert part.totals.peak_vram_bytes == {0: row["peak_vram_bytes"].iloc[0]}
    assert part.totals.peak_vram_bytes[0] < whole.totals.peak_vram_bytes[0]
    assert part.memory_owners is None


def test_rows_are_numbered_anew():
    number = new_rows(np.array([True, False, True]))
    assert number[np.array([0, 1, 2, -1])].tolist() == [0, -1, 1, -1]
