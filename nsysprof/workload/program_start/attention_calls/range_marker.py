"""Find functions that open and close ranges in the program: NVTX from torch or nvtx, or torch's own profiler."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from .fast_path import nvtx_functions

# This variable is set where torch's own profiler records instead of nsys; it does not see NVTX ranges.
_TORCH = "NSYSPROF_TORCH_FOLDER"


def find_marker(torch: Any) -> tuple[Any, Any, str]:
    """Return functions that open and close a range, and their origin: "torch", "nvtx", "profiler" or "none"."""
    if os.environ.get(_TORCH):
        return *_of_profiler(torch), "profiler"
    compiled = nvtx_functions()
    if compiled is not None:
        return *compiled, "nvtx"
    own = getattr(torch._C, "_nvtx", None)
    if own is not None:
        return own.rangePushA, own.rangePop, "torch"
    try:
        from nvtx._lib import lib

        # nvtx's own check for a profiler asks for an extension that Nsight Systems lacks; it records every range.
        class Domain(lib.Domain):  # type: ignore[misc]
            def __new__(cls, name: str | None = None) -> Any:
                domain = object.__new__(cls)
                domain.handle = lib.DomainHandle(name)
                return domain

        domain = Domain(None)
        attributes = functools.cache(lambda name: domain.get_event_attributes(message=name))
        return lambda name: domain.push_range(attributes(name)), domain.pop_range, "nvtx"
    except Exception:  # noqa: BLE001 - another version, or none
        return (lambda name: None), (lambda: None), "none"


def _of_profiler(torch: Any) -> tuple[Any, Any]:
    """Return functions that open and close a range of torch's profiler, on a stack of each thread, and never raise."""
    make, threads = torch.autograd.profiler.record_function, threading.local()

    def push(name: str) -> None:
        try:
            opened = make(name)
            opened.__enter__()
        except Exception:  # noqa: BLE001 - a mode of the program sees torch's ranges, and may not take them
            opened = None
        threads.__dict__.setdefault("open", []).append(opened)

    def pop() -> None:
        stack = threads.__dict__.get("open")
        opened = stack.pop() if stack else None
        try:
            if opened is not None:
                opened.__exit__(None, None, None)
        except Exception:  # noqa: BLE001
            return

    return push, pop
