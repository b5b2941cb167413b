"""Find functions that open and close a range of NVTX in the program: torch's own, or those of the package nvtx."""

from __future__ import annotations

import functools
from typing import Any


def find_marker(torch: Any) -> tuple[Any, Any, str]:
    """Return functions that open and close a range of NVTX, and whose they are: "torch", "nvtx" or "none"."""
    own = getattr(torch._C, "_nvtx", None)
    if own is not None:
        return own.rangePushA, own.rangePop, "torch"
    try:
        from nvtx._lib import lib

        # nvtx's own check for a profiler asks for an extension that Nsight Systems lacks; it records every range.
        class Domain(lib.Domain):  # type: ignore[misc]
            def __new__(cls, name: str | None = None) -> Any:
                made = object.__new__(cls)
                made.handle = lib.DomainHandle(name)
                return made

        domain = Domain(None)
        attributes = functools.cache(lambda name: domain.get_event_attributes(message=name))
        return lambda name: domain.push_range(attributes(name)), domain.pop_range, "nvtx"
    except Exception:  # noqa: BLE001 - another version, or none
        return (lambda name: None), (lambda: None), "none"
