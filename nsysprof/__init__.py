"""Analyze traces of CUDA programs and attention backends. This module has the public names of the Python interface."""

from importlib import import_module

__version__ = "0.1.0"

# The modules of the public names. They load on first use, because pandas would make `nsysprof --help` slow.
_HOMES = {
    "open_trace": "nsysprof.api.frames",
    "summarize": "nsysprof.api.frames",
    "read_kernels": "nsysprof.api.frames",
    "read_calls": "nsysprof.api.frames",
    "read_copies": "nsysprof.api.frames",
    "read_fills": "nsysprof.api.frames",
    "read_ranges": "nsysprof.api.frames",
    "read_memory": "nsysprof.api.frames",
    "analyze": "nsysprof.api.use_cases",
    "compare": "nsysprof.api.use_cases",
    "bench": "nsysprof.api.use_cases",
    "bench_sides": "nsysprof.api.use_cases",
    "tune": "nsysprof.api.use_cases",
    "export_trace": "nsysprof.api.use_cases",
    "write_bundle": "nsysprof.api.use_cases",
    "Grid": "nsysprof.app.inputs.grid",
    "Progress": "nsysprof.app.progress",
    "policy": "nsysprof.api.policy",
    "PolicyWarning": "nsysprof.api.policy",
    "Analysis": "nsysprof.results.analysis",
    "Trace": "nsysprof.trace.open",
    "NsysprofError": "nsysprof.errors",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  strings all


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nsysprof' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
