"""Ask torch's own checks about one call, one backend at a time, and run the call under torch's profiler."""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.profiler import profile
from torch.nn.attention import SDPBackend, sdpa_kernel

from nsysprof.attention.backend_limits import NAMED_KERNELS, why_refused
from nsysprof.attention.eligibility import (
    AttentionCall,
    CallVerdict,
    Constraint,
    EligibilityAnswer,
    EligibilityQuestion,
    Ran,
    explain_refusal,
    parse_refusal,
    plain_text,
)
from nsysprof.attention.kernel_family import dispatched_operator, kernel_family, operator_family
from nsysprof.attention.mask import BACKENDS
from nsysprof.attention.shape import has_learned_mask
from nsysprof.environment import collect_host
from nsysprof.workload.backends import attention_for, check_form
from nsysprof.workload.measuring.case_tensors import AttentionInputs, NoMemoryError, make_inputs, store
from nsysprof.workload.refusal import IneligibleError

_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": getattr(SDPBackend, "CUDNN_ATTENTION", None),
}
_NAMES = {int(value): name for name, value in _BACKENDS.items() if value is not None}
_CHECKS = {
    "flash": "can_use_flash_attention",
    "efficient": "can_use_efficient_attention",
    "cudnn": "can_use_cudnn_attention",
}
# A call that every fused backend takes on a GPU that it supports. If it is refused, its shape is not the reason.
_ORDINARY = AttentionCall(seq=128, kv_seq=128, heads=1, kv_heads=1, head_dim=64, dtype="fp16", causal=False)


class UnknownError(Exception):
    """The question cannot be answered here. The text says why."""


