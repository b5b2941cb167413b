"""Measure one case: untraced (latencies, CUDA graph, peak memory), or as calls in a range that a profiler records."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import cache
from typing import Any, NamedTuple

import torch

from nsysprof.attention.backend_limits import MOST_LOSS, is_lossy
from nsysprof.attention.shape import Case
from nsysprof.environment import read_clocks
from nsysprof.results.samples import CAPTURED_SHARE
from nsysprof.workload.backends import Attention, attention_for, check_form, mask_of
from nsysprof.workload.correctness_check import check_attention
from nsysprof.workload.job import TRACED, Job
from nsysprof.workload.loaded_libraries import collect_torch
from nsysprof.workload.measuring.case_tensors import draw_inputs
from nsysprof.workload.measuring.memory import PeakMemory, release_memory
from nsysprof.workload.measuring.timing import (
    Call,
    WarmUp,
    capture_graph,
    make_flush,
    run_calls,
    synchronize,
    time_calls,
    time_nothing,
    warm_up,
)
from nsysprof.workload.refusal import WrongResultError, eligibility


@contextmanager
def prepared(case: Case, device: str, memory: PeakMemory | None = None) -> Iterator[Call]:
    """Yield the case's call, ready to run and called once already.

    fwd computes out = attention(q, k, v) without autograd. bwd computes the gradients of q, k and v, and of a learned
    mask, after a forward pass that is not measured. fwdbwd does both.

    Raises IneligibleError when the backend refuses the case, UnusableBackendError when it cannot be imported or called,
    and WrongResultError when its result does not have the form of attention.

    memory: is told when the inputs exist and nothing else does.
    """
    q, k, v = _make_inputs(case, device)
    mask = mask_of(case, device)
    select, attention = attention_for(case.backend, case, mask, device)
    leaves = (q, k, v) if mask is None or not mask.requires_grad else (q, k, v, mask)
    grad = torch.randn_like(q[..., :1].expand(*q.shape[:-1], v.shape[-1])) if case.pass_ != "fwd" else None
    if memory is not None:
        memory.mark_inputs()
    with select, torch.set_grad_enabled(case.pass_ != "fwd"):
        with eligibility(case.backend):
            call = _make_call(case, attention, leaves, grad)
            synchronize(device)
        yield call


def check_case(case: Case, device: str, allow_error: float = 0.0) -> dict[str, Any]:
    """Return how far the results are from the float64 reference. Raises WrongResultError when that is too far.

    A lossy backend may be farther than rounding explains, as any other may up to allow_error: it is approximate.
    """
    select, attention = attention_for(case.backend, case, mask_of(case, device), device)
    with select, eligibility(case.backend):
        result = check_attention(attention, case, device)
    largest = max(result.errors.values(), default=math.inf)
    if not result.ok and not largest <= max(allow_error, MOST_LOSS if is_lossy(case.backend) else 0.0):
        raise WrongResultError(result.reason)
    return asdict(result) | {"approximate": not result.ok}


def _make_inputs(case: Case, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device=device).manual_seed(0)
    q, k, v = (tensor.requires_grad_(case.pass_ != "fwd") for tensor in draw_inputs(case, device, generator))
    return q, k, v


def _make_call(
    case: Case,
    attention: Attention,
    leaves: tuple[torch.Tensor, ...],
    grad: torch.Tensor | None,
) -> Call:
    """Return the call to measure, after a first call whose result has the right form.

    leaves: q, k, v, and whatever else needs a gradient.
    """
    (q, k, v), causal = leaves[:3], case.causal
    out = attention(q, k, v, causal)
    tensor = check_form(out, q, v)
    if q.requires_grad and not tensor.requires_grad:
        raise WrongResultError("returned a tensor without gradient")
    if case.pass_ == "fwd":
        return lambda: attention(q, k, v, causal)
    torch.autograd.grad(out, leaves, grad, retain_graph=case.pass_ == "bwd")
    if case.pass_ == "bwd":
        return lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)
    return lambda: torch.autograd.grad(attention(q, k, v, causal), leaves, grad)


_MOST_CALLS = 2000
# The longest warm-up of a replay where every block has one (s): its call is warm already.
_SHORT_WARMUP_S = 0.05
_OTHER_SAMPLES = 6
# How many calls are timed under the profiler, outside their range, and for how long at most (s).
_LEAST_TIMED, _MOST_TIMED, _TIMED_S = 6, 20, 0.5
# How many readings of the SM clock must agree, and how closely: a step of a GPU's clock is about 15 MHz.
_EVERY_S, _READINGS, _TOLERANCE = 0.1, 10, 0.01
_LEAST_S, _MOST_S = 2.0, 20.0
_CALLS_S = 0.02
ReadClock = Callable[[], int | None]


class TracedCalls(NamedTuple):
    """How many calls are in the range of a case, and the times of other calls under the same profiler (ns)."""

    calls: int
    values_ns: tuple[int, ...]


def measure_block(case: Case, job: Job, *, first: bool = True) -> dict[str, Any]:
    """Return the measured fields of a Block: latencies, peak memory, and how the warm-up went.

    first: whether this is the first block of the case in this process.
    """
    flush = make_flush(job.device) if job.flush else None  # before the peak is measured, without its buffer
    memory = PeakMemory(job.device)
    with own_stream(job.device), prepared(case, job.device, memory) as call:
        warm, clock_mhz = _warm_up(call, job)
        count = sample_count(job, warm.call_s)
        if flush is not None:
            flush()
        synchronize(job.device)
        started_ns = time.time_ns()
        timed = time_calls(call, job.device, count, flush)
        peaks = memory.read()
        share = warm.launch_s / warm.call_s if job.device == "cuda" and warm.call_s else None
        graph_ns, graph_reason = _time_graph(call, job, count, flush, first=first, share=share)
        other_ns = _time_other_caches(call, job, count)
        empty_ns = time_nothing(job.device)
    release_memory()
    return {
        "started_ns": started_ns,
        "values_ns": timed.values_ns,
        "offsets_ns": timed.offsets_ns,
        "other_caches_ns": other_ns,
        "empty_ns": empty_ns,
        "sm_clock_mhz": clock_mhz,
        "graph_ns": graph_ns,
        "graph_reason": graph_reason,
        "launch_share": None if share is None else round(share, 3),
        "warmup_calls": warm.calls,
        "stable": warm.stable,
        **peaks,
    }


def run_traced(case: Case, job: Job, annotated: AbstractContextManager[None]) -> TracedCalls:
    """Warm up the case, run its calls inside `annotated`, and return how many there were and what recording costs.

    There are traced_calls of them, or as many as take traced_seconds. The range ends when the device is idle again.
    """
    with prepared(case, job.device) as call:
        call_s = run_calls(call, job.device, job.warmup_calls or 0).call_s
        count = job.traced_calls
        if job.traced_seconds and call_s:
            count = max(count, min(_MOST_CALLS, math.ceil(job.traced_seconds / call_s)))
        with annotated:
            for _ in range(count):
                call()
            synchronize(job.device)
        few = 0
        if job.pass_name == TRACED and job.profiler == "nsys" and call_s * _LEAST_TIMED <= _TIMED_S:
            few = min(_MOST_TIMED, int(_TIMED_S / max(call_s, 1e-9)))
        return TracedCalls(count, time_calls(call, job.device, few, None).values_ns if few else ())


def own_stream(device: str) -> AbstractContextManager[Any]:
    """Return a stream other than the default one, which cannot be captured into a graph."""
    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else nullcontext()


def sample_count(job: Job, call_s: float) -> int:
    """Return the number of samples: as many as wanted, or fewer when they would take longer than sample_seconds.

    It is never less than least_samples, unless fewer are wanted.

    call_s: the duration of a call (s).
    """
    return min(job.samples, max(job.least_samples, int(job.sample_seconds / max(call_s, 1e-9))))


def _warm_up(call: Call, job: Job) -> tuple[WarmUp, int | None]:
    """Warm up by the job's rule, and return how it went and, after a sustained load, the SM clock (MHz)."""
    if job.sustained:
        return sustain(call, job.device)
    if job.warmup_calls is None:
        return warm_up(call, job.device, job.warmup_seconds), None
    first = run_calls(call, job.device, 1)  # the second call in all: plans exist, clocks may still be low
    most = max(2, int(job.sample_seconds / max(first.call_s, 1e-9)))
    warm = run_calls(call, job.device, min(job.warmup_calls, most))
    return warm._replace(calls=warm.calls + 1), None


