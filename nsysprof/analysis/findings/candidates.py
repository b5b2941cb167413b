"""Find what could be changed in the calls and copies of a trace, as candidates for findings.

A candidate says what it is about, and how it changes a replay.

Estimate what tracing costs the host, so that savings are those of the program without a profiler.

Without tracing the host is faster, and making it faster still gains less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.situation import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Situation,
    counted,
    in_calls,
    in_work,
    number_text,
)
from nsysprof.analysis.findings.slowed_copies import GIVES_BACK
from nsysprof.analysis.findings.waits import what_is_read
from nsysprof.analysis.idle_time.call_classes import LAUNCH, MEMORY, SLOW_NS, WAIT
from nsysprof.analysis.replay.replay import ReplayChange, combine, no_change, without
from nsysprof.trace.schema import Bools, Int64s
from nsysprof.units import format_bytes, format_ns

# Host time between two calls counts as real work from this length on (ns); below it, it is the cost of issuing.
LONG_GAP_NS = 200_000
# Where a trace has no steps, what happens at least this often is in a loop.
LEAST_REPEATS = 8
# Copies of fewer bytes are small. From so many a step on, copies from pinned memory count too; fewer than so many are
# no finding.
_SMALL_COPY_BYTES, _MANY_SMALL_COPIES, _LEAST_SMALL_COPIES = 64 << 10, 64, 8
# The time that it takes to issue an asynchronous copy (ns).
_ISSUE_NS = 5_000
# Where issuing takes so many times what the kernels save, the finding says so.
_MOSTLY_ISSUING = 2
# The factors of the least and the most rate of pinned copies where the trace has some.
_LEAST_RATE, _MOST_RATE = 0.6, 1.1


@dataclass(frozen=True)
class BusRate:
    """A rate of pinned copies (bytes/s): what is usual, and the factors of the least and the most."""

    usual: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Return whether the board says what its bus is."""
        return self is not _UNKNOWN


# What pinned copies take where a trace has none: what 16 lanes of PCIe 5, 4 and 3 move. A board may be in a slot with
# half of its lanes, or of an older generation.
# Measured in public traces: T4 11.7 GB/s, V100 12.3, RTX 4060 Ti 13.1, RTX 5070 Ti Laptop 24.7.
_PCIE_5, _PCIE_4, _PCIE_3 = BusRate(50e9, 0.45, 1.1), BusRate(24e9, 0.45, 1.1), BusRate(12e9, 0.5, 1.1)
_UNKNOWN = BusRate(24e9, 0.4, 2.2)
# The first that matches counts. Boards with eight lanes move what 16 lanes of the generation before move.
_BOARDS = (
    (re.compile(r"RTX (PRO )?50\d\d.*Laptop|RTX 5050|RTX 5060"), _PCIE_4),
    (re.compile(r"Laptop|Max-Q|RTX 4060|RTX 3050|RTX A?[12]000\b|RTX 2000 Ada"), _PCIE_3),
    (re.compile(r"\bG[BH]200\b|\bH(100|200|800|20)\b|\bB(100|200|300)\b|RTX PRO|RTX 50"), _PCIE_5),
    (re.compile(r"\bA(2|10|10G|16|30|40|100|800)\b|\bL(2|4|20|40|40S)\b|RTX [34]0|RTX A\d|Ada\b"), _PCIE_4),
    (re.compile(r"Tesla|Quadro|GTX|TITAN|RTX 20|\b[TPVMK]\d{1,4}\b"), _PCIE_3),
)


def bus_rate(board: str) -> BusRate:
    """Return the rate of pinned copies of a board by its name; a wide interval for boards that are not known."""
    return next((rate for pattern, rate in _BOARDS if pattern.search(board)), _UNKNOWN)