def collect_facts(device: str) -> dict[str, Any]:
    """Return torch's version and the GPU. This starts CUDA, so a broken driver shows here."""
    facts: dict[str, Any] = {
        "device": device,
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "cudnn_version": torch.backends.cudnn.version() if device == "cuda" else None,
        "gpu_name": None,
        "compute_capability": None,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        torch.zeros(1, device="cuda")
        facts |= {"gpu_name": properties.name, "compute_capability": f"{properties.major}.{properties.minor}"}
    return facts


def answer(question: EligibilityQuestion, device: str) -> EligibilityAnswer:
    """Return everything that is known here about one question. What is unknown is None, with the reason."""
    backend, call = question.backend, question.call
    if backend not in BACKENDS:
        return _answer_of_own(question, device)
    built, supported = support(backend, device)
    try:
        answered = _ask(backend, call, device)
    except UnknownError as error:
        answered = EligibilityAnswer(backend, None, str(error))
    except RuntimeError as error:
        answered = EligibilityAnswer(backend, None, f"torch: {_first_line(error)}")
    if answered.eligible is False or (answered.eligible is None and backend in ("efficient", "cudnn")):
        ran = Ran("not_run", answered.reason)
    else:
        ran = _run(question, device, answered.predicted)
    if device == "cuda":
        torch.cuda.empty_cache()
    return replace(answered, built=built, supported=supported, ran=ran)


def _answer_of_own(question: EligibilityQuestion, device: str) -> EligibilityAnswer:
    """Return what one call of a user's own backend shows, because torch has no check for it."""
    backend, call = question.backend, question.call
    reason = "it is called without dropout" if call.dropout else why_refused(backend, call)
    if reason:
        return EligibilityAnswer(backend, False, reason, ran=Ran("not_run", reason))
    try:
        ran = _run(question, device, None)
    except IneligibleError as error:
        return EligibilityAnswer(backend, False, str(error), ran=Ran("not_run", str(error)))
    if device == "cuda":
        torch.cuda.empty_cache()
    if ran.status == "ok":
        return EligibilityAnswer(backend, True, "one call of it ran", ran=ran)
    # A backend that takes the shape and then runs out of memory is eligible, as torch's backends are.
    return EligibilityAnswer(backend, True if ran.status == "out_of_memory" else None, ran.reason, ran=ran)


def is_poisoned(answered: EligibilityAnswer) -> bool:
    """Return whether the GPU can no longer be used from this process."""
    return answered.ran.status == "error" and "CUDA error" in answered.ran.reason


def _ask(backend: str, call: AttentionCall, device: str) -> EligibilityAnswer:
    refused = why_refused(backend, call)
    if refused:
        return EligibilityAnswer(backend, False, refused)
    if backend == "naive":
        return EligibilityAnswer(backend, True, "plain operators: any shape that fits the memory")
    if backend == "math":
        return EligibilityAnswer(backend, True, "torch's fallback: any shape that fits the memory")
    if backend == "auto":
        return EligibilityAnswer(backend, True, predicted=_predict(call, device))
    verdict = _verdict(backend, call, device)
    if verdict.eligible:
        return EligibilityAnswer(backend, True)
    explanation = explain_refusal(call, lambda other: _verdict_or_refusal(backend, other, device))
    reason = " ".join(constraint.text for constraint in explanation.constraints)
    return EligibilityAnswer(backend, False, reason, explanation.constraints, explanation.nearest)


def _verdict(backend: str, call: AttentionCall, device: str) -> CallVerdict:
    """Return what torch's check says about one backend, with only the warnings of that check."""
    if device == "cpu" and backend != "flash":
        raise UnknownError("needs a GPU")
    with warnings.catch_warnings(record=True) as caught, _every_warning(), _stderr() as written:
        eligible = _choice_among(call, device, "flash") == "flash" if device == "cpu" else _can_use(backend, call)
    if eligible:
        return CallVerdict(True)
    messages = [str(warning.message) for warning in caught] + native_warnings("".join(written))
    constraints = parse_refusal(messages, call)
    return CallVerdict(False, tuple(constraints) or (_silent_refusal(call),))


def _silent_refusal(call: AttentionCall) -> Constraint:
    """Return the reason for which torch refuses without a warning (check_attn_mask_shape in sdp_utils_cpp.h)."""
    if has_learned_mask(call):
        text = "It takes no attn_mask that needs a gradient; torch refuses that without a warning."
        return Constraint("mask", call.mask, "unlike", call.mask, text)
    return Constraint(None, None, "", None, "torch gave no reason")


@contextmanager
def _every_warning() -> Iterator[None]:
    """Make torch and Python repeat their warnings for each call. Some are normally given once per process."""
    before = torch.is_warn_always_enabled()
    warnings.simplefilter("always")
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


@contextmanager
def _stderr() -> Iterator[list[str]]:
    """Collect what native code writes to standard error within the block, as one text when the block ends.

    The checks are called without torch's handler that turns native warnings into Python warnings, so they appear there.
    """
    written: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as scratch:
        os.dup2(scratch.fileno(), 2)
        try:
            yield written
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            scratch.seek(0)
            written.append(scratch.read().decode("utf-8", errors="replace"))


def native_warnings(text: str) -> list[str]:
    """Return the messages in lines like `[W1121 05:42:57.4 sdp_utils.cpp:180] Warning: MESSAGE (function NAME)`."""
    return re.findall(r"^\[W[^\]]*\] Warning: (.*?)(?: \(function \S+\))?$", text, re.MULTILINE)


def _verdict_or_refusal(backend: str, call: AttentionCall, device: str) -> CallVerdict:
    """Return the verdict for the search. A neighbour about which torch cannot be asked does not pass."""
    try:
        return _verdict(backend, call, device)
    except UnknownError:
        return CallVerdict(False)


def _can_use(backend: str, call: AttentionCall) -> bool:
    check = getattr(torch.backends.cuda, _CHECKS[backend], None)
    if check is None or _BACKENDS[backend] is None:
        raise UnknownError(f"torch {torch.__version__} does not have {_CHECKS[backend]}, which checks a call")
    try:
        inputs = make_inputs(call, "cuda", fill=False)
    except NoMemoryError as error:
        raise UnknownError(str(error)) from error
    with sdpa_kernel(_BACKENDS[backend]):
        return bool(check(torch.backends.cuda.SDPAParams(*inputs.positional), True))


def _choice_among(call: AttentionCall, device: str, backend: str | None) -> str | None:
    """Return the backend that torch's dispatcher picks, or None when it refuses.

    backend: the only one allowed.
    """
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        raise UnknownError(f"torch {torch.__version__} does not have _fused_sdp_choice, which names its choice")
    try:
        inputs = make_inputs(call, device, fill=False)
    except NoMemoryError as error:
        raise UnknownError(str(error)) from error
    try:
        if backend is None:
            picked = choose(*inputs.positional[:-1], enable_gqa=inputs.grouped)
        else:
            with sdpa_kernel(_BACKENDS[backend]):
                picked = choose(*inputs.positional[:-1], enable_gqa=inputs.grouped)
    except RuntimeError as error:
        if "No available kernel" in str(error) or "No viable backend" in str(error):
            return None
        raise
    return _NAMES.get(int(picked), f"backend {int(picked)}")


def _predict(call: AttentionCall, device: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _choice_among(call, device, None)
        except UnknownError:
            return None


@cache
def support(backend: str, device: str) -> tuple[bool | None, bool | None]:
    """Return whether this torch has the backend and whether this GPU supports it; None where it cannot be known.

    Torch is asked about a call that every fused backend takes, so a refusal is due to the build or the GPU.
    """
    if backend in ("math", "naive", "auto") or (backend == "flash" and device == "cpu"):
        return True, (True if device == "cuda" else None)
    if torch.version.cuda is None and torch.version.hip is None:
        return False, None
    try:
        verdict = _verdict(backend, _ORDINARY, device)
    except (UnknownError, RuntimeError):
        return None, None
    if "built" in verdict.properties:
        return False, None
    return True, verdict.eligible or (False if "gpu_architecture" in verdict.properties else None)


def _run(question: EligibilityQuestion, device: str, predicted: str | None) -> Ran:
    """Run one call under the profiler, after another one to warm up, and return what it ran."""
    own = None if question.backend not in BACKENDS else question.backend
    expected = {"auto": predicted, "naive": "math"}.get(question.backend, own)
    if device == "cuda" and question.backend in NAMED_KERNELS:
        expected = question.backend
    call = question.call
    if device == "cpu":
        least_bytes, memory_bytes = call.tensor_bytes, collect_host()["memory_bytes"]
        if memory_bytes is not None and least_bytes > memory_bytes:
            said = f"q, k, v and the output need {least_bytes:,} bytes, the machine has {memory_bytes:,}"
            return Ran("out_of_memory", said)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run_once(question.backend, _BACKENDS.get(question.backend), call, device, expected)
    except (NoMemoryError, torch.OutOfMemoryError, MemoryError) as error:
        return Ran("out_of_memory", _first_line(error))
    except IneligibleError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is the result of its run
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            return Ran("out_of_memory", _first_line(error))
        return Ran("error", f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = (plain_text(line) for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)[:500]


def run_once(backend: str, select: Any, call: AttentionCall, device: str, expected: str | None) -> Ran:
    """Run the call twice, the second time under the profiler, and return what ran.

    expected: the family that should run.

    Raises what the backend raises, and NoMemoryError when the inputs do not fit.
    """
    inputs = make_inputs(call, device, fill=True)
    select, attention = _attention_of(backend, call, inputs, select)
    with select:
        # this creates cuBLAS handles and cuDNN plans, which only the first call needs
        _call(attention, inputs, call, device)
        # Not torch.profiler.profile around it: that loads torch's compiler first, which takes seconds.
        with profile(use_device="cuda" if device == "cuda" else None, use_kineto=True) as profiler:
            _call(attention, inputs, call, device)
    operators = _operators(profiler)
    kernels = _kernels(profiler) if device == "cuda" else []
    operator = dispatched_operator(operators)
    family = kernel_family([kernel["name"] for kernel in kernels] if device == "cuda" else operators)
    if device == "cpu" or family == "other":
        family = operator_family(operator) or family  # products of odd sizes run kernels with many different names
    if device == "cuda" and not kernels:
        reason = "torch's profiler recorded no kernel; CUPTI may be blocked or in use"
        return Ran("ok", reason, None, operator)
    as_asked = None if family is None or expected is None else family.partition("-")[0] == expected
    return Ran("ok", "", family, operator, tuple(kernels), as_asked)


def _attention_of(
    backend: str, call: AttentionCall, inputs: AttentionInputs, select: Any
) -> tuple[AbstractContextManager[Any], Callable[[AttentionInputs], torch.Tensor]]:
    """Return a context and the function to call. Raise UnusableBackendError for what cannot be loaded."""
    if backend in BACKENDS and not call.served_words:
        return nullcontext() if select is None else sdpa_kernel(select), _naive if backend == "naive" else _sdpa
    mask = None if backend not in BACKENDS and call.window is not None else inputs.mask
    own_select, own = attention_for(backend, call, mask, inputs.q.device.type)
    k, v = (store(tensor, call) for tensor in (inputs.k, inputs.v))
    return own_select, lambda inputs: check_form(own(inputs.q, k, v, inputs.causal), inputs.q, v)


def _call(attention: Any, inputs: AttentionInputs, call: AttentionCall, device: str) -> None:
    with torch.set_grad_enabled(call.pass_ == "bwd"):
        out = attention(inputs)
        if call.pass_ == "bwd":
            torch.autograd.grad(out, (inputs.q, inputs.k, inputs.v), torch.ones_like(out))
    if device == "cuda":
        torch.cuda.synchronize()


def _sdpa(inputs: AttentionInputs) -> torch.Tensor:
    grouped: dict[str, Any] = {"enable_gqa": True} if inputs.grouped else {}  # not every torch has the argument
    return F.scaled_dot_product_attention(
        inputs.q,
        inputs.k,
        inputs.v,
        attn_mask=inputs.mask,
        dropout_p=inputs.dropout,
        is_causal=inputs.causal,
        **grouped,
    )


def _naive(inputs: AttentionInputs) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(d)) v, as written by hand with every intermediate in memory."""
    q, k, v = inputs.q, inputs.k, inputs.v
    if inputs.grouped:
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if inputs.causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if inputs.mask is not None:
        boolean = inputs.mask.dtype == torch.bool
        scores = scores.masked_fill(~inputs.mask, float("-inf")) if boolean else scores + inputs.mask
    return F.dropout(torch.softmax(scores, dim=-1), inputs.dropout) @ v


def _operators(profiler: profile) -> list[str]:
    return [event.name for event in profiler.function_events if event.name.startswith("aten::")]


def _kernels(profiler: profile) -> list[dict[str, Any]]:
    """Return the name, count and total time of each kernel (ns), by first launch, without copies and fills."""
    kernels: dict[str, dict[str, Any]] = {}
    for event in sorted(profiler.function_events, key=lambda launched: launched.time_range.start):
        on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if not on_gpu or event.name.startswith(("Memcpy", "Memset", "aten::")):
            continue
        kernel = kernels.setdefault(event.name, {"name": event.name, "count": 0, "total_ns": 0})
        kernel["count"] += 1
        kernel["total_ns"] += round(event.time_range.elapsed_us() * 1000)
    return list(kernels.values())
