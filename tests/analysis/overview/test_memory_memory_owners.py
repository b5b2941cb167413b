"""Owners of memory at the peak add up to it, whatever was allocated and freed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


def owners(builder, folder):
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with open_trace(builder.write(path)) as trace:
        analysis = summarize(read_tables(trace))
    return analysis.memory_owners, analysis.totals.peak_vram_bytes


def test_the_owner_is_the_range_in_which_it_was_allocated(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    builder.allocate(5, 0x1, 100)
    builder.range(10, 20, "forward")
    builder.allocate(12, 0x2, 500)
    builder.range(30, 40, "backward")
    builder.allocate(32, 0x3, 300)
    builder.free(35, 0x2)
    builder.free(50, 0x3)
    table, peaks = owners(builder, tmp_path)
    assert peaks == {0: 900}
    assert table.set_index("owner")["peak_bytes"].to_dict() == {
        "forward": 500, "backward": 300, "(outside every range)": 100
    }  # fmt: skip
    assert table["share_pct"].sum() == pytest.approx(100)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(st.tuples(st.integers(1, 90), st.integers(1, 4), st.integers(1, 50), st.booleans()), max_size=20),
    ranges=st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=3),
)
def test_the_rows_add_up_to_the_peak(events, ranges, tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    for at, address, size, frees in events:
        if frees:
            builder.free(at, address)
        else:
            builder.allocate(at, address, size)
    for number, (begin, lasts) in enumerate(ranges):
        builder.range(begin, begin + lasts, f"r{number}x")
    table, peaks = owners(builder, tmp_path)
    assert table["peak_bytes"].sum() == max((peaks or {}).values(), default=0)
    assert (table["peak_bytes"] > 0).all()


def test_without_memory_events_nothing_is_owned(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    table, peaks = owners(builder, tmp_path)
    assert len(table) == 0
    assert peaks is None