def _time_other_caches(call: Call, job: Job, count: int) -> tuple[int, ...]:
    """Return latencies with the other cache state: warm where the job empties them, and vice versa (ns)."""
    few = min(count, _OTHER_SAMPLES)
    try:
        other = None if job.flush else make_flush(job.device)
    except (RuntimeError, MemoryError):  # a case that fills the memory leaves no room for the buffer
        return ()
    call()
    return time_calls(call, job.device, few, other).values_ns


def _time_graph(
    call: Call, job: Job, count: int, flush: Call | None, *, first: bool, share: float | None
) -> tuple[tuple[int, ...], str]:
    """Return the latencies of the call as a CUDA graph (ns), or none and the reason.

    share: the part of a call that is launching (0 to 1).
    """
    if job.device != "cuda":
        return (), "there are no CUDA graphs on a CPU"
    if job.graph == "never":
        return (), "not asked for"
    if job.graph == "auto" and not first:
        return (), "timed once in each process"
    is_short = job.graph == "short"
    if is_short and (share is None or share < CAPTURED_SHARE):
        return (), "launching takes too little of a call"
    try:
        replay = capture_graph(call)
        warm_up(replay, job.device, min(job.warmup_seconds, _SHORT_WARMUP_S) if is_short else job.warmup_seconds)
        return time_calls(replay, job.device, count, flush).values_ns, ""
    except RuntimeError as error:
        reason = (str(error).splitlines() or [""])[0]
        return (), f"it cannot be captured: {reason[:200]}"


