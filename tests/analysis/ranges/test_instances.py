import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TraceBuilder


def analyze(builder, path):
    with open_trace(builder.write(path / "t.sqlite")) as trace:
        return summarize(read_tables(trace))


def test_each_instance_has_its_own_work(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1000, "step", tid=OTHER_TID)
    for number, start in enumerate((2000, 4000)):
        builder.range(start, start + 1000, "step")
        builder.range(start + 100, start + 500, "forward")
        builder.launch(start + 110, 2 * number + 1)  # runs 210 to 260
        builder.launch(start + 600, 2 * number + 2, delay=110)  # 710 to 760
    rows = analyze(builder, tmp_path).range_instances
    steps = rows[rows["range"] == "step"]
    assert steps["instance"].tolist() == [0, 1, 2] and steps["start_ns"].tolist() == [0, 2000, 4000]
    assert steps["kernel_count"].tolist() == [0, 2, 2] and steps["kernel_total_ns"].tolist() == [0, 100, 100]
    assert steps["gpu_busy_ns"].tolist() == [0, 100, 100] and steps["gpu_idle_ns"].tolist() == [0, 450, 450]
    assert rows.loc[rows["range"] == "forward", "path"].tolist() == ["step > forward"] * 2


def test_devices_are_idle_each_for_itself(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1000, "step")
    builder.launch(10, 1, device=0)  # 110 to 160
    builder.launch(30, 2, device=0, delay=200)  # 230 to 280
    builder.launch(60, 3, device=1, delay=500)
    (row,) = analyze(builder, tmp_path).range_instances.to_dict("records")
    assert (row["kernel_count"], row["gpu_busy_ns"], row["gpu_idle_ns"]) == (3, 150, 70)


@pytest.mark.parametrize("name", ["sdpa", "mp", "graph_node", "ddp_rank0"])
def test_instances_add_up_to_their_ranges(trace_path, name):
    with open_trace(trace_path(name)) as trace:
        found = summarize(read_tables(trace))
    sums = found.range_instances.groupby(["range", "style", "domain"], sort=False)[
        ["wall_ns", "kernel_count", "kernel_total_ns", "is_warmup"]
    ].sum()
    table = found.ranges.set_index(["range", "style", "domain"])
    assert list(sums.index) == list(table.index)
    for column, total in (
        ("wall_ns",) * 2,
        ("kernel_count",) * 2,
        ("kernel_total_ns",) * 2,
        ("is_warmup", "warmup_instances"),
    ):
        assert np.array_equal(sums[column].astype(int), table[total].astype(int)), column
    assert (found.range_instances["gpu_idle_ns"] >= 0).all()


def test_a_range_that_replays_a_whole_graph_knows_no_kernels(trace_path):
    with open_trace(trace_path("graph_whole")) as trace:
        found = summarize(read_tables(trace))
    unknown = found.ranges.loc[found.ranges["kernel_count"].isna(), "range"]
    rows = found.range_instances.set_index("range")
    assert len(unknown) and rows.loc[unknown, "kernel_count"].isna().all()
    assert rows.loc[unknown, "gpu_busy_ns"].notna().all()
