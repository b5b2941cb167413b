"""Whole analyses of tiny traces: each shows one way in which a count goes wrong elsewhere."""

import sqlite3

import pandas as pd
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.notes import Severity
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, OTHER_TID, PID, TID, TraceBuilder


@pytest.fixture
def analyze(tmp_path):
    def run(builder):
        with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
            return summarize(read_tables(trace))

    return run


def row(analysis, name, style="PushPop"):
    table = analysis.ranges
    (found,) = table[(table["range"] == name) & (table["style"] == style)].to_dict("records")
    return found


def codes(analysis):
    return {note.code: note for note in analysis.notes}


def check_coverage(analysis):
    coverage = analysis.coverage
    assert coverage.kernels == coverage.attributed_kernels + sum(coverage.reasons.values())


def test_a_range_holds_what_its_calls_launched_however_late_the_gpu_ran_it(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "first")
    builder.launch(10, 1, delay=500)
    builder.launch(200, 2, delay=10)
    analysis = analyze(builder)
    assert row(analysis, "first")["kernel_count"] == 1
    assert row(analysis, "first")["projected_ns"] == 50
    assert analysis.coverage.reasons == {"launched outside every range": 1}
    check_coverage(analysis)


def test_correlation_ids_are_unique_per_process_only(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "mine")
    builder.launch(10, 7)
    builder.launch(10, 7, tid=OTHER_PID | 9)
    analysis = analyze(builder)
    assert row(analysis, "mine")["kernel_count"] == 1
    assert analysis.totals.kernel_count == 2
    check_coverage(analysis)


