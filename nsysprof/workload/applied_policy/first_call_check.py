"""Compare a policy's backend with torch's own choice, on the program's inputs at the first call of each form.

The output is compared and, where gradients are wanted, those of q, k and v for one upstream gradient, which is the
output itself. The error is the relative Frobenius norm of the difference, and both sides are rounded to the dtype.
Backends differ by how they round between their steps, which is some units of the dtype; gradients of q and k cancel, so
they differ more. A wrong result (another mask, another scale) is tens to thousands of times beyond these tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

# The tolerances, as relative Frobenius norms. In fp32, a kernel may compute in TF32 (10 bits, like fp16).
OUTPUT_TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 4e-3}
GRADIENT_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 2e-2}
# Calls attention: whether the policy's backend runs alone, then q, k and v.
Attend = Callable[..., Any]


@dataclass(frozen=True)
class CallCheck:
    """How far a backend's result was from torch's own choice on a call of the program."""

    backend: str
    ok: bool
    # What is wrong; empty when ok.
    reason: str = ""
    # Relative Frobenius norms and their tolerances, by tensor: out, dq, dk, dv.
    errors: dict[str, float] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)


def check_first_call(attend: Attend, tensors: tuple[Any, ...], *, wants: bool, backend: str) -> CallCheck:
    """Run a call with torch's own choice and with only the backend, and return how far they differ.

    Nothing of the program changes: inputs are detached, and no random number is drawn.

    wants: whether to compare gradients too. They are not compared where the program records what autograd saves,
        because activation checkpointing counts it.
    """
    with_gradients = wants and not _is_recorded()
    try:
        # an error of the call itself belongs to the program
        expected = _results(attend, tensors, False, with_gradients)
        try:
            results = _results(attend, tensors, True, with_gradients)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            return _refused(backend, error)
    except torch.cuda.OutOfMemoryError:
        return CallCheck(backend, False, f"There is not enough memory to check {backend}")
    dtype = expected["out"].dtype
    errors, tolerances, faults = {}, {}, []
    for name, reference in expected.items():
        errors[name] = _relative_error(results[name], reference)
        tolerances[name] = (OUTPUT_TOLERANCE if name == "out" else GRADIENT_TOLERANCE).get(dtype, 0.0)
        if not errors[name] <= tolerances[name]:  # NaN too
            text = f"{name} of {backend} differs from torch's own choice by {errors[name]:.2g} relative"
            faults.append(f"{text} (tolerance {tolerances[name]:.2g})")
    return CallCheck(backend, not faults, faults[0] if faults else "", errors, tolerances)


def _results(attend: Attend, tensors: tuple[Any, ...], alone: bool, with_gradients: bool) -> dict[str, Any]:
    leaves = [tensor.detach().requires_grad_(with_gradients) for tensor in tensors]
    with torch.set_grad_enabled(with_gradients):
        out = attend(alone, *leaves)
        if not with_gradients:
            return {"out": out}
        gradients = torch.autograd.grad(out, leaves, out.detach())
        return {"out": out.detach(), **dict(zip(("dq", "dk", "dv"), gradients, strict=True))}


def _is_recorded() -> bool:
    """Return whether a hook of the program sees what autograd saves; True also where this is unknown."""
    ask = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    try:
        return ask is None or ask(True) is not None
    except (RuntimeError, TypeError):
        return True


def _relative_error(result: Any, reference: Any) -> float:
    size = float(torch.linalg.vector_norm(reference, dtype=torch.float32))
    error = float(torch.linalg.vector_norm(result - reference, dtype=torch.float32))
    if size == 0:
        return 0.0 if error == 0 else math.inf
    return error / size


def _refused(backend: str, error: Exception) -> CallCheck:
    first = (str(error).strip().splitlines() or ["no message"])[0][:200]
    return CallCheck(backend, False, f"{backend} refused a call that it was tuned for ({first})")
