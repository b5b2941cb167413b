"""Native stacks belong to the calls that have them, without functions that nsys could not resolve."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nsysprof.trace.table_readers.native_stacks import read_native_stacks
from tests.builders.build_trace import TID, TraceBuilder

CALL = "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, "
CALL += "returnValue INTEGER, callchainId INTEGER"
CHAIN = "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER"


def trace_with_stacks(path: Path, *, chain: str = CHAIN, epoch_ns: int | None = None) -> Path:
    builder = TraceBuilder()
    if epoch_ns is not None:
        builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (epoch_ns,))
    name = builder.text("cudaMemcpy_v3020")
    # nsys up to 2022 gives a call with a stack a second row, of class 67.
    for start, stack, kind in ((100, 1, 0), (100, 1, 67), (5000, None, 0), (9000, 2, 0)):
        builder.row("CUPTI_ACTIVITY_KIND_RUNTIME", CALL, (start, start + 900, kind, TID, start, name, 0, stack))
    frames = ((1, 1, "main", "/w/train"), (1, 0, "cudaMemcpy", "/usr/lib/libcudart.so.12"), (2, 0, "0x7f00", "[gone]"))
    for number, depth, symbol, module in frames:
        row = (number, builder.text(symbol), builder.text(module), int(symbol.startswith("0x")), 1, depth)
        builder.row("CUDA_CALLCHAINS", chain, row)
    return builder.write(path)


def test_each_call_has_its_stack_with_the_innermost_function_first(tmp_path: Path) -> None:
    found = read_native_stacks(trace_with_stacks(tmp_path / "t.sqlite"))
    assert found is not None
    assert found.calls == ((100, 1000, TID, 0), (100, 1000, TID, 0))
    assert [stack.frames for stack in found.stacks] == [
        (("cudaMemcpy", "/usr/lib/libcudart.so.12"), ("main", "/w/train"))
    ]


def test_a_trace_without_stacks_or_with_another_table_of_that_name_has_none(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.launch(1, 1)
    assert read_native_stacks(builder.write(tmp_path / "a.sqlite")) is None
    assert read_native_stacks(trace_with_stacks(tmp_path / "b.sqlite", chain=CHAIN.replace("symbol", "what"))) is None
    path = trace_with_stacks(tmp_path / "c.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM CUDA_CALLCHAINS")
    assert read_native_stacks(path) is None