def test_a_backtrace_row_does_not_double_a_kernel(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.launch(10, 1)
    builder.call(10, 20, 1, event_class=67)
    analysis = analyze(builder)
    assert (row(analysis, "a")["kernel_count"], row(analysis, "a")["launch_count"]) == (1, 1)


def test_backward_kernels_of_other_threads_belong_to_the_process_wide_range(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "RUN::flash::S8", kind=60)
    builder.range(0, 100, "RUN::flash::S8", kind=59)
    builder.launch(10, 1)
    builder.launch(20, 2, tid=OTHER_TID)
    builder.launch(20, 3, tid=OTHER_PID | 1)
    analysis = analyze(builder)
    assert row(analysis, "RUN::flash::S8", "StartEnd")["kernel_count"] == 2
    assert row(analysis, "RUN::flash::S8", "PushPop")["kernel_count"] == 1


def test_nested_and_recursive_ranges_count_a_kernel_once_a_name(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "outer")
    builder.range(5, 50, "inner")
    builder.range(6, 40, "inner")
    builder.launch(10, 1)
    analysis = analyze(builder)
    assert row(analysis, "outer")["kernel_count"] == 1
    assert (row(analysis, "inner")["kernel_count"], row(analysis, "inner")["instances"]) == (1, 2)
    assert analysis.coverage.attributed_kernels == 1


def test_total_busy_and_wall_are_three_numbers(analyze):
    builder = TraceBuilder()
    builder.range(0, 1000, "a")
    builder.call(1, 2, 1)
    builder.call(3, 4, 2)
    builder.kernel(100, 200, 1, stream=7)
    builder.kernel(150, 250, 2, stream=8)
    found = row(analyze(builder), "a")
    assert (found["kernel_total_ns"], found["gpu_busy_ns"], found["wall_ns"]) == (200, 150, 1000)
    assert found["projected_ns"] == 150


def test_a_graph_replay_is_one_launch_of_many_kernels(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.call(10, 20, 1, "cudaGraphLaunch_v10000")
    for start in (100, 200, 300):
        builder.kernel(start, start + 10, 1, node=start)
    found = row(analyze(builder), "a")
    assert (found["kernel_count"], found["launch_count"], found["graph_launch_count"]) == (3, 1, 1)


def test_graph_mode_is_not_an_idle_gpu(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.call(10, 20, 1, "cudaGraphLaunch_v10000")
    builder.graph(100, 400, 1)
    analysis = analyze(builder)
    assert row(analysis, "a")["gpu_busy_ns"] == 300
    assert analysis.totals.graph_launch_count == 1
    assert "1 CUDA graph replays" in codes(analysis)["graph-mode"].text
    assert row(analysis, "a")["launch_count"] == 1
    assert pd.isna(row(analysis, "a")["kernel_count"]), "unknown, and not 0"
    assert (analysis.totals.kernel_count, analysis.totals.kernel_total_ns) == (None, None)


def test_replays_that_left_no_record_make_their_range_unknown_and_no_other(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "replays")
    builder.range(200, 300, "kernels")
    builder.call(10, 20, 1, "cudaGraphLaunch_v10000")
    builder.launch(210, 2)
    analysis = analyze(builder)
    unknown = row(analysis, "replays")
    assert all(pd.isna(unknown[c]) for c in ("kernel_count", "gpu_busy_ns", "projected_ns"))
    assert (unknown["launch_count"], unknown["graph_launch_count"], unknown["lost_launch_count"]) == (1, 1, 0)
    assert (row(analysis, "kernels")["kernel_count"], row(analysis, "kernels")["gpu_busy_ns"]) == (1, 50)
    assert analysis.totals.gpu_busy_ns is None
    assert "1 CUDA graph replays were not recorded" in codes(analysis)["graph-mode"].text
    assert "launches-without-kernels" not in codes(analysis)
    check_coverage(analysis)


def test_a_measured_range_of_silent_replays_is_unknown_and_not_lost(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "RUN::math::S8")
    builder.range(200, 300, "RUN::flash::S8")
    builder.call(10, 20, 1, "cudaGraphLaunch_v10000")
    builder.launch(210, 2)
    analysis = analyze(builder)
    assert analysis.losses == ()
    assert not [note for note in analysis.notes if note.severity is Severity.ERROR]


def test_calls_whose_name_is_not_in_the_strings(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.call(50, 60, 2)
    for _, rows in builder.tables.values():
        rows[:] = [tuple(-1 if value == builder.strings["cudaLaunchKernel_v7000"] else value for value in row)
                   for row in rows] if len(rows[0]) == 7 else rows  # fmt: skip
    assert analyze(builder).api["calls"].tolist() == [2]


def test_a_program_that_only_copies_has_no_kernels_and_known_bytes(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "copy")
    builder.call(10, 20, 1, "cudaMemcpy_v3020")
    builder.copy(30, 60, 1, 4096)
    analysis = analyze(builder)
    found = row(analysis, "copy")
    assert (found["kernel_count"], found["memcpy_bytes"], found["gpu_busy_ns"]) == (0, 4096, 30)
    assert analysis.totals.kernel_count == 0
    assert codes(analysis)["no-kernels"].severity is Severity.INFO


def test_calls_without_any_gpu_record_prove_nothing(analyze):
    builder = TraceBuilder()
    builder.gpu()
    builder.range(0, 100, "step")
    builder.call(10, 20, 1, "cudaStreamSynchronize_v3020")
    analysis = analyze(builder)
    assert codes(analysis)["no-kernels"].severity is Severity.WARNING
    assert analysis.totals.kernel_count is None
    assert row(analysis, "step").keys() >= {"kernel_count"} and pd.isna(row(analysis, "step")["memcpy_bytes"])


def test_lost_kernels_do_not_take_the_memory_along(analyze):
    builder = TraceBuilder()
    builder.gpu()
    builder.range(0, 100, "RUN::math::S8")
    builder.allocate(5, 1, 999)
    analysis = analyze(builder)
    assert row(analysis, "RUN::math::S8")["peak_vram_bytes"] == 999
    assert pd.isna(row(analysis, "RUN::math::S8")["gpu_busy_ns"])


def test_one_name_under_two_ids_is_one_kernel(analyze, tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1, name="x")
    builder.launch(100, 2, name="y")
    path = builder.write(tmp_path / "twice.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE StringIds SET value = 'same(int)' WHERE value LIKE '_(int)'")
    database.close()
    with open_trace(path) as trace:
        analysis = summarize(read_tables(trace))
    assert analysis.kernels[["name", "instances", "total_ns"]].to_numpy().tolist() == [["same(int)", 2, 100]]


def test_launches_into_a_graph_being_captured_are_not_lost_kernels(analyze):
    builder = TraceBuilder()
    builder.launch(0, 1)
    builder.call(100, 110, 2, "cudaStreamBeginCapture_v10000")
    builder.call(120, 130, 3)
    builder.call(140, 150, 4, "cudaStreamEndCapture_v10000")
    assert analyze(builder).coverage.launches_without_gpu_record == 0


def test_lost_kernels_are_an_error_with_the_next_step(analyze):
    builder = TraceBuilder()
    builder.launch(0, 1)
    builder.call(1000, 1010, 2)
    analysis = analyze(builder)
    note = codes(analysis)["launches-without-kernels"]
    assert "1 of 2 kernel launches" in note.text
    assert [loss.note for loss in analysis.losses] == [note]
    assert note.severity is Severity.ERROR
    assert "newer nsys" in note.next_step


@pytest.mark.parametrize(
    ("last_end", "last_launch", "is_cut"), [(900, 200, True), (900, 1000, True), (900, 5000, False), (250, 5000, False)]
)
def test_launches_that_the_end_of_the_recording_overtook_are_told_from_lost_ones(
    analyze, last_end, last_launch, is_cut
):
    builder = TraceBuilder()
    builder.call(0, 10, 1)
    builder.kernel(20, last_end, 1)
    builder.call(100, 110, 2)
    builder.call(last_launch, last_launch + 10, 3)
    note = codes(analyze(builder))["launches-without-kernels"]
    assert "2 of 3 kernel launches" in note.text
    assert ("recording ended before they had run" in note.text) == is_cut
    assert ("synchronize" in note.next_step) == is_cut
    assert note.severity is Severity.ERROR


def test_a_lost_kernel_before_others_is_lost_however_busy_the_gpu_was(analyze):
    builder = TraceBuilder()
    builder.call(0, 10, 1)
    builder.launch(100, 2, delay=900)
    assert "newer nsys" in codes(analyze(builder))["launches-without-kernels"].next_step


def test_measured_ranges_without_kernels_are_lost_and_their_counts_unknown(analyze):
    builder = TraceBuilder()
    builder.gpu()
    builder.range(0, 100, "RUN::math::S8")
    analysis = analyze(builder)
    assert codes(analysis)["no-kernels"].severity is Severity.ERROR
    assert analysis.totals.kernel_count is None
    assert analysis.ranges["kernel_count"].isna().all()
    assert row(analysis, "RUN::math::S8")["wall_ns"] == 100


def test_a_machine_without_a_gpu_lost_nothing(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "RUN::math::S8")
    note = codes(analyze(builder))["no-gpu"]
    assert note.severity is Severity.WARNING


def test_copies_fills_and_page_migrations_are_apart(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.launch(1, 9)
    builder.call(10, 20, 1, "cudaMemcpyAsync_v3020")
    builder.copy(100, 200, 1, 4096, kind=1)
    builder.call(30, 40, 2, "cudaMemsetAsync_v3020")
    builder.fill(200, 250, 2, 64)
    builder.copy(300, 310, 0, 65536, kind=11)
    analysis = analyze(builder)
    assert (row(analysis, "a")["memcpy_bytes"], row(analysis, "a")["memset_bytes"]) == (4096, 64)
    assert analysis.totals.memcpy_bytes == {
        "[CUDA memcpy Host-to-Device]": 4096,
        "[CUDA memcpy Unified Host-to-Device]": 65536,
    }
    assert analysis.memops["operation"].tolist() == [
        "[CUDA memcpy Host-to-Device]", "[CUDA memset]", "[CUDA memcpy Unified Host-to-Device]",
    ]  # fmt: skip
    totals = analysis.totals
    assert (totals.migration_count, totals.migration_total_ns, totals.migration_bytes) == (1, 10, 65536)
    assert (totals.gpu_busy_ns, totals.gpu_busy_with_migrations_ns) == (150, 160)
    note = codes(analysis)["migrations"]
    assert "in no range and in no busy time" in note.text
    assert note.severity == "warning"


def test_nothing_is_said_of_migrations_where_there_are_none(analyze):
    builder = TraceBuilder()
    builder.launch(1, 9)
    analysis = analyze(builder)
    assert "migrations" not in codes(analysis)
    assert analysis.totals.gpu_busy_with_migrations_ns == analysis.totals.gpu_busy_ns == 50


def test_open_ranges_end_with_the_trace_and_are_said(analyze):
    builder = TraceBuilder()
    builder.range(0, None, "open")
    builder.launch(1000, 1)
    analysis = analyze(builder)
    assert row(analysis, "open")["kernel_count"] == 1
    assert "1 NVTX ranges were never closed" in codes(analysis)["open-ranges"].text


def test_impossible_times_are_dropped_and_counted(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.kernel(0, 0, 2)
    builder.kernel(500, 400, 3)
    builder.kernel(0, 2**63 - 1, 4)
    builder.range(50, 40, "backwards")
    analysis = analyze(builder)
    assert analysis.totals.kernel_count == 1
    assert codes(analysis)["impossible-times"].text.startswith("3 rows")
    assert "impossible-ranges" in codes(analysis)


def test_a_kernel_without_a_launch_record_stays_in_the_totals(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.launch(10, 1)
    builder.kernel(500, 600, 99)
    builder.kernel(700, 800, None)
    analysis = analyze(builder)
    assert analysis.totals.kernel_count == 3
    assert analysis.coverage.reasons == {"no launch record": 2}
    check_coverage(analysis)


def test_peak_memory_by_device_and_range_without_host_kinds(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.range(100, 200, "small")
    builder.range(300, 400, "large")
    builder.allocate(50, 0x1, 100)
    builder.allocate(60, 0x9, 10**9, kind=1)
    builder.allocate(310, 0x2, 1000)
    builder.free(320, 0x2)
    builder.free(330, 0x7)
    analysis = analyze(builder)
    assert analysis.totals.peak_vram_bytes == {0: 1100}
    assert row(analysis, "small")["peak_vram_bytes"] == 100, "what is held at the start counts"
    assert row(analysis, "large")["peak_vram_bytes"] == 1100
    assert "1 frees" in codes(analysis)["unmatched-frees"].text


def test_the_memory_of_a_dead_process_is_not_its_successors(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1, tid=OTHER_PID | 1)
    builder.allocate(50, 0x1, 10**6, pid=OTHER_PID)
    builder.range(1000, 2000, "RUN::math::S8", kind=60)
    builder.launch(1010, 1)
    builder.allocate(1005, 0x1, 300, pid=PID)
    analysis = analyze(builder)
    assert row(analysis, "RUN::math::S8", "StartEnd")["peak_vram_bytes"] == 300
    assert analysis.totals.peak_vram_bytes == {0: 10**6}


def test_no_memory_events_is_unknown_and_not_zero(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "a")
    builder.launch(10, 1)
    analysis = analyze(builder)
    assert analysis.totals.peak_vram_bytes is None
    assert analysis.ranges["peak_vram_bytes"].isna().all()
    assert "--cuda-memory-usage" in codes(analysis)["no-memory-usage"].text


def test_a_trace_without_nvtx_still_counts_its_kernels(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1)
    analysis = analyze(builder)
    assert "no-nvtx" in codes(analysis)
    assert len(analysis.ranges) == 0
    assert analysis.kernels["instances"].tolist() == [1]
    check_coverage(analysis)


def test_the_embedded_profilers_operators_are_called_so(analyze):
    builder = TraceBuilder()
    builder.fact("NSYSPROF:TOOL", "torch")
    builder.fact("NSYSPROF:WORK_KIND", "operator")
    builder.fact("NSYSPROF:MEMORY_KIND", "allocator")
    builder.launch(10, 1, name="aten::bmm")
    analysis = analyze(builder)
    assert (analysis.trace.tool, analysis.trace.work_kind) == ("torch", "operator")
    assert {"cpu-operators", "allocator-memory"} <= set(codes(analysis))


def test_streams_of_one_number_in_two_processes_are_apart(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1, tid=TID)
    builder.launch(10, 1, tid=OTHER_PID | 1)
    assert sorted(analyze(builder).timeline.gpu["stream"]) == ["pid 100 stream 7", "pid 200 stream 7"]


def test_restricted_exports_and_the_words_of_nsys_are_passed_on(analyze):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.fact("EXPORT_PARAM_TABLES_TO_EXPORT", "CUPTI", "META_DATA_EXPORT")
    assert "TABLES_TO_EXPORT" in codes(analyze(builder))["partial-export"].text


@pytest.mark.parametrize(
    ("tables", "is_known"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL,CUPTI_ACTIVITY_KIND_RUNTIME,NVTX_EVENTS", False),
        ("CUPTI_ACTIVITY_KIND_*", True),
        ("", True),
    ],
)
def test_idle_time_is_unknown_where_the_export_leaves_tables_of_work_out(analyze, tables, is_known):
    builder = TraceBuilder()
    for number in range(1, 9):
        builder.launch(1_000_000 * number, number)
        builder.kernel(1_000_000 * number + 5_000, 1_000_000 * number + 90_000, number)
    builder.fact("EXPORT_PARAM_TABLES_TO_EXPORT", tables, "META_DATA_EXPORT")
    found = analyze(builder)
    assert (set(found.idle.table["cause"]) == {"unknown"}) is not is_known
    assert found.no_findings == ("" if is_known else "the export leaves out tables of GPU work")


@pytest.mark.parametrize(
    ("severity", "text", "code", "level"),
    [
        (2, "Not all CUDA events might have been collected, see /home/x/y.log", "events-lost", Severity.WARNING),
        (2, "Installed CUDA driver version (13.0) is not supported by this build of Nsight Systems.",
         "driver-newer-than-nsys", Severity.WARNING),
        (3, "Sampling buffer overflow on C:\\Users\\x\\f", "sampling-overflow", Severity.ERROR),
        (2, "Failed to open the file '/root/x'", "collection-failed", Severity.WARNING),
        (3, "Something new", "nsys-diagnostic", Severity.ERROR),
        (2, "No NVTX events collected. Does the process use NVTX?", None, None),
        (1, "Number of CUDA events collected: 8,817.", None, None),
    ],
)  # fmt: skip
def test_what_nsys_says_has_a_code_a_severity_and_a_next_step(analyze, severity, text, code, level):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.row("DIAGNOSTIC_EVENT", "severity INTEGER, text TEXT", (severity, text))
    builder.row("DIAGNOSTIC_EVENT", "severity INTEGER, text TEXT", (severity, text))
    said = [note for note in analyze(builder).notes if note.text.startswith("nsys says")]
    assert [(note.code, note.severity) for note in said] == ([(code, level)] if code else []), "once, not twice"
    for note in said:
        assert note.next_step
        assert not any(private in note.text for private in ("home", "Users", "root"))


def test_sampled_dram_traffic_has_its_error_bar_in_the_range(trace_path):
    with open_trace(trace_path("gm10k")) as trace:
        analysis = summarize(read_tables(trace))
    row = analysis.ranges.set_index("range").loc["RUN::math::S4096"]
    # Softmax, mask and scores of 8 heads are read and written once at the least: see docs/dram.md.
    assert row["dram_read_bytes"] == pytest.approx(792e9, abs=1e9)
    assert 0 < row["dram_read_error_bytes"] < 0.02 * row["dram_read_bytes"]
    codes = {note.code for note in analysis.notes}
    assert {"dram-sampled", "dram-device-wide"} <= codes
    assert "no-dram-counters" not in codes


def test_nested_ranges_are_inclusive_and_exclusive(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "outer")
    builder.range(20, 60, "inner")
    builder.range(30, 40, "inner")
    builder.range(0, 100, "all", kind=60)
    for start, correlation in ((10, 1), (25, 2), (35, 3), (70, 4)):
        builder.launch(start, correlation)
    ranges = analyze(builder).ranges.set_index("range")
    assert ranges["kernel_count"].to_dict() == {"outer": 4, "inner": 2, "all": 4}
    assert ranges["exclusive_kernel_count"].dropna().to_dict() == {"outer": 2, "inner": 2}
    assert ranges["exclusive_kernel_total_ns"].sum() == ranges.loc["outer", "kernel_total_ns"], "exclusive adds up"
    assert ranges["exclusive_kernel_count"].isna()["all"], "start/end ranges do not nest"


def test_kernels_of_another_thread_have_their_reason(analyze):
    builder = TraceBuilder()
    builder.range(0, 100, "backward")
    builder.launch(10, 1)
    builder.launch(20, 2, tid=OTHER_TID)
    builder.launch(200, 3)
    builder.call(30, 95, 4, "cudaDeviceSynchronize_v3020")
    coverage = analyze(builder).coverage
    assert (coverage.attributed_kernels, coverage.adopted_kernels) == (1, 0)
    assert coverage.reasons == {
        "launched by a thread without a range while no other thread waited inside one": 1,
        "launched outside every range": 1,
    }


def test_copies_have_their_bandwidth_and_the_kind_of_host_memory(tmp_path):
    made = TraceBuilder()
    made.copy(0, 100, 1, 1000, host=0)
    made.copy(200, 300, 2, 3000, host=1)
    made.copy(400, 410, 3, 64, kind=8)
    with open_trace(made.write(tmp_path / "t.sqlite")) as trace:
        found = summarize(read_tables(trace)).memops.set_index("operation")
    up, across = found.loc["[CUDA memcpy Host-to-Device]"], found.loc["[CUDA memcpy Device-to-Device]"]
    assert (up["bytes_per_s"], up["pageable_count"], up["pinned_count"]) == (2e10, 1, 1)
    assert across["bytes_per_s"] == 6.4e9
    assert across[["pageable_count", "pinned_count"]].isna().all()
