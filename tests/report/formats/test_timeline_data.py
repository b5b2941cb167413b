import base64
import gzip
import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.formats.timeline_data import MOST_CHOSEN_ROWS, timeline_data
from nsysprof.report.formats.timeline_lanes import BusyShares, busy_shares, list_lanes, stack_levels
from nsysprof.results.analysis import Timeline
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.trace.open import open_trace
from tests.builders.build_trace import OTHER_TID, TraceBuilder
from tests.builders.training import training
from tests.report import samples


def column(data, name, dtype):
    """Return a column as a page decodes it: the lowest byte of every value comes first, then the next ones."""
    planes = np.frombuffer(gzip.decompress(base64.b64decode(data["columns"][name])), dtype=np.uint8)
    return np.ascontiguousarray(planes.reshape(np.dtype(dtype).itemsize, -1).T).view(dtype).ravel()


def rows(data, lane):
    """Return (start, end, name) of the rows of a lane, as a page would decode them."""
    first = sum(each["rows"] for each in data["lanes"][: data["lanes"].index(lane)])
    mine = slice(first, first + lane["rows"])
    start = np.cumsum(column(data, "start", "<u8")[mine]).astype(np.int64) + data["originNs"]
    length = column(data, "length", "<u8")[mine].astype(np.int64)
    names = [data["names"][number] for number in column(data, "name", "<u4")[mine]]
    return sorted(zip(start.tolist(), (start + length).tolist(), names, strict=True))


@pytest.mark.parametrize("name", ["sdpa", "mp", "mem", "gm10k", "two_gpus", "graph_node", "ddp_rank0"])
def test_a_small_trace_is_there_row_by_row(name, trace_path):
    analysis = analyze_trace(trace_path(name))
    data = json.loads(json.dumps(timeline_data(analysis)))
    assert data["whole"]
    timeline = analysis.timeline
    for kind, table in (("work", timeline.gpu), ("api", timeline.api), ("range", timeline.nvtx)):
        found = sorted(row for lane in data["lanes"] if lane["kind"] == kind for row in rows(data, lane))
        expected = sorted(zip(table["start_ns"], table["end_ns"], table["name"].astype(str), strict=True))
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        assert len(found) == len(table)
    assert data["rows"] == len(timeline.gpu) + len(timeline.api) + len(timeline.nvtx)
    kinds = zip(data["nameCounts"], data["nameCategories"], strict=True)
    assert sum(count for count, kind in kinds if kind not in CAUSES) == data["rows"]


def linked(data, name):
    """Return pairs of a row of work and the row that a link leads to, each as (start, name)."""
    start = np.concatenate(
        [np.cumsum(part) for part in np.split(column(data, "start", "<u8"), np.cumsum(sizes(data))[:-1])]
    )
    names = [data["names"][number] for number in column(data, "name", "<u4")]
    target = np.cumsum(column(data, name, "<i4"))
    return [((int(start[at]), names[at]), (int(start[to - 1]), names[to - 1])) for at, to in enumerate(target) if to]


def sizes(data):
    return [lane["rows"] for lane in data["lanes"]]


def test_work_leads_to_its_call_and_to_the_range_that_adopted_it(tmp_path):
    made = TraceBuilder()
    made.range(0, 1000, "backward")
    made.launch(100, 1, name="own")
    made.launch(300, 2, name="helped", tid=OTHER_TID)
    data = timeline_data(samples.analysis(tmp_path, made))
    calls = {work[1]: call[0] for work, call in linked(data, "call")}
    assert calls == {"own(int)": 100, "helped(int)": 300}
    assert linked(data, "cause") == [((400, "helped(int)"), (0, "backward"))]


def test_captured_work_leads_to_the_range_that_captured_it(trace_path):
    data = timeline_data(analyze_trace(trace_path("h200-programs/graphs")))
    owners = {target[1] for _, target in linked(data, "cause")}
    assert any(name.startswith("layer") for name in owners)


def test_it_opens_at_a_typical_step(tmp_path):
    analysis = samples.analysis(tmp_path, training([5000, *[1000] * 12]))
    low, high = timeline_data(analysis)["opensAt"]
    assert 5000 - 100 <= low <= 5000
    assert 6000 <= high <= 6100
    data = timeline_data(analysis)
    [[place, numbers]] = data["places"]
    assert place == "step#" and [data["names"][number] for number in numbers] == [f"step{step}" for step in range(13)]


