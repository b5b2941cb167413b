"""Find what could be changed in the GPU's work: unfused attention, unfused optimizers, and waits for others.

Find what the program gains where nothing is compiled between the calls of a step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.intervals import measure, union_of_groups
from nsysprof.analysis.busy_time.foreach_kernels import count_passes, rows_of_adam
from nsysprof.analysis.findings.candidates import LONG_GAP_NS, Candidate, copies_beside_frees, less_slowed, without_work
from nsysprof.analysis.findings.from_operators.operator_evidence import TensorUses, bytes_of_run, find_most, memory_of
from nsysprof.analysis.findings.situation import Situation, counted, in_calls, in_work, number_text
from nsysprof.analysis.findings.unfused_attention import UnfusedAttention, find_unfused_attention
from nsysprof.analysis.idle_time.call_classes import MEMORY
from nsysprof.analysis.idle_time.interval_layers import outermost
from nsysprof.analysis.replay.replay import ReplayChange, combine, no_change, without
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.arrays import rows_by_key
from nsysprof.results.findings import MEAN_STEP, Finding
from nsysprof.torchprof.operator_facts import tensor_at, tensors_of
from nsysprof.trace.schema import MIGRATION, PID_MASK, Bools, Int64s, Tables
from nsysprof.units import format_bytes, format_ns

# At least this many elementwise kernels in a row are an optimizer that updates parameters one by one.
_STORM = 48
_OPTIMIZER = re.compile(
    r"addcmul|addcdiv|lerp|sqrt|BinaryFunctor|MulFunctor|AUnaryFunctor|elementwise|foreach|FillFunctor|pointwise", re.I
)
_PARTICULAR = re.compile(r"addcmul|addcdiv|lerp|sqrt", re.I)
_MULTI_TENSOR = re.compile(r"multi_tensor|FusedAdam|FusedOptimizer|fused_adam", re.I)
# What a fused Adam step takes of the time of separate operations, without 1.5 us for each. It moves a third of their
# bytes, but small tensors stay in the caches anyway: 0.80 and 0.67 on an H200 (traces/h200-faults and h200-busy:
# unfused-optimizer and none, gpt-loop-optimizer and gpt-none).
_FUSED_PART, _FUSED_PART_MOST, _FUSED_PART_LEAST = 0.7, 1.0, 0.33
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
# In a model in fp32, a fused kernel computes about as long as products on the CUDA cores, with one more product in the
# backward pass, also where TF32 makes the products faster by so much: Whisper on an H200, 22 ms in place of 19.7 ms of
# products, and of 4.4 ms in TF32.
OF_FP32 = FusedTime(1.0, 0.45, 1.3), FusedTime(1.25, 0.7, 1.6)
_FASTER_BY_TF32 = 4.5
# The products of a model take at least this share of the time of those of attention.
_LEAST_OTHERS = 0.25
_TF32 = re.compile(r"tf32|(?<!16_)s1688gemm", re.IGNORECASE)
_FP32 = re.compile(r"sgemm|ffma|_simt_|f32f32_f32f32|gemm[^<]*<float, *float", re.IGNORECASE)


def list_kernel_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the kernels of the graph."""
    searches: tuple[Callable[[Situation], Candidate | None], ...] = (
        attention_candidate, _optimizer, _foreach_optimizer, _collectives, _streams,
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


# Adam reads parameter, gradient and both moments, and writes all but the gradient.
_FUSED_PASSES = 7
# How many times as long a fused kernel takes for a byte.
_SLOWER_USUAL, _SLOWER_MOST, _SLOWER_LEAST = 1.2, 1.5, 1.0
# What computes the gradient of a table of embeddings, and which share of its rows is few.
_OF_TABLES, _FEW_ROWS = ("aten::_embedding_bag_dense_backward", "aten::embedding_dense_backward"), 0.1
_FUSED_FORMS = ("Adam", "AdamW", "SGD", "Adagrad")
_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")


def _foreach_optimizer(situation: Situation) -> Candidate | None:
    """Return what a fused optimizer saves in place of a foreach one that memory limits; None where there is none."""
    chosen = _known_by_operators(situation)
    share = _share_of_bytes(situation, chosen)
    if share is None:
        chosen = np.zeros(len(situation.kernel_number), dtype=np.bool_)
        kinds = [str(name) for name in situation.names.texts]
        for rows in rows_of_adam(kinds, situation.kernel_number, situation.graph.stream):
            chosen[rows] = True
        if not chosen.any():
            return None
        share = _share_of_passes(situation, chosen, kinds)
    part, moved = share
    duration = situation.graph.duration_ns

    def at(slower: float) -> ReplayChange:
        fused = (duration * min(1.0, part * slower)).astype(np.int64)
        return without_work(situation, np.zeros_like(chosen), np.where(chosen, fused, duration))

    usual = at(_SLOWER_USUAL)
    spent = int(in_work(situation, chosen, duration))
    text = (
        f"The optimizer reads and writes the parameters and their state again and again, in "
        f"{counted(in_work(situation, chosen), 'foreach kernel')}: {format_ns(spent)}{moved}. A fused one does so "
        f"once: about {format_ns(int(in_work(situation, chosen, usual.duration_ns)))}."
    )
    text += _tell_sparse(situation, chosen)
    most, name = find_most(situation, chosen), _name_of_optimizer(situation, chosen)
    step = f"torch.optim.{name}(..., fused=True)." if name else "Make the optimizer with fused=True."
    if name and name not in _FUSED_FORMS:
        step = f"torch.compile(optimizer.step), since {name} has no fused form."
    return Candidate(
        "unfused-optimizer", usual, at(_SLOWER_MOST), at(_SLOWER_LEAST), situation.calls_of(chosen), int(chosen.sum()),
        text, step, spent_ns=spent, most_range=situation.range_of_most(chosen), place=most.location if most else "",
    )  # fmt: skip


def _known_by_operators(situation: Situation) -> Bools:
    """Return the work of foreach operators inside an optimizer's step."""
    operators = situation.operators
    of_call = [call.way == "optimizer" and call.name.startswith("aten::_foreach_") for call in operators.calls]
    known: Bools = np.array([*of_call, False], dtype=np.bool_)[operators.call]
    return known


def _share_of_bytes(situation: Situation, chosen: Bools) -> tuple[float, str] | None:
    """Return which share of the moved bytes one pass moves, and a text on both; None where they are not known."""
    operators = situation.operators
    if not chosen.any():
        return None
    run = bytes_of_run(operators.calls, np.unique(operators.call[chosen]).tolist(), TensorUses(operators.calls))
    if run is None or not run.moved:
        return None
    text = f", in which {format_bytes(run.moved)} are moved, {format_bytes(run.fused)} in one pass"
    return run.fused / run.moved, text


def _tell_sparse(situation: Situation, chosen: Bools) -> str:
    """Return a sentence on tables most of whose rows have no gradient in a step; "" where nothing shows that."""
    calls = situation.operators.calls
    given = {
        memory_of(calls[number], tensor): tensor.bytes or 0
        for number in np.unique(situation.operators.call[chosen]).tolist()
        if number >= 0 and (facts := calls[number].facts) is not None
        for tensor in tensors_of(facts.inputs)
    }
    # Another use of a table adds to its gradient.
    added = {
        memory_of(call, tensor)
        for call in calls
        if call.name == "aten::add_" and call.facts is not None
        for tensor in tensors_of(call.facts.inputs[:1])
    }
    rows = touched = size = 0
    for call in calls:
        facts = call.facts
        if facts is None or call.name not in _OF_TABLES:
            continue
        gradient, index = next(tensors_of(facts.outputs), None), tensor_at(facts.inputs, 1)
        if gradient is None or not gradient.sizes or index is None:
            continue
        if memory_of(call, gradient) in given.keys() - added and index.elements < _FEW_ROWS * gradient.sizes[0]:
            rows, touched, size = rows + gradient.sizes[0], touched + index.elements, size + (gradient.bytes or 0)
    # A parameter comes with a gradient and at most three tensors of state.
    if not rows or 8 * size < sum(given.values()):
        return ""
    share = 100 * touched / rows
    return (
        f" At most {share:.2g} % of the {rows:,} rows of embeddings have a gradient in a step: with sparse=True and "
        "torch.optim.SparseAdam or SGD, which leave all other rows and their state as they are, even less is moved."
    )


def _share_of_passes(situation: Situation, chosen: Bools, kinds: list[str]) -> tuple[float, str]:
    """Return which share of the time one pass takes, by how many tensors each kernel reads and writes."""
    passes = sum(count_passes(kinds[number]) for number in np.unique(situation.kernel_number[chosen]).tolist())
    return min(1.0, _FUSED_PASSES / max(1, passes)), ""


def _name_of_optimizer(situation: Situation, chosen: Bools) -> str:
    """Return the name of the optimizer with most of the work; "" where it is not known."""
    calls = situation.operators.calls
    around = [" ".join(calls[number].around) for number in situation.operators.call[chosen].tolist() if number >= 0]
    names = Counter(match[1] for text in around if (match := _STEP.search(text)) is not None)
    return names.most_common(1)[0][0] if names else ""


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
    shares = _shares(situation, attention)
    passes = (attention.gemms & ~attention.backward_gemms, attention.backward_gemms)
    usual = zip(shares, passes, strict=True)
    fused = int(sum(share.usual * in_work(situation, products, duration) for share, products in usual))
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
    if shares[0] is not FORWARD:
        text += (
            " In fp32 these compute without tensor cores, even where TF32 is allowed; they are far faster in 16 bit."
        )
    changes = _changes(situation, attention, shares)
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


def _shares(situation: Situation, attention: UnfusedAttention) -> tuple[FusedTime, FusedTime]:
    """Return how long fused passes take, as a share of their products, by what most other products compute with.

    torch's math backend computes in fp32 what is given to it in 16 bit, so its own products do not tell.
    """
    names = [*map(str, situation.names.texts), ""]
    others = (situation.category == "gemm") & ~attention.gemms
    spent = np.where(others, situation.graph.duration_ns, 0)
    own = int(situation.graph.duration_ns[attention.gemms].sum())
    if not situation.is_looped or spent.sum() < _LEAST_OTHERS * own:
        return FORWARD, BACKWARD
    for pattern, faster in ((_FP32, 1.0), (_TF32, _FASTER_BY_TF32)):
        alike = np.array([pattern.search(name) is not None for name in names], dtype=bool)[situation.kernel_number]
        if 2 * int(spent[alike].sum()) > int(spent.sum()) and (alike & attention.gemms).any():
            forward, backward = (
                FusedTime(*(faster * part for part in (share.usual, share.least, share.most))) for share in OF_FP32
            )
            return forward, backward
    return FORWARD, BACKWARD


def _changes(situation: Situation, attention: UnfusedAttention, shares: tuple[FusedTime, FusedTime]) -> _Changes:
    """Return the changes to fused kernels.

    Memory that is allocated in each step directly before such a kernel is its result's, which a fused kernel does not
    have. Copies that are slowed by memory that was given back are slowed less by its share of that memory. A torch
    that was given nothing to keep may then allocate for other kernels what it found there before, so the lower bound
    has these allocations, and only the upper bound is without the calls that give them back.
    """
    # A fused forward pass is one kernel. The parts of a backward pass are as many as its products.
    inside = attention.between | attention.second_gemms
    whole = inside | attention.around | _workspaces(situation, attention)
    names = [*map(str, situation.names.texts), ""]
    is_fp32 = np.array([_FP32.search(name) is not None for name in names], dtype=bool)[situation.kernel_number]
    least = [share.least for share in shares]
    if shares[0] is FORWARD and (attention.gemms & is_fp32).any():
        least = [LEAST_OF_FP32] * 2
    still_slowed, low, shortest = (
        _fused(situation, attention, gone, parts, with_allocations=is_all)
        for gone, parts, is_all in (
            (whole, [share.usual for share in shares], True),
            (inside, [share.most for share in shares], False),
            (whole, least, True),
        )
    )
    allocating = (still_slowed.cost_ns == 0) & (situation.call_class == MEMORY) & (situation.graph.cost_ns > 0)
    share = situation.given_back.share(allocating & situation.in_loop) if situation.is_slowed.any() else 0.0
    if allocating.any():
        freeing = situation.given_back.freeing_of(allocating) & situation.in_loop
        shortest = combine(without(shortest, freeing, situation.graph), copies_beside_frees(situation))
    return _Changes(combine(still_slowed, less_slowed(situation, share)), low, shortest, still_slowed, share)


def _fused(
    situation: Situation, attention: UnfusedAttention, gone: Bools, parts: Sequence[float], *, with_allocations: bool
) -> ReplayChange:
    """Return the change to fused kernels that take these shares of the products of both passes.

    Where they take longer than the products, those stay, and what is between them keeps the rest of their time.
    So other changes of the products count once.
    """
    duration = situation.graph.duration_ns
    if min(parts) < 1:
        times = fused_durations(duration, attention, *parts)
        return without_work(situation, gone, times, with_allocations=with_allocations)
    pieces = attention.between | attention.around
    passes = (attention.gemms & ~attention.backward_gemms, attention.backward_gemms)
    longer = sum((part - 1) * float(duration[products].sum()) for part, products in zip(parts, passes, strict=True))
    left = min(1.0, longer / max(1, int(duration[pieces].sum())))
    shorter = np.where(pieces, (duration * left).astype(np.int64), duration)
    return without_work(situation, np.zeros_like(gone), shorter)


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


# The share of the time for compiling that is left at worst: padding leaves some shapes that are new.
_LEFT = 0.25
# The most functions that a text names.
_MOST_NAMED = 2
_VERBS = {
    "dynamo": "torch.compile compiles", "backward": "torch.compile compiles the backward pass of",
    "graph": "torch.compile records the CUDA graph of", "triton": "Triton compiles", "tune": "variants are measured of",
    "cute": "CuTe DSL compiles",
}  # fmt: skip
_SHAPES = re.compile(r"size mismatch|stride mismatch|\.size\(|Eq\(|Ne\(|expected \d+, actual \d+")
_FOR_SHAPES = (
    "Its shapes change: torch.compile(dynamic=True) or torch._dynamo.mark_dynamic(x, dim) compile once for all of "
    "them; or pad the lengths to a few, and run each of these before the loop."
)
_FOR_VALUES = (
    "Mend what the guard compares: pass a number that changes as a tensor, and keep types, devices and modes the same; "
    'TORCH_LOGS="recompiles" names every guard.'
)
_FOR_KERNELS = (
    "Give a kernel few constants: round those that change with the shape (triton.next_power_of_2), take them out of "
    "tl.constexpr or out of the autotuner's key, and run each shape before the loop."
)


def find_compile_candidate(situation: Situation) -> Candidate | None:
    """Return what the program gains where nothing is compiled between the calls of a step; None where nothing is."""
    calls = (situation.compiled_ns > 0) & situation.in_loop
    if not calls.any():
        return None

    spent, table = int(in_calls(situation, calls, situation.compiled_ns)), _by_function(situation.compiles)
    text = f"The host compiles for {format_ns(spent)}, before {counted(in_calls(situation, calls), 'call')}: "
    text += _name_functions(table, situation.share if situation.is_looped else None)
    change, low = (situation.hold_less(calls, situation.compiled_ns, left) for left in (0.0, _LEFT))
    places = [str(place) for place in table["place"] if place]
    return Candidate(
        "jit-in-loop", change, low, change, calls, int(calls.sum()), text, _mend(table), gaps=calls,
        spent_ns=spent, place=places[0] if places else "",
    )  # fmt: skip


def find_rare_compiles(tables: Tables, steps: Steps, codes: Collection[str]) -> Finding | None:
    """Return what the slow steps of a program lose by compiling, as a mean over all steady steps; None for nothing.

    The steps that are replayed leave slow ones out. Threads that call CUDA count. What a slow step loses is what it
    took longer than a usual one, and at most the time that was compiled in it.

    codes: the findings of usual steps; where these compile too, that finding says it.
    """
    compiles, slow = tables.compiles, np.flatnonzero(steps.is_slow)
    if compiles is None or "jit-in-loop" in codes or not steps.are_known or len(slow) == 0:
        return None
    callers = np.zeros(0) if tables.calls is None else np.unique(tables.calls.tid_of)
    thread = compiles["global_tid"]
    compiles = compiles[((thread & PID_MASK) == steps.global_pid) & thread.isin(callers)]
    # A compilation is in the step that the host had begun, whose work the GPU then waits for.
    step = np.searchsorted(steps.starts_ns, compiles["start_ns"].to_numpy(np.int64), "right") - 1
    compiles = compiles.assign(step=step)[np.isin(step, slow)]
    if compiles.empty:
        return None
    table, walls = _by_function(compiles), np.diff(steps.bounds_ns)
    outer = compiles[outermost(compiles["start_ns"].to_numpy(), compiles["end_ns"].to_numpy())]
    begun, ended = (outer[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    work = tables.work
    of_process = (work.pid_of == steps.global_pid) & (work.kind_of != MIGRATION)
    rows = np.flatnonzero(of_process[work.variant])
    _, low, high = union_of_groups(np.zeros(len(rows), np.int64), work.start_ns[rows], work.ends_ns(rows))
    idle_ns = int((ended - begun - measure(low, high, begun, ended)[0]).sum())
    compiled = (outer["end_ns"] - outer["start_ns"]).groupby(outer["step"]).sum()
    excess = np.maximum(walls[compiled.index.to_numpy()] - steps.step_ns, 0)
    lost = int(np.minimum(compiled.to_numpy(), excess).sum())
    saving = lost // steps.count
    # What occurred once may not come again; of what recurs, padding and the like leave some.
    least = 0 if len(compiled) == 1 else int((1 - _LEFT) * saving)
    places = [str(place) for place in table["place"] if place]
    return Finding(
        rank=0, code="jit-in-loop", range=steps.name, location=places[0] if places else "", count=1,
        idle_ns=idle_ns // steps.count,
        saving_ns=saving, saving_low_ns=least, saving_high_ns=saving, per=MEAN_STEP,
        text=f"The host compiles in {len(compiled):,} of {steps.count:,} steps, which lose {format_ns(lost)} by it: "
        f"{_name_functions(table, None)} The saving is a mean over all steady steps, these slow ones included.",
        next_step=_mend(table),
    )  # fmt: skip


def _by_function(compiles: pd.DataFrame) -> pd.DataFrame:
    """Return what was compiled, the most time first: kind, what, place, count, spent (ns), and why the last time."""
    outer = compiles[outermost(compiles["start_ns"].to_numpy(), compiles["end_ns"].to_numpy())]
    by_name = outer.assign(spent=outer["end_ns"] - outer["start_ns"]).groupby(["kind", "what", "place"], sort=False)
    table = by_name.agg(count=("spent", "size"), spent=("spent", "sum"), why=("why", "last")).reset_index()
    return table.sort_values("spent", ascending=False, kind="stable")


def _name_functions(table: pd.DataFrame, steps: float | None) -> str:
    """Return what was compiled, how often, for how long and why, as the end of a sentence.

    steps: how many steps there were; None where the whole trace counts.
    """
    named = [_describe(row, steps) for row in table.head(_MOST_NAMED).itertuples()]
    others = len(table) - len(named)
    return "; ".join(named) + (f"; and {counted(others, 'other')}" if others > 0 else "") + "."


def _describe(row: tuple[object, ...], steps: float | None) -> str:
    """Return what was compiled, how often in a step, for how long, and why the last time."""
    kind, what, place, count, spent, why = (
        getattr(row, name) for name in ("kind", "what", "place", "count", "spent", "why")
    )
    where = f" ({place})" if place else ""
    often = number_text(count if steps is None else count / steps)
    times = ("once" if often == "1" else f"{often} times") + ("" if steps is None else " a step")
    took = format_ns(int(spent / count))
    text = f"{_VERBS.get(kind, 'a compiler compiles')} {what}{where} {times}, for {took} each"
    return f"{text}, the last time because {why.rstrip('.')}" if why and kind == "dynamo" else text


def _mend(table: pd.DataFrame) -> str:
    """Return what to do about the compilation that takes the most time."""
    first = table.iloc[0]
    if first["kind"] in ("triton", "tune", "cute"):
        return _FOR_KERNELS
    reasons = [str(why) for why in table["why"] if why]
    return _FOR_VALUES if reasons and not _SHAPES.search(reasons[0]) else _FOR_SHAPES