@dataclass(frozen=True)
class Candidate:
    """A change that could make the program faster, with what it does to a replay."""

    code: str
    # The change of the replay: the best estimate.
    change: ReplayChange
    # The changes for the lower and the upper bound.
    low: ReplayChange
    high: ReplayChange
    # The calls that it concerns.
    calls: Bools
    # How often the problem occurs in the graph.
    count: int
    text: str
    next_step: str
    # Candidates with a lower order are replayed first. A general one gets only what particular ones leave.
    order: int = 0
    # Whether the host's own time before each call is part of it.
    gaps: Bools | None = None
    # The range to name; None: the range with most of the calls.
    most_range: str | None = None
    # If two candidates save nearly the same, such as a wait and the stream it waits for, the one with more weight goes
    # first.
    weight: float = 1.0
    # The least share of a step that it must save to count as a finding.
    least_share: float = 0.0
    # The calls whose line of code the finding names; None: all of them.
    named_by: Bools | None = None
    # The time per step (ns) that the text says it takes, where not all of that need be saved, and what happens in the
    # rest of it.
    spent_ns: int = 0
    meanwhile: str = "while the GPU works anyway"
    # Whether the line is the one that made a stream wait before these calls, which is too short for samples.
    is_named_by_waits: bool = False
    # The file and line to name where no sample shows one.
    place: str = ""
    # The waits that the text counts, and where they are; None and "" where it counts none.
    waits: Bools | None = None
    waits_at: str = ""
    # The change with other work as slow as it is, where the trace shows that this candidate's calls slow it.
    still_slowed: ReplayChange | None = None


