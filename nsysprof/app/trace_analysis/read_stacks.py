"""Read the stacks of a captured program, sampled by its processes or by nsys, by the clock of the trace."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, field

from nsysprof.app.trace_analysis.join_memory import session_start_ns
from nsysprof.files.json_file import FileHeader, read_json
from nsysprof.results.findings import StackSamples
from nsysprof.trace.table_readers.native_stacks import read_native_stacks

_LARGEST_BYTES = 512 << 20
_LONGEST_FUNCTION = 160
_Text = Annotated[str, Meta(max_length=4096)]
_Number = Annotated[int, Meta(ge=0, lt=2**62)]
_Id = Annotated[int, Meta(ge=0, lt=2**24)]


class _Stacks(FileHeader, kw_only=True):
    """The file that the sampler writes; see nsysprof.workload.program_start.stack_sampler."""

    process: _Id
    stacks: list[list[tuple[_Text, _Number, _Text]]]
    # One sample each: time (ns since 1970), thread, stack.
    samples: list[tuple[_Number, _Id, _Number]]
    # The same where Python made a stream wait; older files have none.
    waits: list[tuple[_Number, _Id, _Number]] = field(default_factory=list)


# Files whose functions are not the program's own: CUDA, the system, Python, and its libraries for the GPU.
_NOT_OWN_FILE = re.compile(
    r"(^|/)(lib(cuda|cudart|cupti|cublas|cudnn|cufft|nv|nccl|c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp|c10|torch|shm|jax|python)"
    r"|ld-linux|ld-2|python3?[\d.]*$|_C\.|_XLAC|xla_extension|libToolsInjection|vdso)|^\[|^$"
)
_OPERATOR = re.compile(r"at::_ops::(\w+)::(call|redispatch)")


def read_stacks(source: Path, trace: Path) -> StackSamples | None:
    """Return the samples of a capture folder and the native stacks in its trace; None where there are neither.

    Samples are left out where the trace does not say when its clock began. Raises TraceError for a damaged file.

    trace: the SQLite file of the capture.
    """
    native = _read_native(trace)
    sampled = _read_samples(source, trace)
    if sampled is None:
        return native
    return sampled if native is None else replace(sampled, native=native)


def _read_native(trace: Path) -> StackSamples | None:
    """Return the native stacks of slow calls as samples in the middle of each call; None where there are none."""
    found = read_native_stacks(trace)
    if found is None:
        return None

    lines: dict[str, int] = {}
    of_stack = [_function_of(stack.frames) for stack in found.stacks]
    number = [lines.setdefault(line, len(lines)) if line else -1 for line in of_stack]
    rows = [((start + end) // 2, tid & ((1 << 48) - 1), number[stack]) for start, end, tid, stack in found.calls]
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    return StackSamples(table[:, 0], table[:, 1], table[:, 2], tuple(lines))


def _function_of(frames: tuple[tuple[str, str], ...]) -> str:
    """Return the innermost function of the program itself, or else the operator of torch that made the call."""
    for symbol, module in frames:
        if _NOT_OWN_FILE.search(module) is None:
            return f"{_plain(symbol)} ({module.rpartition('/')[2]})"
    operators = (_OPERATOR.search(symbol) for symbol, _ in frames)
    return next((f"aten::{found[1]}" for found in operators if found is not None), "")


def _plain(symbol: str) -> str:
    """Return a function's name without parameters."""
    return symbol.partition("(")[0][:_LONGEST_FUNCTION] or symbol[:_LONGEST_FUNCTION]


def _read_samples(source: Path, trace: Path) -> StackSamples | None:
    """Return what the sampler wrote into a capture folder; None where nothing can be placed in time."""
    if not source.is_dir():
        return None
    from nsysprof.capture.user_program.program_hook import find_recorded

    paths = find_recorded(source, "stacks")
    if not paths:
        return None

    start_ns = session_start_ns(trace)
    if start_ns is None:
        return None
    lines: dict[str, int] = {}
    rows: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    advice = "Remove it, and analyze again."
    for path in paths.values():
        found = read_json(path, _Stacks, kind="a file of stacks", advice=advice, newest=1, largest_bytes=_LARGEST_BYTES)
        own = [_line_of(stack) for stack in found.stacks]
        number = [lines.setdefault(line, len(lines)) if line else -1 for line in own]
        for each, taken in zip(rows, (found.samples, found.waits), strict=True):
            each += [
                (time - start_ns, (found.process << 24) | thread, number[stack] if stack < len(number) else -1)
                for time, thread, stack in taken
            ]
    tables = (np.array(sorted(each), dtype=np.int64).reshape(-1, 3) for each in rows)
    samples, waits = (StackSamples(table[:, 0], table[:, 1], table[:, 2], tuple(lines)) for table in tables)
    return replace(samples, waits=waits) if len(waits.line) else samples


def _line_of(stack: list[tuple[str, int, str]]) -> str:
    """Return FILE:LINE of the innermost frame outside torch and Python's library, relative to the current folder."""
    from nsysprof.analysis.overview.allocator_owners import is_own_file

    for file, line, _ in stack:
        if is_own_file(file):
            return f"{file.removeprefix(str(Path.cwd()) + os.sep)}:{line}"
    return ""
