"""Find what could be changed in the GPU's work: unfused attention, unfused optimizers, and waits for others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.candidates import LONG_GAP_NS, Candidate, copies_beside_frees, less_slowed, without_work
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.findings.step_amounts import counted, in_calls, in_work, number_text
from nsysprof.analysis.findings.unfused_attention import UnfusedAttention, find_unfused_attention
from nsysprof.analysis.idle_time.call_classes import MEMORY
from nsysprof.analysis.replay.replay import ReplayChange, combine, no_change, without
from nsysprof.arrays import rows_by_key
from nsysprof.trace.schema import Bools, Int64s
from nsysprof.units import format_ns

# At least this many elementwise kernels in a row are an optimizer that updates parameters one by one.
_STORM = 48
_OPTIMIZER = re.compile(
    r"addcmul|addcdiv|lerp|sqrt|BinaryFunctor|MulFunctor|AUnaryFunctor|elementwise|foreach|FillFunctor|pointwise", re.I
)
_PARTICULAR = re.compile(r"addcmul|addcdiv|lerp|sqrt", re.I)
_MULTI_TENSOR = re.compile(r"multi_tensor|FusedAdam|FusedOptimizer|fused_adam", re.I)
# A fused Adam step reads and writes each parameter and its state once; separate operations do so three times.
_FUSED_PART, _FUSED_PART_MOST, _FUSED_PART_LEAST = 0.33, 0.5, 0.2
# The time of a kernel that has nothing to do (ns).
_EMPTY_KERNEL_NS = 1_500
# A collective that takes this many times as long as most of its kind in every step waits in every step.
_MUCH_LONGER = 10
# Ranks never take exactly the same time. Waiting below this share of a step is not a problem.
_LEAST_COLLECTIVE = 0.05


@dataclass(frozen=True)
class FusedTime:
    """How long a fused kernel takes, as a share of the time of the products that it replaces, and the bounds."""

    usual: float
    least: float
    most: float


# What torch's choice took on an H200 (analysis/h200-tune and h200-optimize: bf16 and fp16, heads of 40 to 128, causal
# and not), as a share of the time in which the memory moves the operands of the two products of a forward pass, and of
# the four of a backward pass. A causal mask, which leaves out half of the work, has the lower half of these shares.
FORWARD, BACKWARD = FusedTime(0.45, 0.28, 0.8), FusedTime(0.7, 0.45, 1.4)
# torch's math backend computes in fp32 on the CUDA cores what a fused kernel does on tensor cores: it took as little as
# this share of that time (analysis/h200-roofline).
LEAST_OF_FP32 = 0.05
_FP32 = re.compile(r"sgemm|ffma|_simt_|f32f32_f32f32|gemm[^<]*<float, *float", re.IGNORECASE)


def list_kernel_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the kernels of the graph."""
    searches: tuple[Callable[[Situation], Candidate | None], ...] = (
        attention_candidate, _optimizer, _collectives, _streams,
    )  # fmt: skip
    for search in searches:
        candidate = search(situation)
        if candidate is not None:
            yield candidate


def _optimizer(situation: Situation) -> Candidate | None:
    storm, runs = _storms(situation)
    if runs == 0:
        return None
    graph = situation.graph
    first = storm & ~np.concatenate((np.zeros(1, dtype=np.bool_), storm[:-1]))
    useful = np.where(storm, np.maximum(graph.duration_ns - _EMPTY_KERNEL_NS, 0), 0)
    run = np.cumsum(first)
    total = np.bincount(run, weights=useful * storm, minlength=int(run[-1]) + 1)
    inside = _calls_inside(situation, storm)

    def at(part: float) -> ReplayChange:
        fused = np.where(first, (total[run] * part).astype(np.int64) + 2 * _EMPTY_KERNEL_NS, graph.duration_ns)
        change = _without_host_time(situation, without_work(situation, storm & ~first, graph.duration_ns), inside)
        return replace(change, duration_ns=np.where(first, fused, change.duration_ns))

    issuing = in_calls(situation, inside, np.maximum(graph.gap_ns, 0) + graph.cost_ns)
    text = (
        f"The optimizer goes through the parameters one by one: {number_text(in_work(situation, storm))} elementwise "
        f"kernels in a row take the host {format_ns(int(issuing))} to issue and the GPU "
        f"{format_ns(int(in_work(situation, storm, graph.duration_ns)))} to run; none is a multi-tensor kernel."
    )
    step = "torch.optim.AdamW(model.parameters(), fused=True), or foreach=True."
    return Candidate(
        "unfused-optimizer", at(_FUSED_PART), at(_FUSED_PART_MOST), at(_FUSED_PART_LEAST), situation.calls_of(storm),
        int(storm.sum()), text, step,
    )  # fmt: skip


