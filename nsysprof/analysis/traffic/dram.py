"""Compute the DRAM bytes of ranges from sampled GPU metrics, each with a bound on its error.

A sample says, in whole percent of the GPU's peak, how fast DRAM was read and written over the period that begins at its
timestamp. A range's bytes are the integral of this over its time. The error bar bounds how far away the true value can
be, given only what was sampled:

- rounding: a value v stands for v - 0.5 ... v + 0.5 percent, through the whole range. Rounding is not independent
  between samples (a steady rate is rounded in the same way every time), so it adds linearly and is not averaged away.
- edges: where a range covers only part of a sample's period, it is unknown when in the period the bytes moved. The
  bound is the worst case, in which the rest of the period moved as much, or as little, as it can at full bandwidth.
- clock: samples and kernels are timed by different clocks, and counters lag a little behind. The range may lie up to
  GpuMetrics.clock_error_ns earlier or later among the samples, and the bound covers the worst case.
- gaps: traffic during a gap in the samples may be anything between none and full bandwidth. The estimate counts none.

The counters count the whole GPU. They include whatever ran at the same time in other ranges and processes. Bytes that a
range leaves in the L2 cache are written when another range evicts them, and count there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Floats
from nsysprof.notes import Note, make_note
from nsysprof.trace.schema import DramSeries, GpuMetrics, Int64s, Percents

Bools = npt.NDArray[np.bool_]

# The reasons why a range's traffic may be unknown.
KNOWN, SHORT, GAPS, NO_COUNTER = range(4)
REASONS = {
    SHORT: "most of its time is in instances shorter than one sample",
    GAPS: "more than a tenth of its time was not sampled",
    NO_COUNTER: "no usable DRAM counters of every GPU that its process used",
}

_SLOWER = "Sample with a lower --gpu-metrics-frequency."
_NEXT_STEPS = {
    SHORT: "Repeat the work within the range, or sample with a higher --gpu-metrics-frequency.",
    GAPS: _SLOWER,
    NO_COUNTER: "Sample with nsys profile --gpu-metrics-devices=all.",
}

# A sample stands for one period. nsys keeps periods to within 1 %, so a distance of 1.5 periods means that a sample was
# lost, whose bytes are in no other sample.
_LONGEST_PERIODS = 1.5
# The share of a range that may be unsampled, or in too short instances, while its bytes are still reported.
_TOLERATED_SHARE = 0.1
# Counters are dead (not running) when they stay 0 through this many sampling periods in which kernels ran.
_DEAD_AFTER_PERIODS = 10
# A sample is a whole number of percent.
_ROUNDING_PCT = 0.5
# The offsets at which an interval may lie among the samples, as multiples of the clock's error.
_SHIFTS = (-1.0, -0.5, 0.5, 1.0)
_LOST = re.compile(r"GPU Metrics.*(overflow|dropp|lost|missing|incomplete)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class DramTraffic:
    """DRAM traffic, one entry per range instance or group; unknown where `reason` is not KNOWN."""

    # The estimates (bytes), and bounds on how far the true values are from them.
    read_bytes: Int64s
    read_error_bytes: Int64s
    write_bytes: Int64s
    write_error_bytes: Int64s
    # The time that samples cover, and that they do not cover (ns). Like bytes, both are added over the GPUs of the
    # process.
    sampled_ns: Int64s
    missing_ns: Int64s
    # KNOWN or a key of REASONS.
    reason: npt.NDArray[np.int8]

    @property
    def known(self) -> Bools:
        """Return a mask of the entries whose bytes are known."""
        known: Bools = self.reason == KNOWN
        return known

    def __len__(self) -> int:
        return len(self.reason)


def dram_in_ranges(
    metrics: GpuMetrics,
    start_ns: Int64s,
    end_ns: Int64s,
    global_pid: Int64s | None = None,
    used: Int64s | None = None,
) -> DramTraffic:
    """Return the DRAM traffic while each range instance ran, one entry per instance.

    start_ns, end_ns: when the instance's work ran on the GPU, which differs from its time on the CPU.
    global_pid: the process of each instance.
    used: rows (global pid, device id) of the GPUs that each process used, over which its traffic is added. Without
        processes, all sampled GPUs are added.
    """
    return dram_in_groups(metrics, start_ns, end_ns, np.arange(len(start_ns)), len(start_ns), global_pid, used)


def dram_in_groups(
    metrics: GpuMetrics,
    start_ns: Int64s,
    end_ns: Int64s,
    group: Int64s,
    groups: int,
    global_pid: Int64s | None = None,
    used: Int64s | None = None,
) -> DramTraffic:
    """Return the DRAM traffic while any instance of each group ran.

    Time that instances of one group share on a GPU counts once. Error bars add linearly, see the top of this file.

    group: the group 0 ... groups-1 of each instance.
    start_ns, end_ns, global_pid, used: as in dram_in_ranges.
    """
    total = _Sums.zeros(groups)
    if global_pid is None or used is None:
        process, used = np.zeros(len(start_ns), np.int64), None
    else:
        process = global_pid
    counted, uncounted_pids = _series_of_processes(metrics, process, used)
    for series, pids in counted:
        ours = np.isin(process, pids)
        start, end, owner = _union(start_ns[ours], end_ns[ours], group[ours])
        total.add(owner, _integrate_about(series, start, end, metrics.clock_error_ns))
    uncounted = np.zeros(groups, bool)
    uncounted[group[np.isin(process, uncounted_pids)]] = True
    return total.traffic(uncounted)


def gpus_of_used(metrics: GpuMetrics, used: Int64s) -> Int64s:
    """Return the GPU id of each row (global pid, device id) of `used`, -1 where it was not sampled."""
    gpus = [metrics.gpu_of(device) for _, device in used.tolist()]
    return np.array([-1 if gpu is None else gpu for gpu in gpus], dtype=np.int64)


def drop_dead(
    metrics: GpuMetrics, kernel_start_ns: Int64s, kernel_end_ns: Int64s, kernel_gpu: Int64s
) -> tuple[GpuMetrics, list[Note]]:
    """Return the metrics without the GPUs whose DRAM counters stay 0 although kernels ran, and a note for each.

    kernel_gpu: the GPU id of each kernel, as gpus_of_used returns it.
    """
    live, notes = [], []
    for series in metrics.series:
        ours = kernel_gpu == series.gpu
        first, last = series.time_ns[0], series.time_ns[-1] + series.period_ns
        start, end = kernel_start_ns[ours].clip(first, last), kernel_end_ns[ours].clip(first, last)
        busy_ns = int(np.maximum(end - start, 0).sum())
        if series.read_pct.any() or series.write_pct.any() or busy_ns < _DEAD_AFTER_PERIODS * series.period_ns:
            live.append(series)
        else:
            notes.append(_dead_note(series, busy_ns))
    gpus = {series.gpu for series in live}
    return replace(metrics, series=tuple(live), use=tuple(use for use in metrics.use if use.gpu in gpus)), notes


def dram_notes(
    metrics: GpuMetrics, traffic: DramTraffic | None, diagnostics: Iterable[tuple[int, str]] = ()
) -> list[Note]:
    """Return notes for readers of DRAM bytes: the resolution, whose traffic it is, and what is missing.

    traffic: the reported traffic; its unknown entries are counted.
    diagnostics: nsys' own messages, (severity, text).
    """
    notes = [note for series in metrics.series for note in _series_notes(series)]
    if metrics.series:
        notes.append(make_note("dram-device-wide"))
    lost = dict.fromkeys(text.strip().split("\n")[0][:300] for _severity, text in diagnostics if _LOST.search(text))
    for text in list(lost)[:3]:
        said = re.sub(r"/\S+", "<path>", text)
        notes.append(make_note("dram-samples-lost", said=said, slower=_SLOWER))
    if traffic is not None:
        notes += _unknown_notes(traffic)
    return notes


def _series_notes(series: DramSeries) -> Iterator[Note]:
    if series.peak_bytes_per_s is None:
        return
    peak = series.peak_bytes_per_s
    rates: dict[str, Any] = {
        "rate_hz": 1e9 / series.period_ns,
        "peak_gb_per_s": peak / 1e9,
        "step_gb_per_s": peak / 1e11,
    }
    yield make_note("dram-sampled", gpu=series.gpu, **rates)
    span = int(series.time_ns[-1] - series.time_ns[0]) + series.period_ns
    length = _lengths(series)
    gaps = int((np.diff(series.time_ns) > length[:-1]).sum())
    if gaps:
        missing = span - int(length.sum())
        times: dict[str, Any] = {"missing_ms": missing / 1e6, "span_ms": span / 1e6}
        yield make_note("dram-gaps", gaps=gaps, gpu=series.gpu, slower=_SLOWER, **times)


def _unknown_notes(traffic: DramTraffic) -> Iterator[Note]:
    for reason, why in REASONS.items():
        count = int((traffic.reason == reason).sum())
        if count:
            step = _NEXT_STEPS[reason]
            yield make_note("dram-unknown", count=count, ranges=len(traffic), why=why, next_step=step)


def _dead_note(series: DramSeries, busy_ns: int) -> Note:
    active = series.sm_active_max_pct
    if active:
        why = f"while SMs were up to {active} % active: less than half a percent each time, or dead counters"
    else:
        why = "and so are the SM counters: they were not running" if active == 0 else "so they were not running"
    return make_note("dram-counters-dead", samples=len(series), gpu=series.gpu, busy_ms=busy_ns / 1e6, why=why)


def _series_of_processes(
    metrics: GpuMetrics, process: Int64s, used: Int64s | None
) -> tuple[list[tuple[DramSeries, list[int]]], list[int]]:
    """Return each usable series with the processes that used its GPU, and the processes without a usable series."""
    countable = {series.gpu: series for series in metrics.series if series.peak_bytes_per_s is not None}
    users: dict[int, list[int]] = {gpu: [] for gpu in countable}
    uncounted: list[int] = []
    for pid in np.unique(process).tolist():
        if used is None:
            gpus: set[int] = {series.gpu for series in metrics.series}
        else:
            gpus = set(gpus_of_used(metrics, used[used[:, 0] == pid]).tolist())
        for gpu in gpus & users.keys():
            users[gpu].append(pid)
        if not gpus or gpus - users.keys():
            uncounted.append(pid)
    return [(countable[gpu], pids) for gpu, pids in users.items()], uncounted


def _union(start_ns: Int64s, end_ns: Int64s, group: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the union of the intervals of each group as (start, end, group), disjoint and not touching."""
    if len(start_ns) == 0:
        return start_ns, end_ns, group
    # Times are replaced by their ranks, so that group and time fit into one sortable integer.
    times = np.unique(np.concatenate((start_ns, end_ns)))
    base = group.astype(np.int64) * len(times)
    start, end = base + np.searchsorted(times, start_ns), base + np.searchsorted(times, np.maximum(start_ns, end_ns))
    order = np.argsort(start, kind="stable")
    start, covered = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate(([True], start[1:] > covered[:-1]))
    last = np.concatenate((new[1:], [True]))
    return times[start[new] % len(times)], times[covered[last] % len(times)], start[new] // len(times)


