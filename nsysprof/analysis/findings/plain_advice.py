"""Say what to change in programs without torch, such as CUDA C++, OpenACC or Fortran: nothing of torch helps there."""

from __future__ import annotations

import re

from nsysprof.analysis.findings.situation import Situation

# Kernels of torch and of its compiler, and ranges and kernels of what is only used with it.
_TORCH = re.compile(r"\bat::|\bc10::|torch|aten::|triton_|flash_(fwd|bwd)|autograd|nn\.Module|FSDP::", re.IGNORECASE)
# How torch's functions appear in the texts, each with the words before it.
_ASIDES = (", as .item() does", " as .item() does", ", as after torch.cuda.empty_cache()")
_POOL = "Allocate once before the loop, or take memory from a pool (cudaMallocAsync)."
_STEPS = {
    "pageable-copy": "Allocate the host's memory with cudaMallocHost, or pin it with cudaHostRegister, and copy with "
    "cudaMemcpyAsync.",
    "sync": "Remove cudaDeviceSynchronize and copies to the host from the loop; order streams by events instead.",
    "alloc-in-loop": _POOL,
    "small-copies": "Compute the values on the device, or pack them and copy once.",
    "launch-bound": "Take waits out of the loop and do more in a kernel, or capture the loop as a CUDA graph "
    "(cudaStreamBeginCapture) and replay it.",
    "host-bound": "Leave out what the host does there, or do it a step ahead in another thread.",
    "unfused-elementwise": "Do in one kernel what these do one after another: each reads and writes all of the data.",
    "no-tensor-cores": "Let the library use tensor cores, such as TF32 (CUBLAS_COMPUTE_32F_FAST_TF32).",
    "stream-dependency": "Wait only for an event of the work that is needed (cudaStreamWaitEvent).",
}


def uses_torch(situation: Situation) -> bool:
    """Return whether kernels or ranges are those of torch; also where no kernel has a name, which tells nothing."""
    if situation.operators.calls:
        return True
    names = [str(name) for name in (*situation.names.texts, *set(situation.range_of.tolist()))]
    return not any(situation.names.texts) or any(_TORCH.search(name) for name in names)


def plain_step(code: str, next_step: str) -> str:
    """Return what to do about a finding in a program without torch."""
    return _STEPS.get(code, next_step)


def plain_text(text: str) -> str:
    """Return the text of a finding without what torch's functions do."""
    for aside in _ASIDES:
        text = text.replace(aside, "")
    return text