def _without_host_time(situation: Situation, change: ReplayChange, inside: Bools) -> ReplayChange:
    """Return the change without the host's short times between the launches of each optimizer run.

    inside: the calls of these runs.
    """
    return replace(
        change,
        gap_ns=np.where(inside, np.minimum(change.gap_ns, 0), change.gap_ns),
        cost_ns=np.where(inside, 0, change.cost_ns),
    )


def _calls_inside(situation: Situation, storm: Bools) -> Bools:
    """Return the calls from the first to the last launch of each optimizer run, but for waits and long host work.

    storm: which work belongs to long runs of elementwise kernels.
    """
    graph = situation.graph
    calls = situation.calls_of(storm)
    # Host time between two calls of a run belongs to that run, whichever call it precedes.
    positions = np.flatnonzero(calls)
    breaks = np.flatnonzero(np.diff(positions) > _STORM)
    inside = np.zeros(len(calls) + 1, dtype=np.int64)
    np.add.at(inside, np.append(positions[0], positions[breaks + 1]) + 1, 1)
    np.add.at(inside, np.append(positions[breaks], positions[-1]) + 1, -1)
    in_runs: Bools = (np.cumsum(inside)[:-1] > 0) & (graph.gap_ns < LONG_GAP_NS) & (graph.waits_for < 0)
    return in_runs


# Names of kernels that cuDNN and cuBLAS run in streams of their own.
_LIBRARY = re.compile(
    r"cudnn|cublas|cutlass|xmma|nvjet|sgemm_|RNN|LSTM|GRU|elementWise_|region_transform|[wd]grad|fprop|convolve|winograd|"
    r"fft2d|flip_filter|scalePackedTensor"
)
_NOT_SIMPLE = ("gemm", "convolution", "attention", "fft", "softmax")


def _storms(situation: Situation) -> tuple[Bools, int]:
    """Return the work in long runs of elementwise kernels that contain an optimizer's, and the number of these runs."""
    storm = np.zeros(len(situation.kernel_name), dtype=np.bool_)
    code = situation.kernel_number
    # The last entry is for work that is not a kernel.
    kinds = [*map(str, situation.names.texts), ""]
    plain = [bool(_OPTIMIZER.search(name)) and not _MULTI_TENSOR.search(name) for name in kinds]
    simple = np.array(plain, dtype=bool)[code]
    simple &= ~np.isin(situation.category, (*_NOT_SIMPLE, "communication", "wait"))
    particular = np.array([bool(_PARTICULAR.search(name)) for name in kinds], dtype=bool)[code]
    runs = 0
    for _, mine in rows_by_key(pd.Series(situation.graph.stream)):
        if len(mine) < _STORM:
            continue
        edges = np.flatnonzero(np.diff(simple[mine].astype(np.int8))) + 1
        for part in np.split(mine, edges):
            if len(part) >= _STORM and simple[part[0]] and particular[part].mean() > 0.1:
                storm[part] = True
                runs += 1
    return storm, runs


