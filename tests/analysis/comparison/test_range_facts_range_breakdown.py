from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.analysis.comparison import range_facts
from nsysprof.analysis.comparison.range_facts import collect_range_facts
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TID, TraceBuilder


def facts(path, calls=None):
    with open_trace(path) as trace:
        tables = read_tables(trace)
        analysis = summarize(tables)
        return collect_range_facts(tables, analysis, calls or {}), analysis


def parts(builder, tmp_path, name="step"):
    found, _ = facts(builder.write(tmp_path / "t.sqlite"))
    return {part: ns for part, ns in found[name, ""].parts.items() if ns}


def work(builder, correlation, kind, start, end, at=10, tid=TID, device=0):
    builder.call(at, at + 1, correlation, tid=tid)
    if kind == "kernel":
        builder.kernel(start, end, correlation, device=device)
    elif kind == "copy":
        builder.copy(start, end, correlation, 64, device=device)
    elif kind == "fill":
        builder.fill(start, end, correlation, 64, device=device)
    else:
        builder.graph(start, end, correlation)


def test_a_worked_example(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1000, "step")
    work(builder, 1, "kernel", 100, 200)
    work(builder, 2, "copy", 150, 300, at=20)  # 50 of it under the kernel
    work(builder, 3, "fill", 400, 450, at=30)
    work(builder, 4, "kernel", 900, 1200, at=40)  # runs on after the range
    assert parts(builder, tmp_path) == {
        "before_ns": 100, "kernels_ns": 200, "copies_ns": 100, "fills_ns": 50, "gaps_ns": 550,
    }  # fmt: skip


def test_a_range_whose_work_comes_later_only_waits(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 50, "step")
    work(builder, 1, "kernel", 100, 200)
    assert parts(builder, tmp_path) == {"before_ns": 50}


def test_two_devices_at_once_count_once(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 300, "step")
    work(builder, 1, "kernel", 100, 200, device=0)
    work(builder, 2, "kernel", 150, 250, at=20, device=1)
    assert parts(builder, tmp_path) == {"before_ns": 100, "kernels_ns": 150, "after_ns": 50}


def test_every_real_range_adds_up(trace_path):
    ranges = 0
    for name in ("sdpa", "ddp_rank0", "graph_node", "graph_whole", "mp", "mem", "two_gpus", "gm10k"):
        found, analysis = facts(trace_path(name))
        # Of several instances a comparison takes the median one, so that only single ones have their wall time here.
        single = analysis.ranges[analysis.ranges["instances"] == 1]
        walls = dict(zip(zip(single["range"], single["domain"], strict=True), single["wall_ns"], strict=True))
        for (range_name, domain), each in found.items():
            if each.parts is not None:
                ranges += 1
                assert sum(each.parts.values()) == each.metrics["wall"]
                assert walls.get((range_name, domain), each.metrics["wall"]) == each.metrics["wall"]
                assert min(each.parts.values()) >= 0
    assert ranges > 70


def test_how_many_rows_are_looked_at_together_changes_nothing(trace_path, monkeypatch):
    whole, _ = facts(trace_path("ddp_rank0"))
    monkeypatch.setattr(range_facts, "_ROWS_AT_ONCE", 3)
    in_pieces, _ = facts(trace_path("ddp_rank0"))
    assert in_pieces == whole
    assert any(each.parts["copies_ns"] and each.parts["fills_ns"] for each in whole.values() if each.parts)


def test_what_the_profiler_lost_is_unknown_and_not_zero(trace_path):
    found, _ = facts(trace_path("sdpa22"))
    assert found["RUN::math::S1024", ""].parts is None
    assert found["RUN::math::S1024", ""].metrics["launches"] is None


def test_the_tools_own_range_is_no_range_of_the_program(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1000, "nsysprof 0.1.0", kind=60)
    builder.range(0, 1000, "nsysprof compare")
    builder.launch(10, 1)
    assert [name for name, _ in facts(builder.write(tmp_path / "t.sqlite"))[0]] == ["(whole trace)", "nsysprof compare"]


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "fill", "graph"]), st.integers(0, 900), st.integers(0, 900),
        st.integers(0, 300), st.sampled_from([TID, OTHER_TID]), st.integers(0, 1),
    ),
    max_size=25,
)  # fmt: skip
RANGES = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 600), st.sampled_from("ab"), st.sampled_from([59, 60]),
              st.sampled_from([TID, OTHER_TID])), min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, ranges=RANGES)
def test_parts_add_up_to_the_wall_time_whatever_ran(tmp_path_factory, pieces, ranges):
    builder = TraceBuilder()
    for start, length, name, kind, tid in ranges:
        builder.range(start, start + length, name, kind=kind, tid=tid)
    for number, (kind, at, delay, length, tid, device) in enumerate(pieces, start=1):
        work(builder, number, kind, at + delay, at + delay + length, at=at, tid=tid, device=device)
    found, _ = facts(builder.write(tmp_path_factory.mktemp("t") / "t.sqlite"))
    for each in found.values():
        if each.parts is not None:
            assert sum(each.parts.values()) == each.metrics["wall"]
            assert min(each.parts.values()) >= 0
