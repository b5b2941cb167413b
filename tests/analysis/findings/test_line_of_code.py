"""Findings name the line that most samples during their calls show, and none where no line stands out."""

import numpy as np
import pytest

from nsysprof.analysis.findings.line_of_code import THREAD_BITS
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.results.findings import StackSamples
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program
from tests.builders.build_trace import TID

LINES = ("train.py:7", "train.py:12", "loader.py:3")


def training():
    """Return steps with a wait of 5 ms, and when the host waits."""
    program, waits = Program(), []
    for _ in range(8):
        begin = program.now
        for _ in range(10):
            program.launch(500 * US)
        start = program.now
        program.wait()
        waits.append((start, program.now))
        program.host(8 * MS)
        program.step(begin)
    return program.builder, waits


def location(folder, builder, samples, code="sync"):
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with open_trace(builder.write(path)) as trace:
        findings = summarize(read_tables(trace), stacks=samples).findings
    return next(item.location for item in findings.items if item.code == code)


def test_a_line_says_how_many_of_its_samples_show_it(tmp_path):
    builder, waits = training()
    all_of = sampled(waits, 1)
    line = np.where(np.arange(len(all_of.line)) % 4 == 0, 2, 1)
    samples = StackSamples(all_of.time_ns, all_of.thread, line, LINES)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        found = summarize(read_tables(trace), stacks=samples).findings
    sync = next(item for item in found.items if item.code == "sync")
    assert sync.location == "train.py:12"
    assert sync.location_share_pct == pytest.approx(75, abs=5)
    assert found.has_stacks
    assert all(item.location_share_pct is None for item in found.items if not item.location)


def sampled(waits, line, *, thread=TID & THREAD_BITS, every=1 * MS):
    times = np.concatenate([np.arange(start, end, every) for start, end in waits])
    return StackSamples(times, np.full(len(times), thread), np.full(len(times), line), LINES)


def test_a_wait_is_on_its_line_and_host_work_on_another(tmp_path):
    builder, waits = training()
    inside = sampled(waits, 1)
    after = sampled([(end + 10 * US, end + 8 * MS) for _, end in waits], 2)
    both = [np.concatenate(pair) for pair in zip(
        (inside.time_ns, inside.thread, inside.line), (after.time_ns, after.thread, after.line), strict=True
    )]  # fmt: skip
    order = np.argsort(both[0])
    samples = StackSamples(*(column[order] for column in both), LINES)
    assert location(tmp_path, builder, samples) == "train.py:12"
    assert location(tmp_path, builder, samples, "host-bound") == "loader.py:3"


def test_nothing_is_named_without_samples_of_the_thread(tmp_path):
    builder, waits = training()
    assert location(tmp_path, builder, None) == ""
    assert location(tmp_path, builder, sampled(waits, 1, thread=99)) == ""
    assert location(tmp_path, builder, sampled(waits, -1)) == ""
    assert location(tmp_path, builder, sampled(waits[-1:], 1, every=3 * MS)) == ""


def test_nothing_is_named_where_no_line_stands_out(tmp_path):
    builder, waits = training()
    samples = sampled(waits, 0)
    lines = tuple(f"train.py:{number}" for number in range(10))
    spread = StackSamples(samples.time_ns, samples.thread, np.arange(len(samples.line)) % 10, lines)
    assert location(tmp_path, builder, spread) == ""


def test_memory_that_is_given_back_in_the_loop_is_on_the_line_that_gives_it_back(tmp_path):
    program, spent = Program(), {"cudaMalloc_v3020": [], "cudaFree_v3020": []}
    for _ in range(8):
        begin = program.now
        for name, times in spent.items():
            start = program.now
            program.call(name, 6 * MS if "Malloc" in name else 3 * MS)
            times.append((start, program.now))
            for _ in range(5):
                program.launch(500 * US)
        program.step(begin)
    allocated, freed = (sampled(times, line) for times, line in zip(spent.values(), (0, 1), strict=True))
    order = np.argsort(np.concatenate([allocated.time_ns, freed.time_ns]))
    both = (np.concatenate(pair)[order] for pair in zip(
        (allocated.time_ns, allocated.thread, allocated.line), (freed.time_ns, freed.thread, freed.line), strict=True
    ))  # fmt: skip
    assert location(tmp_path, program.builder, StackSamples(*both, LINES), "alloc-in-loop") == "train.py:12"


