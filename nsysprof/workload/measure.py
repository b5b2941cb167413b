"""Measure one case: untraced samples of its latency, or a fixed number of calls inside an NVTX range."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any

import torch

from nsysprof.case import Case
from nsysprof.workload.backends import Attention, check_form, load_attention
from nsysprof.workload.check import check_attention
from nsysprof.workload.memory import PeakMemory
from nsysprof.workload.refusal import WrongResultError, eligibility

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
_MIN_SAMPLES = 10
_MOST_CALLS = 2000
METHODS = {
    "cuda": "untraced; one pair of CUDA events around each call, calls queued back to back, L2 warm; median",
    "cpu": "untraced; monotonic clock around each call on the CPU; median",
}

Call = Callable[[], object]


@contextmanager
def prepared(case: Case, device: str, memory: PeakMemory | None = None) -> Iterator[Call]:
    """The case's call, ready to run: inputs allocated, backend selected, and one first call made.

    fwd: out = attention(q, k, v) without autograd. bwd: the gradients of q, k, v, the forward done beforehand.
    fwdbwd: both. Raises IneligibleError when the backend refuses the case, UnusableBackendError when its name leads to
    nothing callable, and WrongResultError when what it returns has not the form of an attention's result.
    """
    select, attention = load_attention(case.backend)
    q, k, v = _make_inputs(case, device)
    grad = torch.randn_like(q) if case.pass_ != "fwd" else None
    if memory is not None:
        memory.mark_inputs()
    with select, torch.set_grad_enabled(case.pass_ != "fwd"):
        with eligibility(case.backend):
            call = _make_call(case, attention, q, k, v, grad)
            _synchronize(device)
        yield call


def _check_first_output(out: object, q: torch.Tensor, v: torch.Tensor) -> None:
    tensor = check_form(out, q, v)
    if q.requires_grad and not tensor.requires_grad:
        raise WrongResultError("returned a tensor without gradient")


def _make_inputs(case: Case, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device=device).manual_seed(0)
    made = [
        torch.randn(
            (case.batch, heads, case.seq, case.head_dim), generator=generator, device=device, dtype=DTYPES[case.dtype]
        ).requires_grad_(case.pass_ != "fwd")
        for heads in (case.heads, case.key_heads, case.key_heads)
    ]
    return made[0], made[1], made[2]


def _make_call(
    case: Case,
    attention: Attention,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad: torch.Tensor | None,
) -> Call:
    """The call to measure, after a first one whose result has the right form."""
    causal = case.causal
    out = attention(q, k, v, causal)
    _check_first_output(out, q, v)
    if case.pass_ == "fwd":
        return lambda: attention(q, k, v, causal)
    torch.autograd.grad(out, (q, k, v), grad, retain_graph=case.pass_ == "bwd")
    if case.pass_ == "bwd":
        return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)
    return lambda: torch.autograd.grad(attention(q, k, v, causal), (q, k, v), grad)


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _warm_up(call: Call, device: str, calls: int) -> float:
    """Run `calls` calls and return the seconds one took."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    _synchronize(device)
    return (time.perf_counter() - start) / max(1, calls)


def sample_count(wanted: int, budget_s: float, call_s: float) -> int:
    """As many samples as wanted, fewer when they would take longer than the budget, never under ten."""
    return min(wanted, max(_MIN_SAMPLES, int(budget_s / max(call_s, 1e-9))))


def check_case(case: Case, device: str) -> dict[str, Any]:
    """What the comparison with the float64 reference found, as JSON. Raises WrongResultError when that is a fault."""
    select, attention = load_attention(case.backend)
    with select, eligibility(case.backend):
        result = check_attention(attention, case, device)
    if not result.ok:
        raise WrongResultError(result.reason)
    return asdict(result)


def measure_latency(case: Case, device: str, samples: int, budget_s: float, warmup: int) -> dict[str, Any]:
    """Raw durations (ns) of single untraced calls after a warm-up of this very case, and its peak memory."""
    memory = PeakMemory(device)
    with prepared(case, device, memory) as call:
        first = _warm_up(call, device, 1)  # the second call ever: plans exist, clocks may still be low
        call_s = _warm_up(call, device, min(warmup, max(2, int(budget_s / max(first, 1e-9)))))
        count = sample_count(samples, budget_s, call_s)
        values = _time_cuda(call, count) if device == "cuda" else _time_cpu(call, count)
        return {"values_ns": values, "method": METHODS[device], **memory.read()}


def _time_cuda(call: Call, count: int) -> list[int]:
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    for start, end in zip(starts, ends, strict=True):
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [round(start.elapsed_time(end) * 1e6) for start, end in zip(starts, ends, strict=True)]


def _time_cpu(call: Call, count: int) -> list[int]:
    values = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        values.append(time.perf_counter_ns() - start)
    return values


def run_traced(
    case: Case, device: str, calls: int, warmup: int, annotated: AbstractContextManager[None], least_s: float = 0.0
) -> int:
    """Warm the case, then run `calls` calls inside `annotated`, or as many as take `least_s`; returns how many.

    The range ends when the device is idle again.
    """
    with prepared(case, device) as call:
        call_s = _warm_up(call, device, warmup)
        count = max(calls, min(_MOST_CALLS, math.ceil(least_s / call_s))) if least_s and call_s else calls
        with annotated:
            for _ in range(count):
                call()
            _synchronize(device)
    return count