def list_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the calls and copies of the graph."""
    searches: tuple[Callable[[Situation], Candidate | None], ...] = (
        _pageable_copies, _small_copies, _synchronisations, _allocations,
    )  # fmt: skip
    for search in searches:
        candidate = search(situation)
        if candidate is not None:
            yield candidate


def without_work(
    situation: Situation, gone: Bools, duration: Int64s, *, with_allocations: bool = False
) -> ReplayChange:
    """Return the change without the work in `gone` and its ordinary host time.

    A long time before such work, or a slow call, has its own reason, such as a kernel that was loaded, and stays.

    duration: the new duration of the other work (ns).
    with_allocations: whether memory that is allocated directly before such work is no longer allocated.
    """
    graph, base = situation.graph, no_change(situation.graph)
    issued = np.bincount(situation.call, minlength=len(graph.row))
    vanished = np.bincount(situation.call[gone], minlength=len(graph.row))
    calls = situation.leading_to((issued > 0) & (vanished == issued))
    calls &= ~situation.is_wait & ~situation.is_blocking_copy
    free = graph.cost_ns < SLOW_NS
    if with_allocations:
        free |= (situation.call_class == MEMORY) & situation.in_loop
    return replace(
        base,
        gap_ns=np.where(calls & (graph.gap_ns < LONG_GAP_NS), np.minimum(graph.gap_ns, 0), graph.gap_ns),
        cost_ns=np.where(calls & free, 0, graph.cost_ns),
        waits=base.waits & ~calls,
        duration_ns=np.where(gone, 0, duration),
    )


def issuing_text(situation: Situation, change: ReplayChange, gone: Bools, saved_ns: int) -> str:
    """Return what issuing takes that a change leaves out, where it is most of what the host and the GPU save; else "".

    gone: the work that is left out.
    saved_ns: what the GPU saves in a step (ns).
    """
    graph = situation.graph
    issuing_ns = graph.gap_ns - change.gap_ns + graph.cost_ns - change.cost_ns
    host = int(in_calls(situation, issuing_ns > 0, issuing_ns))
    if host <= _MOSTLY_ISSUING * saved_ns:
        return ""
    fewer = counted(in_work(situation, gone), "launch that is", "launches that are")
    return f" Issuing the {fewer} left out takes the host {format_ns(host)}."


def _following_waits(situation: Situation, copies: Bools) -> Bools:
    """Return the waits that belong to blocking copies: the next wait on the same thread."""
    waits = situation.is_blocking_copy & (situation.call_class == WAIT)
    follows = situation.graph.follows
    copy_waits: Bools = waits & (follows >= 0) & copies[np.maximum(follows, 0)]
    return copy_waits


def _large_blocking(situation: Situation) -> tuple[Bools, Bools]:
    """Return which copies are large and use pageable host memory (as work), and the calls that made them."""
    large = situation.is_copy & (situation.bytes >= _SMALL_COPY_BYTES) & (situation.host_kind == 0)
    large &= situation.is_blocking_copy[situation.call]
    return large, situation.calls_of(large)


def _pageable_copies(situation: Situation) -> Candidate | None:
    large, calls = _large_blocking(situation)
    if not large.any():
        return None
    waits = _following_waits(situation, calls)
    to_device = large & (situation.copy_kind == HOST_TO_DEVICE)
    graph, base = situation.graph, no_change(situation.graph)
    free = (situation.calls_of(to_device) | waits) & ~situation.calls_of(large & ~to_device)

    def at(bound: int) -> ReplayChange:
        duration = graph.duration_ns.copy()
        for kind in (HOST_TO_DEVICE, DEVICE_TO_HOST):
            chosen = large & (situation.copy_kind == kind)
            rate = pinned_rates(situation, kind)[bound]
            duration[chosen] = np.minimum(duration[chosen], (1e9 * situation.bytes[chosen] / rate).astype(np.int64))
        cost = np.where(calls | waits, np.minimum(graph.cost_ns, _ISSUE_NS), graph.cost_ns)
        return replace(base, cost_ns=cost, waits=base.waits & ~free, duration_ns=duration)

    size = int(in_work(situation, large, situation.bytes))
    rate = 1e9 * situation.bytes[large].sum() / max(1, graph.duration_ns[large].sum())
    text = (
        f"{format_bytes(size)} go through pageable memory in "
        f"{counted(in_work(situation, large), 'copy', 'copies')}, at "
        f"{rate / 1e9:.1f} GB/s; pinned memory gives about {_rate_text(situation)} "
        "and does not hold up the thread."
    )
    step = 'DataLoader(..., pin_memory=True) and x.to("cuda", non_blocking=True); in CUDA C++ cudaMallocHost.'
    if 2 * int(situation.bytes[large & (situation.copy_kind == DEVICE_TO_HOST)].sum()) > situation.bytes[large].sum():
        step = (
            "Copy into a tensor made once with pin_memory=True, by copy_(x, non_blocking=True), and wait for an event "
            "before you read it; in CUDA C++ cudaMallocHost."
        )
    return Candidate("pageable-copy", at(0), at(1), at(2), calls | waits, int(large.sum()), text, step)


def pinned_rates(situation: Situation, kind: int) -> tuple[float, float, float]:
    """Return the usual, the least and the most rate of a pinned copy in a direction (bytes/s).

    They are measured in the trace, else typical of the board's bus.
    """
    measured = situation.pinned_rate.get(kind)
    if measured is not None:
        return measured, _LEAST_RATE * measured, _MOST_RATE * measured
    bus = bus_rate(situation.board)
    return bus.usual, bus.low * bus.usual, bus.high * bus.usual


def _rate_text(situation: Situation) -> str:
    """Return the rate of pinned copies to the device, as an interval where neither the trace nor the board tells it."""
    usual, least, most = (rate / 1e9 for rate in pinned_rates(situation, HOST_TO_DEVICE))
    if HOST_TO_DEVICE in situation.pinned_rate or bus_rate(situation.board).is_known:
        return f"{usual:.0f} GB/s"
    return f"{least:.0f} to {most:.0f} GB/s, by its bus,"


def _small_copies(situation: Situation) -> Candidate | None:
    small = situation.is_copy & (situation.bytes < _SMALL_COPY_BYTES)
    small &= np.isin(situation.copy_kind, (HOST_TO_DEVICE, DEVICE_TO_HOST)) & ~situation.is_wait[situation.call]
    small &= ~situation.is_of_nccl[situation.call]
    # A copy whose value the host waits for is a synchronisation, whatever memory it uses.
    small &= ~((situation.copy_kind == DEVICE_TO_HOST) & _waited_for(situation)[situation.call])
    # A copy from pinned memory only takes the time of its launch.
    if int(small.sum()) < _MANY_SMALL_COPIES * situation.graph.steps:
        small &= situation.host_kind == 0
    count = int(small.sum())
    if count < _LEAST_SMALL_COPIES * situation.graph.steps:
        return None
    calls = situation.calls_of(small)
    gone = calls | _following_waits(situation, calls)
    kept = np.flatnonzero(calls)[:: max(1, count // situation.graph.steps)]
    gone[kept] = False
    change = without(no_change(situation.graph), gone, situation.graph)
    text = (
        f"{counted(in_work(situation, small), 'copy', 'copies')} between host and device with less than 64 KiB each "
        f"move {format_bytes(int(in_work(situation, small, situation.bytes)))} in all."
    )
    step = "Build the values on the device (torch.arange(..., device='cuda')), or pack them and copy once."
    return Candidate("small-copies", change, change, change, calls, count, text, step)


def _waited_for(situation: Situation) -> Bools:
    """Return which calls are followed by a wait on the same thread."""
    is_waited_for = np.zeros(len(situation.call_ns), dtype=np.bool_)
    follows = situation.graph.follows[situation.call_class == WAIT]
    is_waited_for[follows[follows >= 0]] = True
    return is_waited_for


def _synchronisations(situation: Situation) -> Candidate | None:
    calls = situation.is_wait & situation.in_loop & ~situation.is_of_nccl
    if not _is_repeated(situation, calls):
        return None
    graph, base = situation.graph, no_change(situation.graph)
    change = replace(
        base,
        cost_ns=np.where(calls, np.minimum(graph.cost_ns, _ISSUE_NS), graph.cost_ns),
        waits=base.waits & ~calls,
    )
    waited = int(in_calls(situation, calls, situation.call_ns))
    reads = what_is_read(situation, calls)
    that_read = f" that read {reads.text}" if reads.text else ""
    text = (
        f"The host waits for the GPU for {format_ns(waited)}, in {_kinds(situation, calls)}{that_read}; then the GPU "
        "has nothing to do until the host has issued more."
    )
    return Candidate(
        "sync", change, change, change, calls, int(calls.sum()), text, reads.next_step, spent_ns=waited,
        place=reads.place,
    )  # fmt: skip


def _is_repeated(situation: Situation, calls: Bools) -> bool:
    """Return whether these calls are in a loop. Without steps, only their number shows it."""
    return bool(calls.any()) if situation.is_looped else int(calls.sum()) >= LEAST_REPEATS


def _kinds(situation: Situation, calls: Bools) -> str:
    """Return the most frequent names of these calls, with how often they occur in a step."""
    codes, listed = pd.factorize(situation.call_name)
    names = np.array([str(name).partition("_v")[0] for name in listed], dtype=object)[codes]
    count_by_name = {name: in_calls(situation, calls & (names == name)) for name in Counter(names[calls].tolist())}
    most = sorted((name for name in count_by_name if count_by_name[name]), key=lambda name: -count_by_name[name])[:3]
    parts = [f"{number_text(count_by_name[name])} {name}" for name in most] or ["calls of the first step"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _allocations(situation: Situation) -> Candidate | None:
    calls = (situation.call_class == MEMORY) & situation.in_loop & ~situation.is_of_nccl
    if not _is_repeated(situation, calls):
        return None
    least = without(no_change(situation.graph), calls, situation.graph)
    slowed = situation.is_slowed
    change = combine(least, less_slowed(situation, 1.0))
    high = combine(change, copies_beside_frees(situation))
    spent = int(in_calls(situation, calls, situation.call_ns))
    # The code that gives memory back makes the next allocations necessary, wherever they are.
    gives_back = calls & _giving_back(situation)
    named_by = gives_back if gives_back.any() else None
    what = "allocated" if named_by is None else "given back and allocated again"
    like = "" if named_by is None else ", as after torch.cuda.empty_cache()"
    text = f"Memory is {what} in the loop{like}: {format_ns(spent)} in {_kinds(situation, calls)}."
    if slowed.any():
        text += _slowed_text(situation, slowed)
    step = (
        "Allocate once before the loop, the largest shapes first, so that later ones fit into what is there"
        if named_by is None
        else "Remove torch.cuda.empty_cache() from the loop, or allocate once before it"
    )
    step += " (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; cudaMallocAsync in CUDA C++)."
    return Candidate(
        "alloc-in-loop", change, least, high, calls, int(calls.sum()), text, step, named_by=named_by, spent_ns=spent,
        still_slowed=least if slowed.any() else None,
    )  # fmt: skip


def _slowed_text(situation: Situation, slowed: Bools) -> str:
    """Return what the trace shows of copies that were slowed by memory that was given back."""
    usual, took = (float(times[slowed].mean()) for times in (situation.unslowed_ns, situation.graph.duration_ns))
    count = counted(in_work(situation, slowed), "copy", "copies")
    return (
        f" This slows {count} of {format_bytes(int(in_work(situation, slowed, situation.bytes)))} to {format_ns(took)} "
        f"each, from {format_ns(usual)} before."
    )


def _giving_back(situation: Situation) -> Bools:
    """Return which calls give memory back to the driver."""
    codes, listed = pd.factorize(situation.call_name)
    return np.array([bool(GIVES_BACK.match(str(name))) for name in listed], dtype=bool)[codes]


def less_slowed(situation: Situation, share: float) -> ReplayChange:
    """Return the change in which this share of the time is gone by which memory that was given back slows copies."""
    duration = situation.graph.duration_ns
    slower = np.maximum(duration - situation.unslowed_ns, 0)
    return _with_durations(situation, duration - (share * slower).astype(np.int64))


def copies_beside_frees(situation: Situation) -> ReplayChange:
    """Return the change in which large copies take as long as the fastest of their size and kind in the trace.

    The driver clears memory that was given back, on the engines that copy. A copy of 256 MiB behind 20 GiB that were
    given back took 73 ms on an H200, and 31 ms before anything was (traces/h200-faults/all).
    """
    graph, duration = situation.graph, situation.graph.duration_ns.copy()
    if not (_giving_back(situation) & situation.in_loop).any():
        return no_change(graph)
    for (kind, host_kind, size), fastest in situation.fastest_copies.items():
        mine = situation.is_copy & (situation.copy_kind == kind) & (situation.host_kind == host_kind)
        mine &= situation.bytes == size
        duration[mine] = np.minimum(duration[mine], fastest)
    return _with_durations(situation, duration)


def _with_durations(situation: Situation, duration: Int64s) -> ReplayChange:
    """Return the change in which copies take as long as given (ns), and so do calls that wait for them."""
    graph = situation.graph
    shorter = np.bincount(situation.call, weights=graph.duration_ns - duration, minlength=len(graph.row))
    cost = np.where(situation.is_blocking_copy, np.maximum(graph.cost_ns - shorter.astype(np.int64), 0), graph.cost_ns)
    return replace(no_change(graph), cost_ns=np.minimum(cost, graph.cost_ns), duration_ns=duration)


# An ordinary untraced launch takes about this long (ns); the rest is the profiler's.
_ORDINARY_NS = 2_500
# At most this much of a launch (ns) is taken for the profiler's.
_MOST_NS = 5_000
# A profiler also works before and behind each call that it records, which looks like the program's own time: 2 us a
# call in the middle of nine trainings (traces/h200-programs), up to 5 us, by their steps without a profiler. The host
# of another process is up to a fifth faster. With both, the replays of ten of fourteen trainings (five of them in
# traces/h200-faults) take no longer than their steps without a profiler.
_BESIDE_NS, _LEAST_GAP_NS = 3_000, 500
_FASTER = 0.8
# Calls that allocate or free memory differ by more: in three processes, cudaMalloc took 0.19 to 0.51 us for each MB of
# blocks of 0.3 to 1 GB (traces/h200-faults: alloc-in-loop, all, seq512-all), and a profiler lengthens them.
_MEMORY_CALLS = 0.5


def estimate_tracing_cost(situation: Situation) -> int:
    """Return what tracing costs each call that issues work (ns): how much longer launches take than usual."""
    launches = (situation.call_class == LAUNCH) & (situation.call_ns < SLOW_NS) & ~situation.is_wait
    if not launches.any():
        return 0
    return int(np.clip(np.median(situation.call_ns[launches]) - _ORDINARY_NS, 0, _MOST_NS))


def without_tracing(situation: Situation, change: ReplayChange, tracing_ns: int) -> ReplayChange:
    """Return the change in which each call that issues work is shorter by what tracing it costs.

    The time before a call becomes shorter by what the profiler did in it, such as emptying its buffers.
    """
    issues = np.diff(situation.graph.first_work) > 0
    least = np.minimum(change.cost_ns, _ORDINARY_NS)
    cost = np.maximum(change.cost_ns - tracing_ns, least)
    gap = np.maximum(change.gap_ns - situation.profiler_ns, np.minimum(change.gap_ns, 0))
    return replace(change, gap_ns=gap, cost_ns=np.where(issues, cost, change.cost_ns))


def on_other_host(situation: Situation, change: ReplayChange, tracing_ns: int, *, is_fast: bool) -> ReplayChange:
    """Return the change without tracing on the fastest or the slowest host that the trace leaves possible.

    What the program does for long between two calls, as a sleep or reading a file, takes as long as in the trace.
    """
    bare = without_tracing(situation, change, tracing_ns)
    gap, cost, duration = bare.gap_ns, bare.cost_ns, bare.duration_ns
    factor, beside, memory = (_FASTER, _BESIDE_NS, _MEMORY_CALLS) if is_fast else (1 / _FASTER, 0, 1 / _FASTER)
    # Pageable memory is copied by the host.
    copies = situation.is_copy & (situation.host_kind == 0) & (situation.bytes >= _SMALL_COPY_BYTES)
    copying = situation.is_blocking_copy & situation.calls_of(copies)
    is_memory = situation.call_class == MEMORY
    other = np.where(is_memory, memory, np.where((cost < SLOW_NS) | copying, factor, 1.0))
    shifted = np.maximum(factor * gap - beside, np.minimum(gap, _LEAST_GAP_NS)).astype(np.int64)
    return replace(
        bare,
        gap_ns=np.where(gap < LONG_GAP_NS, shifted, gap),
        cost_ns=(other * cost).astype(np.int64),
        duration_ns=np.where(copies, (factor * duration).astype(np.int64), duration),
    )