def _collectives(situation: Situation) -> Candidate | None:
    collective = situation.category == "communication"
    if not collective.any():
        return None
    graph, base = situation.graph, no_change(situation.graph)
    least = graph.duration_ns.copy()
    for name in np.unique(situation.kernel_name[collective].astype(str)).tolist():
        mine = np.flatnonzero(collective & (situation.kernel_name == name))
        # The same kernel moves data of many sizes. Those at the same position of each step are comparable.
        if len(mine) % graph.steps == 0 and graph.steps > 1:
            shaped = graph.duration_ns[mine].reshape(graph.steps, -1)
            least[mine] = np.tile(shaped.min(axis=0), graph.steps)
        typical = int(np.median(graph.duration_ns[mine]))
        least[mine] = np.where(least[mine] > _MUCH_LONGER * typical, typical, least[mine])
    change = replace(base, duration_ns=np.where(collective, least, graph.duration_ns))
    # A rank that waits every time never shows how long a collective takes without waiting: it could be almost nothing.
    most = replace(base, duration_ns=np.where(collective, np.minimum(graph.duration_ns, 1), graph.duration_ns))
    waited = int(in_work(situation, collective, graph.duration_ns - least))
    if waited == 0:
        return None
    text = (
        "Collectives wait for other ranks: "
        f"{format_ns(int(in_work(situation, collective, graph.duration_ns)))} in "
        f"{counted(in_work(situation, collective), 'collective')}, "
        f"{format_ns(waited)} more than in the best step of each, or than most of their kind."
    )
    step = "Analyse all ranks together (nsysprof analyze RANK0 RANK1 ...): that says which one comes late, and where."
    calls = situation.calls_of(collective)
    count = int(collective.sum())
    return Candidate(
        "collective-wait", change, base, most, calls, count, text, step, least_share=_LEAST_COLLECTIVE,
        spent_ns=waited, most_range=situation.range_of_most(collective, graph.duration_ns - least),
    )  # fmt: skip


def _of_collectives(situation: Situation, collective: Bools) -> Bools:
    """Return which work is in a stream that waits for collectives, or for which they wait: a library orders these."""
    graph = situation.graph
    other = np.maximum(graph.other, 0)
    linked = (graph.other >= 0) & (collective | collective[other])
    streams = np.unique(np.concatenate((graph.stream[linked], graph.stream[other[linked]], graph.stream[collective])))
    in_streams: Bools = np.isin(graph.stream, streams)
    return in_streams


def _streams(situation: Situation) -> Candidate | None:
    graph, base = situation.graph, no_change(situation.graph)
    collective = situation.category == "communication"
    waits = (graph.other >= 0) & ~_of_collectives(situation, collective)
    waits &= _is_told_to_wait(situation) & ~_is_of_libraries(situation) & (graph.other != graph.engine)
    # The first step may begin after its wait.
    if int(waits.sum()) < max(1, graph.steps - 1):
        return None
    change = replace(base, needs_other=base.needs_other & ~waits)
    pairs = Counter(zip(graph.stream[waits].tolist(), graph.stream[graph.other[waits]].tolist(), strict=True))
    text = (
        f"Work waits in {counted(in_work(situation, waits), 'place')} until another stream is done "
        f"({len(pairs)} pair{'s' if len(pairs) > 1 else ''} of streams): they run one after another, not side by side."
    )
    step = "Wait only for an event of the work that is needed (stream.wait_event(event)), not for the whole stream."
    calls = situation.calls_of(waits)
    # If streams wait for each other in turn, the wait that holds up most work is the one to look at.
    took = np.bincount(graph.stream, weights=graph.duration_ns)
    busiest = max(np.unique(graph.stream[waits]).tolist(), key=lambda number: float(took[number]))
    return Candidate(
        "stream-dependency", change, base, change, calls, int(waits.sum()), text, step, weight=1.1,
        named_by=situation.calls_of(waits & (graph.stream == busiest)), is_named_by_waits=True,
    )  # fmt: skip


