"""Estimate what a fused kernel would save where attention runs as separate kernels.

A fused kernel computes the same matrix products, but keeps their large result, a number for each pair of a query and a
key, on the chip. Written out, each product writes or reads this result, which takes longer than its arithmetic where
heads are as small as usual: a product moves two bytes a pair at the memory's speed, a fused kernel computes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.findings.candidates import Candidate, copies_beside_frees, less_slowed, without_work
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.findings.step_amounts import counted, in_work
from nsysprof.analysis.findings.unfused_attention import UnfusedAttention, find_unfused_attention
from nsysprof.analysis.idle_time.call_classes import MEMORY
from nsysprof.analysis.replay.replay import ReplayChange, combine, without
from nsysprof.trace.schema import Bools, Int64s
from nsysprof.units import format_ns


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


def attention_candidate(situation: Situation) -> Candidate | None:
    """Return the finding that attention runs in pieces, or None where it does not."""
    found = _pieces_of_attention(situation)
    if found is None:
        return None
    duration = situation.graph.duration_ns
    between, gemms, around = (
        int(in_work(situation, each, duration)) for each in (found.between, found.gemms, found.around)
    )
    usual = fused_durations(duration, found, FORWARD.usual, BACKWARD.usual)
    fused = int(in_work(situation, found.gemms & ~found.second_gemms, usual))
    beside = f", copies and sums beside them {format_ns(around)}" if around else ""
    softmax = found.softmax == np.arange(len(duration))
    text = (
        f"Attention runs in pieces, in {counted(in_work(situation, softmax), 'call')}: softmax, mask and scaling "
        f"between matrix products take {format_ns(between)}, the products {format_ns(gemms)}{beside}; fused kernels "
        f"should take about {format_ns(fused)} in all."
    )
    step = (
        "Use torch.nn.functional.scaled_dot_product_attention(q, k, v) (flash, cuDNN or efficient), with "
        "is_causal=True instead of a causal mask."
    )
    changes = _changes(situation, found)
    if changes.given_back:
        text += f" It allocates {100 * changes.given_back:.0f} % of the memory given back."
    calls = situation.calls_of(found.between | found.gemms | found.around)
    # The code that can be changed is that of the forward pass, if it is in the trace.
    of_backward = np.unique(found.softmax[found.backward_gemms])
    forward = softmax & ~np.isin(found.softmax, of_backward)
    # What is around the softmax is also done elsewhere.
    named_by = situation.calls_of(softmax)
    return Candidate(
        "unfused-attention", changes.usual, changes.low, changes.high, calls, found.calls, text, step,
        named_by=named_by, most_range=situation.range_most(situation.calls_of(forward if forward.any() else softmax)),
        spent_ns=between, meanwhile="while the host issues other work anyway",
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


def _changes(situation: Situation, found: UnfusedAttention) -> _Changes:
    """Return the changes to fused kernels.

    Memory that is allocated in each step directly before such a kernel is its result's, which a fused kernel does not
    have. Copies that are slowed by memory that was given back are slowed less by its share of that memory. A torch
    that was given nothing to keep may then allocate for other kernels what it found there before, so the lower bound
    has these allocations, and only the upper bound is without the calls that give them back.
    """
    duration = situation.graph.duration_ns
    # A fused forward pass is one kernel. The parts of a backward pass are as many as its products.
    inside = found.between | found.second_gemms
    whole = inside | found.around | _workspaces(situation, found)
    names = [*map(str, situation.names.texts), ""]
    is_fp32 = np.array([_FP32.search(name) is not None for name in names], dtype=bool)[situation.kernel_number]
    least = [LEAST_OF_FP32] * 2 if (found.gemms & is_fp32).any() else [FORWARD.least, BACKWARD.least]
    still_slowed, low, shortest = (
        without_work(situation, gone, fused_durations(duration, found, *shares), with_allocations=is_all)
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


def fused_durations(duration: Int64s, found: UnfusedAttention, forward: float, backward: float) -> Int64s:
    """Return the durations (ns) with fused kernels in place of the first product of each pass.

    forward, backward: how long a fused pass takes, as a share of the time of its products.
    """
    of_forward = found.gemms & ~found.backward_gemms
    kept = of_forward & ~found.second_gemms
    both, first = (float(duration[each].sum()) for each in (of_forward, kept))
    factor = np.ones(len(duration))
    factor[kept] = forward * both / first if first else 1.0
    factor[found.backward_gemms] = backward
    changed = (duration * factor).astype(np.int64)
    return np.where(found.second_gemms, 0, changed)


def _workspaces(situation: Situation, found: UnfusedAttention) -> Bools:
    """Return which fills clear the workspace of a product: those directly before it."""
    others = np.flatnonzero(~situation.is_fill)
    fills = np.flatnonzero(situation.is_fill)
    chosen = np.zeros(len(situation.is_fill), dtype=np.bool_)
    place = np.searchsorted(others, fills)
    inside = place < len(others)
    fills, following = fills[inside], others[place[inside]]
    stream = situation.graph.stream
    chosen[fills] = found.gemms[following] & (stream[following] == stream[fills])
    return chosen


def _pieces_of_attention(situation: Situation) -> UnfusedAttention | None:
    """Return the unfused attention. Fills are ignored, because cuBLAS clears its workspace before some products."""
    others = np.flatnonzero(~situation.is_fill)
    stream = situation.graph.stream[others]
    found = find_unfused_attention(situation.kernel_number[others], situation.names, stream)
    if found is None:
        return None
    softmax = np.full(len(situation.is_fill), -1, dtype=np.int64)
    softmax[others] = np.where(found.softmax >= 0, others[np.maximum(found.softmax, 0)], -1)

    def of_all(values: Bools) -> Bools:
        each = np.zeros(len(situation.is_fill), dtype=np.bool_)
        each[others] = values
        return each

    return UnfusedAttention(
        of_all(found.gemms),
        of_all(found.between),
        of_all(found.backward_gemms),
        of_all(found.second_gemms),
        of_all(found.around),
        softmax,
        found.calls,
    )