def test_lanes_are_named_by_what_tells_them_apart(trace_path):
    labels = [lane.label for lane in list_lanes(analyze_trace(trace_path("mp")))[0] if lane.kind != "idle"]
    assert labels[0].startswith("pid ") and labels[0].endswith(" ranges")
    assert any(label.endswith(" API") for label in labels)
    assert len(labels) == 32


def test_idle_time_has_a_lane_for_each_device_with_its_causes(trace_path):
    analysis = analyze_trace(trace_path("two_gpus"))
    idle = [lane for lane in list_lanes(analysis)[0] if lane.kind == "idle"]
    assert [lane.label for lane in idle] == ["GPU 0 idle", "GPU 1 idle"]
    for lane, device in zip(idle, analysis.idle.devices, strict=True):
        assert int(lane.length_ns.sum()) == device.idle_ns
        mine = analysis.idle.table[
            (analysis.idle.table["device_id"] == device.device_id) & (analysis.idle.table["range"] == "")
        ]
        by_cause = {name: int(lane.length_ns[lane.name == at].sum()) for at, name in enumerate(lane.categories)}
        assert {name: ns for name, ns in by_cause.items() if ns} == dict(
            zip(mine["cause"], mine["idle_ns"], strict=True)
        )


def test_copies_have_their_size_and_memory(tmp_path):
    made = TraceBuilder()
    made.call(0, 100, 1, "cudaMemcpyAsync_v3020")
    made.copy(50, 90, 1, 4096, host=0)
    made.call(200, 300, 2, "cudaMemcpyAsync_v3020")
    made.copy(250, 290, 2, 8192, host=1)
    made.launch(400, 3)
    data = timeline_data(samples.analysis(tmp_path, made))
    facts = zip(column(data, "bytes", "<u8").tolist(), column(data, "memory", "<u1").tolist(), strict=True)
    assert [fact for fact in facts if fact[0]] == [(4096, 1), (8192, 2)]


def test_kernels_have_their_grid_where_it_was_read(trace_path):
    data = timeline_data(analyze_trace(trace_path("sdpa"), grids=True))
    places = column(data, "grid", "<u2")
    kinds = np.repeat([lane["kind"] for lane in data["lanes"]], [lane["rows"] for lane in data["lanes"]])
    assert set(kinds[places > 0]) == {"work"}
    with open_trace(trace_path("sdpa")) as trace:
        (count,) = trace.connection.execute("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    assert np.count_nonzero(places) == count
    assert data["grids"][0] == ""
    assert all(text.startswith("grid ") and ", block " in text for text in data["grids"][1:])
    assert "grid" not in timeline_data(analyze_trace(trace_path("sdpa")))["columns"]


def test_a_call_within_a_call_has_a_lane_of_its_own(tmp_path):
    made = TraceBuilder()
    made.call(0, 100, 1, "cudaLaunchKernel_v7000")
    made.call(10, 90, 1, "cuLaunchKernel")
    made.call(100, 120, 2, "cudaFree_v3020")
    lanes, _ = list_lanes(samples.analysis(tmp_path, made))
    assert [(lane.level, lane.start_ns.tolist()) for lane in lanes] == [(0, [0, 100]), (1, [10])]


def test_calls_of_operators_are_not_drawn_twice(tmp_path):
    analysis = samples.analysis(tmp_path, samples.builder(operators=True))
    kinds = {lane.kind for lane in list_lanes(analysis)[0]}
    assert kinds == {"range", "work"}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=40))
def test_intervals_of_one_level_do_not_overlap(spans):
    ordered = sorted(spans)
    start = np.array([a for a, _ in ordered], dtype=np.int64)
    end = start + np.array([length for _, length in ordered], dtype=np.int64)
    levels = stack_levels(start, end)
    for level in range(6):
        mine = levels == level
        assert (start[mine][1:] >= end[mine][:-1]).all()


def test_a_hundred_thousand_ranges_on_top_of_each_other_take_a_moment():
    start = np.arange(100_000, dtype=np.int64)
    begin = time.monotonic()
    levels = stack_levels(start, start + 10**9)
    assert time.monotonic() - begin < 5
    assert levels[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 6]