@dataclass
class _Sums:
    """Sums, one entry per group.

    Bytes are floats, whose 53 bits are finer than any error bar here.
    """

    read: Floats
    read_error: Floats
    write: Floats
    write_error: Floats
    sampled_ns: Int64s
    missing_ns: Int64s
    short_ns: Int64s

    @staticmethod
    def zeros(groups: int) -> _Sums:
        read, read_error, write, write_error = np.zeros((4, groups))
        sampled_ns, missing_ns, short_ns = np.zeros((3, groups), np.int64)
        return _Sums(read, read_error, write, write_error, sampled_ns, missing_ns, short_ns)

    def add(self, owner: Int64s, other: _Sums) -> None:
        """Add each entry of `other` to the entry of its owner."""
        for name, value in vars(other).items():
            np.add.at(getattr(self, name), owner, value)

    def traffic(self, uncounted: Bools) -> DramTraffic:
        total = self.sampled_ns + self.missing_ns
        reason = np.zeros(len(total), np.int8)
        reason[(self.short_ns > _TOLERATED_SHARE * total) | (total == 0)] = SHORT
        reason[self.missing_ns > _TOLERATED_SHARE * total] = GAPS
        reason[uncounted] = NO_COUNTER
        rounded = [np.rint(value).astype(np.int64) for value in (self.read, self.write)]
        errors = [np.ceil(value).astype(np.int64) for value in (self.read_error, self.write_error)]
        return DramTraffic(rounded[0], errors[0], rounded[1], errors[1], self.sampled_ns, self.missing_ns, reason)