def _is_told_to_wait(situation: Situation) -> Bools:
    """Return the work before which a call made its stream wait for an event, since the work before it in its stream.

    Work that begins as other work ends may also have waited for room on the GPU, or for the engine that copies.
    """
    stream, call = situation.graph.stream, situation.call
    before = np.full(len(stream), -1, dtype=np.int64)
    for _, mine in rows_by_key(pd.Series(stream)):
        before[mine[1:]] = call[mine[:-1]]
    waits = np.append(0, np.cumsum(situation.is_stream_wait))
    told: Bools = waits[call] > waits[before + 1]
    return told


def _is_of_libraries(situation: Situation) -> Bools:
    """Return the work of streams that hold nothing but kernels of libraries, which order their own streams."""
    stream = situation.graph.stream
    named = [_LIBRARY.search(str(name)) is not None for name in situation.names.texts]
    # The last entry is for work that is not a kernel.
    is_library = np.array([*named, True], dtype=np.bool_)[situation.kernel_number]
    own = np.bincount(stream, weights=~is_library) == 0
    of_library: Bools = own[stream]
    other = situation.graph.other
    return of_library | ((other >= 0) & of_library[np.maximum(other, 0)])


def attention_candidate(situation: Situation) -> Candidate | None:
    """Return the finding that attention runs in pieces, or None where it does not."""
    attention = _pieces_of_attention(situation)
    if attention is None:
        return None
    duration = situation.graph.duration_ns
    between, gemms, around = (
        int(in_work(situation, kind, duration)) for kind in (attention.between, attention.gemms, attention.around)
    )
    usual = fused_durations(duration, attention, FORWARD.usual, BACKWARD.usual)
    fused = int(in_work(situation, attention.gemms & ~attention.second_gemms, usual))
    beside = f", copies and sums beside them {format_ns(around)}" if around else ""
    softmax = attention.softmax == np.arange(len(duration))
    text = (
        f"Attention runs in pieces, in {counted(in_work(situation, softmax), 'call')}: softmax, mask and scaling "
        f"between matrix products take {format_ns(between)}, the products {format_ns(gemms)}{beside}; fused kernels "
        f"should take about {format_ns(fused)} in all."
    )
    step = (
        "Use torch.nn.functional.scaled_dot_product_attention(q, k, v) (flash, cuDNN or efficient), with "
        "is_causal=True instead of a causal mask."
    )
    changes = _changes(situation, attention)
    if changes.given_back:
        text += f" It allocates {100 * changes.given_back:.0f} % of the memory given back."
    calls = situation.calls_of(attention.between | attention.gemms | attention.around)
    # The code that can be changed is that of the forward pass, if it is in the trace.
    of_backward = np.unique(attention.softmax[attention.backward_gemms])
    forward = softmax & ~np.isin(attention.softmax, of_backward)
    first = np.isin(attention.softmax, np.flatnonzero(forward if forward.any() else softmax))
    # Each call's products and softmax take the longer, the longer its sequence.
    pieces = attention.between | attention.gemms
    elsewhere = situation.elsewhere(pieces)
    place = situation.range_of_most(pieces if elsewhere else pieces & first)
    text += elsewhere
    # What is around the softmax is also done elsewhere.
    named_by = situation.calls_of(softmax)
    return Candidate(
        "unfused-attention", changes.usual, changes.low, changes.high, calls, attention.calls, text, step,
        named_by=named_by, most_range=place, spent_ns=between, meanwhile="while the host issues other work anyway",
        still_slowed=changes.still_slowed if changes.given_back else None,
    )  # fmt: skip


@dataclass(frozen=True)
class _Changes:
    """The changes to fused kernels."""

    # The best estimate, the one that saves least, and the one that saves most.
    usual: ReplayChange
    low: ReplayChange
    high: ReplayChange
    # The best estimate with copies as slow as they are behind memory that was given back.
    still_slowed: ReplayChange
    # The share of attention in that memory, where it slows copies; 0 where it does not, or where nobody knows.
    given_back: float