def test_a_native_function_is_named_where_no_line_of_python_is(tmp_path):
    builder, waits = training()
    middle = np.array([(start + end) // 2 for start, end in waits])
    native = StackSamples(
        middle, np.full(len(middle), TID & THREAD_BITS), np.zeros(len(middle), np.int64), ("f (app)",)
    )
    without = StackSamples(middle[:0], middle[:0], middle[:0], (), native)
    assert location(tmp_path, builder, without) == "f (app)"
    lines = sampled(waits, 1)
    both = StackSamples(lines.time_ns, lines.thread, lines.line, LINES, native)
    assert location(tmp_path, builder, both) == "train.py:12"


def taken(times, line, waits=None):
    times = np.array(sorted(times))
    return StackSamples(times, np.full(len(times), TID & THREAD_BITS), np.full(len(times), line), LINES, waits=waits)


def test_a_fault_of_short_calls_is_on_the_line_that_loaded_its_kernels_in_the_first_step(tmp_path):
    program, loading = Program(), []
    for step in range(8):
        begin = program.now
        for _ in range(4):
            program.launch(100 * US, "gemm_qk")
            if step == 0:
                loading.append(program.now)
                program.call("cuLibraryGetKernel", 3 * MS)
            program.launch(300 * US, "softmax_warp_forward")
            program.launch(100 * US, "gemm_pv")
            program.launch(500 * US, "gemm_mlp")
        program.step(begin)
    moments = [start + k * MS for start in loading for k in range(3)]
    assert location(tmp_path, program.builder, taken(moments, 1), "unfused-attention") == "train.py:12"
    # The line of the host's work that the call before led to is another matter.
    late = [start - 1 for start in loading]
    assert location(tmp_path, program.builder, taken(late, 1), "unfused-attention") == ""


def test_a_sleep_before_the_launches_is_not_their_line(tmp_path):
    program, asleep = Program(), []
    for _ in range(8):
        begin = program.now
        program.launch(100 * US)
        asleep += range(program.now + US, program.now + 8 * MS, MS)
        program.host(8 * MS)
        for _ in range(400):
            program.launch(1 * US, "small")
            program.host(20 * US)
        program.step(begin)
    samples = taken(asleep, 2)
    assert location(tmp_path, program.builder, samples, "host-bound") == "loader.py:3"
    assert location(tmp_path, program.builder, samples, "launch-bound") == ""


def test_a_stream_that_waits_is_on_the_line_that_told_it_to(tmp_path):
    program, marks = Program(), []

    def wait(stream, other, line):
        program.host(50 * US)
        marks.append((program.now - 20 * US, line))  # the clock of stacks is not exactly the trace's
        program.wait_stream(stream, other)

    for _ in range(8):
        begin = program.now
        wait(8, 7, line=0)
        program.launch(2 * MS, "prepare", stream=8)
        wait(7, 8, line=1)
        for _ in range(10):
            program.launch(500 * US)
        wait(9, 7, line=2)
        program.step(begin)
    marked = taken([time for time, _ in marks], 0)
    told = StackSamples(marked.time_ns, marked.thread, np.array([line for _, line in marks]), LINES)
    samples = taken([time + 70 * US for time, _ in marks], 2, told)
    assert location(tmp_path, program.builder, samples, "stream-dependency") == "train.py:12"
    # Without them it is not guessed from what the thread did around it.
    assert location(tmp_path, program.builder, taken(samples.time_ns, 2), "stream-dependency") == ""
