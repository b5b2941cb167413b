"""What each stream ran: sums over streams are those of the trace, and threads are those that launched."""

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables


def test_streams_of_three_threads_hold_what_each_launched(trace_path):
    with open_trace(trace_path("h200-programs/threads")) as trace:
        found = summarize(read_tables(trace))
    streams = found.streams
    # threads 50: one thread copies 16 MiB a round, one waits for each of its kernels, one allocates around each.
    assert streams["kernel_count"].tolist() == [50, 50, 50]
    assert streams["threads"].tolist() == [1, 1, 1]
    assert streams["memcpy_bytes"].tolist() == [50 * (16 << 20), 0, 0]
    assert streams["kernel_total_ns"].sum() == found.totals.kernel_total_ns
    assert (streams["busy_ns"] <= streams["span_ns"]).all()


def test_a_trace_of_no_work_has_no_streams(trace_path):
    with open_trace(trace_path("sdpa22")) as trace:
        assert len(summarize(read_tables(trace)).streams) == 0