def _lengths(series: DramSeries) -> Int64s:
    """Return the time (ns) that each sample stands for: up to the next sample, or one period where that is missing."""
    distance = np.append(np.diff(series.time_ns), series.period_ns)
    return np.where(distance > _LONGEST_PERIODS * series.period_ns, series.period_ns, distance)


def _integrate_about(series: DramSeries, start_ns: Int64s, end_ns: Int64s, clock_error_ns: int) -> _Sums:
    """Return bytes and coverage of each interval, with error bars that hold for every possible clock offset."""
    sums = _integrate(series, start_ns, end_ns)
    read_error, write_error = sums.read_error, sums.write_error
    for part in _SHIFTS if clock_error_ns else ():
        shift = round(part * clock_error_ns)
        other = _integrate(series, start_ns + shift, end_ns + shift)
        read_error = np.maximum(read_error, np.abs(other.read - sums.read) + other.read_error)
        write_error = np.maximum(write_error, np.abs(other.write - sums.write) + other.write_error)
    return replace(sums, read_error=read_error, write_error=write_error)


def _integrate(series: DramSeries, start_ns: Int64s, end_ns: Int64s) -> _Sums:
    """Return bytes, error bars and coverage of each interval on one GPU."""
    time, length = series.time_ns, _lengths(series)
    ends = time + length
    # The samples that hold the interval's start and end; -1 before the first one.
    first = np.searchsorted(time, start_ns, side="right") - 1
    last = np.searchsorted(time, end_ns, side="left") - 1

    def until(values: Int64s, when: Int64s, sample: Int64s) -> Int64s:
        """Return the integral of `values` up to `when`, which is within `sample`."""
        before = np.concatenate(([0], np.cumsum(values * length)))
        inside = np.minimum(when, ends[sample]) - time[sample]
        return np.where(sample < 0, 0, before[sample] + values[sample] * inside)

    def between(values: Int64s) -> Int64s:
        # An empty interval has its last sample before its first.
        return np.where(end_ns > start_ns, until(values, end_ns, last) - until(values, start_ns, first), 0)

    # The parts of the interval in its first sample and, if that is another one, in its last.
    overlaps = (
        (first, np.where(first < 0, 0, np.minimum(end_ns, ends[first]) - start_ns).clip(min=0)),
        (last, np.where(last <= first, 0, np.minimum(end_ns, ends[last]) - time[last]).clip(min=0)),
    )
    sampled = between(np.ones(len(time), np.int64))
    missing = end_ns - start_ns - sampled
    inner = sampled - overlaps[0][1] - overlaps[1][1]
    # The bytes that one percent moves in one nanosecond.
    unit = (series.peak_bytes_per_s or 0) / 100 / 1e9

    def bytes_and_error(percents: Percents) -> tuple[Floats, Floats]:
        values = percents.astype(np.int64)
        # A value over a short time can slightly exceed the sustained peak, and so can what was not sampled.
        most = max(100.0, float(values.max()) + _ROUNDING_PCT)
        error = _ROUNDING_PCT * inner + most * missing
        for sample, overlap in overlaps:
            error = error + _edge_error(values[sample], length[sample], overlap, most)
        estimate: Floats = between(values).astype(np.float64) * unit
        return estimate, error * unit

    short = np.where(end_ns - start_ns < series.period_ns, end_ns - start_ns, 0)
    return _Sums(*bytes_and_error(series.read_pct), *bytes_and_error(series.write_pct), sampled, missing, short)


def _edge_error(value: Int64s, length: Int64s, overlap: Int64s, most: float) -> Floats:
    """Return the error bound (percent times ns) for a sample that an interval covers for `overlap` ns.

    At any moment of its period the rate is between 0 and `most`, and its mean is value -0.5 ... +0.5. Without overlap
    the bound is 0.
    """
    low = np.maximum(0, (value - _ROUNDING_PCT) * length - most * (length - overlap))
    high = np.minimum((value + _ROUNDING_PCT) * length, most * overlap)
    estimate = value * overlap
    worst: Floats = np.maximum(estimate - low, high - estimate)
    return worst