def _changes(situation: Situation, attention: UnfusedAttention) -> _Changes:
    """Return the changes to fused kernels.

    Memory that is allocated in each step directly before such a kernel is its result's, which a fused kernel does not
    have. Copies that are slowed by memory that was given back are slowed less by its share of that memory. A torch
    that was given nothing to keep may then allocate for other kernels what it found there before, so the lower bound
    has these allocations, and only the upper bound is without the calls that give them back.
    """
    duration = situation.graph.duration_ns
    # A fused forward pass is one kernel. The parts of a backward pass are as many as its products.
    inside = attention.between | attention.second_gemms
    whole = inside | attention.around | _workspaces(situation, attention)
    names = [*map(str, situation.names.texts), ""]
    is_fp32 = np.array([_FP32.search(name) is not None for name in names], dtype=bool)[situation.kernel_number]
    least = [LEAST_OF_FP32] * 2 if (attention.gemms & is_fp32).any() else [FORWARD.least, BACKWARD.least]
    still_slowed, low, shortest = (
        without_work(situation, gone, fused_durations(duration, attention, *shares), with_allocations=is_all)
        for gone, shares, is_all in (
            (whole, (FORWARD.usual, BACKWARD.usual), True),
            (inside, (FORWARD.most, BACKWARD.most), False),
            (whole, least, True),
        )
    )
    allocating = (still_slowed.cost_ns == 0) & (situation.call_class == MEMORY) & (situation.graph.cost_ns > 0)
    share = situation.given_back.share(allocating & situation.in_loop) if situation.is_slowed.any() else 0.0
    if allocating.any():
        freeing = situation.given_back.freeing_of(allocating) & situation.in_loop
        shortest = combine(without(shortest, freeing, situation.graph), copies_beside_frees(situation))
    return _Changes(combine(still_slowed, less_slowed(situation, share)), low, shortest, still_slowed, share)


def fused_durations(duration: Int64s, attention: UnfusedAttention, forward: float, backward: float) -> Int64s:
    """Return the durations (ns) with fused kernels in place of the first product of each pass.

    forward, backward: how long a fused pass takes, as a share of the time of its products.
    """
    of_forward = attention.gemms & ~attention.backward_gemms
    kept = of_forward & ~attention.second_gemms
    both, first = (float(duration[products].sum()) for products in (of_forward, kept))
    factor = np.ones(len(duration))
    factor[kept] = forward * both / first if first else 1.0
    factor[attention.backward_gemms] = backward
    changed = (duration * factor).astype(np.int64)
    return np.where(attention.second_gemms, 0, changed)


def _workspaces(situation: Situation, attention: UnfusedAttention) -> Bools:
    """Return which fills clear the workspace of a product: those directly before it."""
    others = np.flatnonzero(~situation.is_fill)
    fills = np.flatnonzero(situation.is_fill)
    chosen = np.zeros(len(situation.is_fill), dtype=np.bool_)
    place = np.searchsorted(others, fills)
    inside = place < len(others)
    fills, following = fills[inside], others[place[inside]]
    stream = situation.graph.stream
    chosen[fills] = attention.gemms[following] & (stream[following] == stream[fills])
    return chosen


def _pieces_of_attention(situation: Situation) -> UnfusedAttention | None:
    """Return the unfused attention. Fills are ignored, because cuBLAS clears its workspace before some products."""
    others = np.flatnonzero(~situation.is_fill)
    stream = situation.graph.stream[others]
    pieces = find_unfused_attention(situation.kernel_number[others], situation.names, stream)
    if pieces is None:
        return None
    softmax = np.full(len(situation.is_fill), -1, dtype=np.int64)
    softmax[others] = np.where(pieces.softmax >= 0, others[np.maximum(pieces.softmax, 0)], -1)

    def of_all(values: Bools) -> Bools:
        marks = np.zeros(len(situation.is_fill), dtype=np.bool_)
        marks[others] = values
        return marks

    return UnfusedAttention(
        of_all(pieces.gemms),
        of_all(pieces.between),
        of_all(pieces.backward_gemms),
        of_all(pieces.second_gemms),
        of_all(pieces.around),
        softmax,
        pieces.calls,
    )