def test_neither_the_page_nor_the_figure_makes_tables_of_all_rows(trace_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from nsysprof.report.figures.timeline import draw_timeline

    analysis = analyze_trace(trace_path("mp"))
    for name in ("gpu", "api"):
        monkeypatch.setattr(Timeline, name, property(lambda _: pytest.fail("ten million rows would take gigabytes")))
    assert timeline_data(analysis)["rows"] > 0
    assert draw_timeline(analysis) is not None


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 400)), max_size=20), st.integers(1, 60), st.data())
def test_shares_are_the_same_however_many_intervals_are_added_at_a_time(spans, bins, data):
    start = np.array([a for a, _ in spans], dtype=np.int64)
    end = start + np.array([length for _, length in spans], dtype=np.int64)
    parts = BusyShares(1000, bins)
    cut = data.draw(st.integers(0, len(spans)))
    parts.add(start[:cut], end[:cut])
    parts.add(start[cut:], end[cut:])
    assert parts.shares().tolist() == busy_shares(start, end, 1000, bins).tolist()


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 400)), max_size=20), st.integers(1, 60))
def test_shares_are_what_the_intervals_cover(spans, bins):
    start = np.array([a for a, _ in spans], dtype=np.int64)
    end = np.minimum(1000, start + np.array([length for _, length in spans], dtype=np.int64))
    edges = np.linspace(0, 1000, bins + 1)
    covered = np.maximum(0, np.minimum(end, edges[1:, None]) - np.maximum(start, edges[:-1, None])).sum(axis=1)
    assert busy_shares(start, end, 1000, bins) == pytest.approx(np.clip(covered / np.diff(edges), 0, 1), abs=1e-6)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    made = samples.builder()
    for number in range(MOST_CHOSEN_ROWS):
        made.launch(100_000 + number * 300, 5000 + number, name=f"kernel_{number % 50}")
    made.allocate(50, 9_000_000, 1 << 20)
    for number in range(20_000):
        made.allocate(200_000 + number, 10_000_000 + number, 4096 if number != 777 else 1 << 30)
        made.free(200_000 + number, 10_000_000 + number)
    return samples.analysis(tmp_path_factory.mktemp("large"), made)


def test_a_large_trace_has_slices_of_all_and_rows_of_its_ranges(large, monkeypatch):
    monkeypatch.setattr("nsysprof.report.formats.timeline_data.MOST_ROWS", MOST_CHOSEN_ROWS)
    data = timeline_data(large)
    assert not data["whole"]
    assert sum(sizes(data)) <= MOST_CHOSEN_ROWS * 1.1
    kinds = zip(data["nameCounts"], data["nameCategories"], strict=True)
    assert sum(count for count, kind in kinds if kind not in CAUSES) == data["rows"], (
        "every row is counted, here or not"
    )
    assert len(json.dumps(data)) < 3_000_000
    stream = next(lane for lane in data["lanes"] if lane["kind"] == "work")
    busy = np.frombuffer(base64.b64decode(stream["busy"]), dtype=np.uint8)
    work = large.timeline.gpu
    total = (work["end_ns"] - work["start_ns"]).sum()
    assert busy.mean() / 255 * data["spanNs"] == pytest.approx(total, rel=0.02)
    inside = [row for row in rows(data, stream) if row[2].startswith("sm80")]
    assert len(inside) == 20, "one instance of every range of ours, whole"
    assert {place[0] for place in data["places"]} == {"RUN::math::S1024", "RUN::flash::S1024"}


def test_the_peak_of_memory_survives_thinning(large):
    (series,) = timeline_data(large)["memory"]
    assert len(series["time"]) < 4000 < len(large.timeline.memory)
    assert max(series["bytes"]) == large.totals.peak_vram_bytes[0]
    assert series["time"] == sorted(series["time"])


def test_many_lanes_keep_the_busiest_of_each_kind(tmp_path):
    made = TraceBuilder()
    for stream in range(60):
        made.kernel(stream, stream + 1 + stream, None, stream=stream)
    made.launch(5, 1)
    made.range(0, 10, "a", tid=OTHER_TID)
    lanes, left_out = list_lanes(samples.analysis(tmp_path, made))
    assert (len(lanes), left_out) == (40, 22)
    labels = {lane.label for lane in lanes}
    assert "stream 59" in labels and "stream 2" not in labels
    assert {lane.kind for lane in lanes} == {"range", "api", "work"}


def test_nothing_to_draw(tmp_path):
    made = TraceBuilder()
    made.fact("x", "y")
    assert timeline_data(samples.analysis(tmp_path, made)) is None
