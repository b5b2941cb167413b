"""Choose the words and format the phrases that several reports use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsysprof.results.analysis import TraceInfo
from nsysprof.units import format_factor, format_interval_ns, format_ns

# What a table calls kernels that belong to a range which did not launch them, by the prefix of their columns.
CAUSED_WORDS = {"adopted": "by helper threads", "captured": "captured"}
# How a label writes the columns of a shape.
_SHAPE_KEYS = {
    "seq": "S", "batch": "B", "heads": "H", "kv_heads": "KV", "head_dim": "D", "kv_seq": "K", "mask": "mask",
    "head_dim_v": "DV", "softcap": "cap", "kv_dtype": "cache", "page_size": "page",
}  # fmt: skip
# The most values that a text names; the tables beside it have all of them.
MOST_NAMED = 4
# The ends of an interval that is shown differ by this factor at most.
_MOST_APART = 30


def times_as_long(cases: Sequence[tuple[str, float]]) -> str:
    """Return `efficient takes 1.4x and math 12x as long`.

    cases: backends and their factors.
    """
    factors = [f"{backend} {format_factor(factor)}" for backend, factor in cases]
    factors[0] = f"{cases[0][0]} takes {format_factor(cases[0][1])}"
    return f"{join_names(factors)} as long"


def join_names(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count_of(count: int, noun: str) -> str:
    """Return `1 case` or `1,200 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_telling(low_ns: float, high_ns: float) -> bool:
    """Return whether an interval says anything. From two processes it may reach from nothing to minutes."""
    return high_ns <= _MOST_APART * low_ns


def latency_text(median_ns: float, low_ns: float | None, high_ns: float | None) -> str:
    """Return `52.54 [50.30, 54.46] us`, or only the median where its interval is unknown or says nothing."""
    if low_ns is None or high_ns is None or not is_telling(low_ns, high_ns):
        return format_ns(median_ns)
    return format_interval_ns(median_ns, low_ns, high_ns)


def shape_label(names: Sequence[str], values: Sequence[object]) -> str:
    """Return a shape in few characters: `KV=4 D=64 causal fwd`."""
    words = []
    for name, value in zip(names, values, strict=True):
        key = _SHAPE_KEYS.get(name, "")
        flags = {"causal": ("full", "causal"), "sinks": ("no sinks", "sinks")}
        words.append(flags[name][bool(value)] if name in flags else f"{key}={value}" if key else str(value))
    return " ".join(words)


@dataclass(frozen=True)
class Words:
    """The nouns that a report uses."""

    work: str
    works: str
    launches: str
    device: str
    memory: str


KERNELS = Words("kernel", "kernels", "launches", "GPU", "VRAM")
OPERATORS = Words("operator", "operators", "calls", "CPU", "memory")

# Causes of idle time as they follow a share: "38 % while the host is busy outside CUDA". docs/causes.md defines each.
IDLE_WORDS = {
    "sync-then-late-launch": "after the host has waited for the GPU (sync-then-late-launch)",
    "host-outside-cuda": "while the host is busy outside CUDA (host-outside-cuda)",
    "slow-call": "during slow CUDA calls (slow-call)",
    "pageable-copy": "around copies of pageable memory (pageable-copy)",
    "dependency": "until other work of the GPU is done (dependency)",
    "collective": "until other ranks take part (collective)",
    "profiler": "for the profiler (profiler)",
    "python-gc": "while Python collects garbage (python-gc)",
    "jit-compile": "while torch, Triton or CuTe DSL compile (jit-compile)",
    "waiting-for-work": "while the host sleeps or waits for work, such as a request (waiting-for-work)",
    "unknown": "for an unknown cause (unknown)",
    "outside": "before the first or after the last work of the trace",
}


def words_for(trace: TraceInfo) -> Words:
    """Return the nouns for a trace. Operators are never called kernels, and the CPU's memory is not VRAM."""
    return OPERATORS if trace.work_kind == "operator" else KERNELS


def sentence_of(words: Sequence[str], begin: str = "Furthest from 1: ") -> str:
    """Return a sentence with the first of the words; nothing without any."""
    return f"{begin}{join_names(list(words[:MOST_NAMED]))}." if words else ""