def sustain(call: Call, device: str, read: ReadClock | None = None) -> tuple[WarmUp, int | None]:
    """Call back to back until the SM clock has settled, for 2 to 20 s; return how it ended and the clock (MHz).

    Without readings of the clock it takes 2 s, and the clock is None.

    read: returns the SM clock (MHz); None asks NVML.
    """
    read = read or _reader(device)
    begin = last = time.perf_counter()
    window = run_calls(call, device, 1)
    calls, seen = 1, [read()]
    while True:
        window = run_calls(call, device, max(1, int(_CALLS_S / max(window.call_s, 1e-9))))
        calls += window.calls
        now = time.perf_counter()
        if now - last >= _EVERY_S:
            last = now
            seen.append(read())
        settled = has_settled(seen)
        if now - begin >= _MOST_S or (now - begin >= _LEAST_S and (settled or seen[-1] is None)):
            known = [clock for clock in seen[-_READINGS:] if clock is not None]
            return window._replace(calls=calls, stable=settled), round(statistics.median(known)) if known else None


def has_settled(clocks: Sequence[int | None]) -> bool:
    """Return whether the last ten readings are known and within 1 % of their median."""
    last = [clock for clock in clocks[-_READINGS:] if clock is not None]
    if len(last) < _READINGS:
        return False
    middle = statistics.median(last)
    return max(abs(clock - middle) for clock in last) <= _TOLERANCE * middle


def _reader(device: str) -> ReadClock:
    uuid = _uuid(device)

    def read() -> int | None:
        clocks = read_clocks(uuid) if uuid else None
        return None if clocks is None else int(clocks["sm_clock_mhz"])

    return read


@cache
def _uuid(device: str) -> str:
    return str(collect_torch(device)["gpu_uuid"] or "")
