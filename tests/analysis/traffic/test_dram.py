"""DRAM bytes of ranges: nothing is lost or made up, and the error bar holds the truth."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.traffic.dram import (
    GAPS,
    KNOWN,
    NO_COUNTER,
    SHORT,
    dram_in_groups,
    dram_in_ranges,
    dram_notes,
    drop_dead,
    gpus_of_used,
)
from nsysprof.notes import Severity
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import DramSeries, GpuMetrics
from nsysprof.trace.table_readers.gpus import read_gpu_metrics, read_gpus
from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder

# With it, one percent through one nanosecond is one byte.
PEAK = 10**11


def ints(*values):
    return np.array(values, dtype=np.int64)


def series(time, read, write=None, *, gpu=0, peak=PEAK, period=None, sm=100):
    time, read = np.asarray(time, np.int64), np.asarray(read, np.int16)
    write = np.zeros_like(read) if write is None else np.asarray(write, np.int16)
    return DramSeries(gpu, gpu, peak, period or int(np.median(np.diff(time))), time, read, write, sm, 0)


def metrics(*all_series, clock_error_ns=0):
    """Return metrics whose clock is that of the work, unless another error is given."""
    return GpuMetrics(all_series, clock_error_ns=clock_error_ns)


def codes(notes):
    return [note.code for note in notes]


STEADY = metrics(series(range(0, 1000, 100), [10] * 10, [20] * 10))


def test_whole_samples_have_the_rounding_error_alone():
    traffic = dram_in_ranges(STEADY, ints(200), ints(700))
    assert (traffic.read_bytes, traffic.read_error_bytes) == (10 * 500, 250)
    assert (traffic.write_bytes, traffic.write_error_bytes) == (20 * 500, 250)
    assert (traffic.sampled_ns, traffic.missing_ns, traffic.reason) == (500, 0, KNOWN)


def test_a_value_is_of_the_time_after_its_timestamp():
    burst = metrics(series((0, 100, 200), (0, 80, 0)))
    traffic = dram_in_ranges(burst, ints(0, 100, 200), ints(100, 200, 300))
    assert traffic.read_bytes.tolist() == [0, 8000, 0]


def test_a_sample_that_is_covered_in_part_may_have_moved_its_bytes_anywhere():
    # 10 +-0.5 percent of 100 ns fit into 10.5 ns at full speed: in the range, or outside of it.
    traffic = dram_in_ranges(STEADY, ints(150), ints(300))
    assert (traffic.read_bytes, traffic.read_error_bytes) == (1500, 50 + (1050 - 500))
    # At the highest rate that was seen, +0.5, every nanosecond is taken, and half a percent is all that can shift.
    full = metrics(series((0, 100, 200), (100, 100, 100)))
    traffic = dram_in_ranges(full, ints(50), ints(200))
    assert (traffic.read_bytes, traffic.read_error_bytes) == (15000, 50 + 75)


def test_a_range_within_one_sample_is_too_short_to_say():
    traffic = dram_in_ranges(STEADY, ints(220, 300, 400), ints(280, 300, 500))
    assert traffic.reason.tolist() == [SHORT, SHORT, KNOWN]
    assert traffic.read_bytes.tolist() == [600, 0, 1000]
    assert traffic.known.tolist() == [False, False, True]


def test_the_time_of_a_lost_sample_is_counted_and_not_filled():
    gap = metrics(series((0, 100, 200, 500, 600), (10, 10, 10, 10, 10)))
    traffic = dram_in_ranges(gap, ints(0, 0, 300), ints(700, 300, 500))
    assert traffic.sampled_ns.tolist() == [500, 300, 0]
    assert traffic.missing_ns.tolist() == [200, 0, 200]
    assert traffic.read_bytes.tolist() == [5000, 3000, 0]
    assert traffic.reason.tolist() == [GAPS, KNOWN, GAPS]
    assert traffic.read_error_bytes[0] == 250 + 100 * 200, "what was not seen may have been full speed"
    (note,) = [note for note in dram_notes(gap, None) if note.code == "dram-gaps"]
    assert note.text.startswith("1 gaps in the DRAM samples of GPU 0 hide 0.000 ms")


def test_a_small_gap_widens_the_error_bar_only():
    gap = metrics(series([*range(0, 2000, 100), *range(2100, 4000, 100)], [10] * 39))
    traffic = dram_in_ranges(gap, ints(0), ints(4000))
    assert (traffic.reason, traffic.missing_ns) == (KNOWN, 100)
    assert (traffic.read_bytes, traffic.read_error_bytes) == (39000, 1950 + 100 * 100)


def test_a_period_that_jitters_is_taken_as_it_is():
    jitter = metrics(series((0, 98, 200, 301), (10, 20, 30, 40)))
    traffic = dram_in_ranges(jitter, ints(0), ints(401))
    assert traffic.read_bytes == 98 * 10 + 102 * 20 + 101 * 30 + 100 * 40
    assert traffic.missing_ns == 0


def test_before_and_after_the_samples_nothing_is_known():
    traffic = dram_in_ranges(STEADY, ints(-500, 900, 5000), ints(0, 2000, 6000))
    assert traffic.read_bytes.tolist() == [0, 1000, 0]
    assert traffic.missing_ns.tolist() == [500, 1000, 1000]
    assert traffic.reason.tolist() == [GAPS] * 3


TIMES = st.lists(st.integers(-300, 1500), min_size=2, max_size=30, unique=True)


@given(TIMES, st.lists(st.integers(0, 100), min_size=10, max_size=10), st.sets(st.integers(1, 8), max_size=5))
def test_ranges_that_tile_the_trace_add_up_to_its_whole(cuts, percents, lost):
    kept = [i for i in range(10) if i not in lost]
    sampled = metrics(series([100 * i for i in kept], [percents[i] for i in kept], period=100))
    cuts = np.array(sorted([-300, *cuts, 1500]), dtype=np.int64)
    parts = dram_in_ranges(sampled, cuts[:-1], cuts[1:])
    assert parts.read_bytes.sum() == 100 * sum(percents[i] for i in kept)
    assert parts.sampled_ns.sum() == 100 * len(kept)
    assert (parts.sampled_ns + parts.missing_ns).tolist() == (cuts[1:] - cuts[:-1]).tolist()


SIGNAL = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 100_000)), min_size=1, max_size=40)
SPANS = st.lists(st.tuples(st.integers(-20, 220), st.integers(0, 120), st.integers(0, 2)), min_size=1, max_size=12)


SHIFT = st.sampled_from((-200, -100, 0, 100, 200))


@given(SIGNAL, st.integers(2, 25), SPANS, st.randoms(use_true_random=False), st.booleans(), SHIFT)
def test_the_error_bar_holds_the_truth(signal, period, spans, source, lossy, shift):
    """A true rate, constant for some ticks of 10 ns each, is sampled, rounded, partly lost, and asked for in spans.

    The clock of the samples is off by `shift`, of at most 200 ns.
    """
    rate = np.repeat([value for _, value in signal], [ticks for ticks, _ in signal]) / 1000
    moved = np.concatenate(([0], np.cumsum(rate))) * 10
    edges = np.arange(0, len(rate) + 1, period)
    if len(edges) < 3:
        return
    percent = np.rint(np.diff(moved[edges]) / (10 * period))
    kept = np.array([not lossy or source.random() < 0.8 for _ in percent])
    if kept.sum() < 2:
        return
    moments = edges[:-1][kept] * 10 + shift
    sampled = metrics(series(moments, percent[kept], period=10 * period), clock_error_ns=200)
    start, length, group = np.array(spans, dtype=np.int64).T
    end = start + length

    def truth(covered):
        return rate[covered[: len(rate)]].sum() * 10

    ticks = np.arange(max(len(rate), int(end.max()), 1))
    inside = (ticks >= start[:, None]) & (ticks < end[:, None])
    traffic = dram_in_ranges(sampled, start * 10, end * 10)
    for i in range(len(start)):
        assert abs(traffic.read_bytes[i] - truth(inside[i])) <= traffic.read_error_bytes[i] + 1
    grouped = dram_in_groups(sampled, start * 10, end * 10, group, 3)
    for g in range(3):
        covered = inside[group == g].any(axis=0) if (group == g).any() else np.zeros(len(ticks), bool)
        assert abs(grouped.read_bytes[g] - truth(covered)) <= grouped.read_error_bytes[g] + 1


def test_where_bytes_move_at_an_edge_the_clock_widens_the_bar():
    pulse = series((0, 100, 200, 300), (0, 80, 80, 0))
    # 20 ns at 80 percent move out; the interval then has a part of the samples at its ends, whose rest is unknown.
    for clock, least, most in ((0, 100, 100), (20, 20 * 80, 20 * 80 + 2 * 1000)):
        traffic = dram_in_ranges(metrics(pulse, clock_error_ns=clock), ints(100), ints(300))
        assert traffic.read_bytes == 16000
        assert least <= traffic.read_error_bytes <= most


@given(SPANS)
def test_a_group_counts_the_union_of_its_instances(spans):
    start, length, group = np.array(spans, dtype=np.int64).T
    time = np.arange(-20, 340)
    values = np.arange(360) % 90
    sampled = metrics(series(time, values))
    traffic = dram_in_groups(sampled, start, start + length, group, 3)
    for g in range(3):
        covered = {t for s, n, owner in spans if owner == g for t in range(s, s + n)}
        assert traffic.read_bytes[g] == sum(int(values[t + 20]) for t in covered)
        assert traffic.sampled_ns[g] == len(covered)


def test_error_bars_of_instances_add_up_and_do_not_average_out():
    traffic = dram_in_groups(STEADY, ints(0, 300, 600), ints(200, 500, 800), ints(0, 0, 0), 1)
    assert (traffic.read_bytes, traffic.read_error_bytes) == (6000, 3 * 100)


def test_instances_of_one_group_that_touch_have_no_edge_between_them():
    traffic = dram_in_groups(STEADY, ints(100, 250), ints(250, 400), ints(0, 0), 1)
    assert (traffic.read_bytes, traffic.read_error_bytes) == (3000, 150)


def test_many_instances_shorter_than_a_sample_say_nothing_together():
    start = np.arange(0, 1000, 50, dtype=np.int64)
    traffic = dram_in_groups(STEADY, start, start + 20, np.zeros(20, np.int64), 1)
    assert (traffic.reason, traffic.sampled_ns) == (SHORT, 400)
    assert traffic.read_error_bytes > traffic.read_bytes


def test_each_process_has_the_gpus_that_it_used():
    two = metrics(series((0, 100), (10, 10), gpu=0), series((0, 100), (30, 30), gpu=1))
    used = np.array([(PID, 0), (OTHER_PID, 0), (OTHER_PID, 1)], dtype=np.int64)
    pids = ints(PID, OTHER_PID)
    traffic = dram_in_ranges(two, ints(0, 0), ints(200, 200), pids, used)
    assert traffic.read_bytes.tolist() == [2000, 8000]
    assert traffic.sampled_ns.tolist() == [200, 400]
    together = dram_in_groups(two, ints(0, 0), ints(200, 200), ints(0, 0), 1, pids, used)
    assert together.read_bytes == 8000, "the GPU that both used counts once"
    assert dram_in_ranges(two, ints(0), ints(200)).read_bytes == 8000, "all GPUs, without a process"


@pytest.mark.parametrize("used", [[(PID, 0), (PID, 5)], [(OTHER_PID, 0)]])
def test_a_process_on_gpus_without_counters_is_unknown(used):
    traffic = dram_in_ranges(STEADY, ints(0), ints(200), ints(PID), np.array(used, dtype=np.int64))
    assert traffic.reason.tolist() == [NO_COUNTER]


def test_without_a_peak_or_any_series_bytes_are_unknown():
    for unusable in (metrics(series((0, 100), (10, 10), peak=None)), metrics()):
        traffic = dram_in_ranges(unusable, ints(0), ints(200))
        assert traffic.reason.tolist() == [NO_COUNTER]
        assert "dram-sampled" not in codes(dram_notes(unusable, traffic))


def test_no_ranges_at_all():
    traffic = dram_in_ranges(STEADY, ints(), ints(), ints(), np.zeros((0, 2), np.int64))
    assert len(traffic) == 0
    assert codes(dram_notes(STEADY, traffic)) == ["dram-sampled", "dram-device-wide"]


@pytest.mark.parametrize(
    ("sm", "said"),
    [(0, "and so are the SM counters"), (90, "up to 90 % active"), (None, "so they were not running")],
)
def test_counters_that_stay_zero_while_kernels_run_are_dead(sm, said):
    dead = metrics(series(range(0, 3000, 100), [0] * 30, sm=sm), series((0, 100), (5, 5), gpu=1))
    live, (note,) = drop_dead(dead, ints(0), ints(2000), ints(0))
    assert [each.gpu for each in live.series] == [1]
    assert (note.code, note.severity) == ("dram-counters-dead", Severity.WARNING)
    assert said in note.text
    assert "0.002 ms" in note.text
    used = np.array([(PID, 0)], dtype=np.int64)
    assert dram_in_ranges(live, ints(0), ints(1000), ints(PID), used).reason.tolist() == [NO_COUNTER]


def test_zeros_are_no_sign_of_death_while_little_runs_there():
    idle = metrics(series(range(0, 3000, 100), [0] * 30))
    for start, end, gpu in ((0, 900, 0), (0, 2000, 1), (5000, 9000, 0), (-9000, 0, 0)):
        live, notes = drop_dead(idle, ints(start), ints(end), ints(gpu))
        assert (live.series, notes) == (idle.series, [])


def test_the_gpu_of_each_device():
    used = np.array([(PID, 0), (PID, 3)], dtype=np.int64)
    assert gpus_of_used(STEADY, used).tolist() == [0, -1]


def test_notes_say_the_resolution_what_is_unknown_and_what_nsys_lost():
    traffic = dram_in_ranges(STEADY, ints(0, 10, 5000), ints(500, 20, 6000))
    diagnostics = [
        (1, "Number of GPU Metrics events collected: \t5848."),
        (2, "Not all CUDA events might have been collected."),
        (3, "GPU Metrics [0]: Sampling buffer overflow, see /home/me/x\nmore"),
    ]
    notes = dram_notes(STEADY, traffic, diagnostics)
    assert codes(notes) == ["dram-sampled", "dram-device-wide", "dram-samples-lost", "dram-unknown", "dram-unknown"]
    assert "10,000,000 Hz in whole percent of 100 GB/s: one percent is 1.0 GB/s" in notes[0].text
    assert notes[2].text == "nsys says: GPU Metrics [0]: Sampling buffer overflow, see <path>"
    assert notes[3].text.startswith("DRAM traffic is unknown for 1 of 3 ranges: most of its time is in instances")
    assert notes[4].text.endswith("more than a tenth of its time was not sampled.")
    assert [note.severity for note in notes[:2]] == [Severity.INFO] * 2


def test_from_a_built_trace_to_bytes(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu()
    builder.metric_names()
    for at in range(-100, 1000, 100):
        builder.sample(at, (1_980_000_000, 90, 40, 20))
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        found = read_gpu_metrics(trace, read_gpus(trace))
    traffic = dram_in_ranges(replace(found, clock_error_ns=0), ints(-100), ints(1000))
    assert (traffic.read_bytes, traffic.write_bytes, traffic.read_error_bytes) == (44000, 22000, 550)


@pytest.fixture
def math_4096(trace_path):
    """Return metrics and kernels (start, end, name) of 200 calls of math, 8 heads of 4096 x 4096 in float32."""
    path = trace_path("gm10k")
    with open_trace(path) as trace:
        found = read_gpu_metrics(trace, read_gpus(trace))
    with sqlite3.connect(path) as database:
        kernels = database.execute(
            "SELECT start, end, value, gridX FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
        ).fetchall()
    database.close()
    return found, kernels


# What each kernel of a call reads and writes at least, in matrices of scores (8 x 4096 x 4096 float32, 512 MiB: nine
# times the L2 cache, so little of it survives from kernel to kernel). The added mask is of one head.
SCORES = 8 * 4096 * 4096 * 4
LEAST = {
    "tn_n_tilesize": (0, 1),
    "CUDAFunctor_add": (1.125, 1),
    "SoftMaxForwardReg": (1, 1),
    "isneginf": (1, 0.25),
    "reduce_kernel": (0.25, 0),
    "where_kernel_impl": (1, 1),
    "float16_copy": (1, 0.5),
    "nn_n_tilesize": (1, 0),
}


def least_traffic(kernels):
    """(start, end, read, write) of the kernels that work on all scores; the others are small."""
    rows = []
    for start, end, name, _ in kernels:
        for part, (read, write) in LEAST.items():
            if part in name and end - start > 50_000:
                rows.append((start, end, read * SCORES, write * SCORES))
    return np.array(rows)


def test_math_attention_moves_what_its_kernels_must(math_4096):
    """Reads are 16 % and writes 6 % above the least.

    Most of the reads beyond it are of the mask, which all 8 heads seem to fetch anew (then the least is 2 % below the
    measured); small kernels, which are not in the least, and the rounding of the idle rate have their part too.
    """
    found, kernels = math_4096
    start, end = min(k[0] for k in kernels), max(k[1] for k in kernels)
    traffic = dram_in_ranges(found, ints(start), ints(end))
    least = least_traffic(kernels)
    assert traffic.reason == KNOWN
    for measured, error, expected, most in (
        (traffic.read_bytes[0], traffic.read_error_bytes[0], least[:, 2].sum(), 1.18),
        (traffic.write_bytes[0], traffic.write_error_bytes[0], least[:, 3].sum(), 1.08),
    ):
        assert error / measured < 0.03
        assert expected < measured < most * expected


def test_a_sample_is_of_the_period_after_its_timestamp_in_the_real_trace(math_4096):
    """The kernels that ran in the period after the timestamp explain its value; those before or later do not."""
    found, kernels = math_4096
    (sampled,) = found.series
    rows = least_traffic(kernels)
    rows = rows[np.argsort(rows[:, 0])]

    def expected_until(when):
        moved = np.concatenate(([0], np.cumsum(rows[:, 2])))
        times = np.column_stack((rows[:, 0], rows[:, 1])).ravel()
        return np.interp(when, times, np.column_stack((moved[:-1], moved[1:])).ravel())

    def likeness(offset):
        at = sampled.time_ns + offset
        return np.corrcoef(expected_until(at + sampled.period_ns) - expected_until(at), sampled.read_pct)[0, 1]

    assert likeness(0) > 0.9
    assert likeness(-sampled.period_ns) < 0.7
    assert likeness(sampled.period_ns) < 0.7
