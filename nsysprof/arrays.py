"""Define array types, and functions on arrays: merge spans, group rows by key, load compiled loops."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

Int64s = npt.NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer)
Floats = npt.NDArray[np.float64]
_BLOCK = 1 << 18

# With fewer rows than this, numpy finishes before compiled code would be loaded.
_WORTH_COMPILING = 1 << 19
# The same where it is loaded already, as in a process that reads many traces.
_WORTH_CALLING = 1 << 14
# Looking up a time takes as long as going through this many rows.
_LOOK_UP = 8

# Each function with its arguments: i for an integer, d for one of 32 bits, a for an array of integers, b for bytes,
# v for an array of any type in _KINDS, and r for rows (of 32 bits).
_FUNCTIONS = {
    "decode": "b iii ai aa i aii",
    "encode": "a iii ai ai a a",
    "read_events": "b iii ai aa iiii a bbb i ai ai ai aaa",
    "match_ids": "vv r",
    "replay": "i aaaaaaaaaaaaaa i aa",
    "keep_below": "d b i aa iiiii a",
    "summarize": "aaa i a vvv a ii aaa v a i",
    "sum_codes": "vv i a",
    "count_equal": "aa ii a",
    "find_places": "vv i a",
    "find_rows": "vvv",
    "order_work": "vvvv a ii a v a v aa i a",
    "count_calls": "vvvv aa ii vvv a i a i a aaa a i i aaa",
    "order_calls": "vvvv a v",
    "count_pauses": "av r i",
    "find_turns": "av av a i b",
    "find_sets": "r i aaaaa i aaa rrrrrr ii",
    "measure_work": "avva ii r i aa ii rrrrrr v aaa i a aa",
    "sweep_ranges": "avv i ri a ii rrr va aa i a",
    "find_gaps": "i r i a vv b i a rr",
    "bound_ends": "av ri i aa i",
    "list_ends": "avv ri i ai ai ii ar i",
    "last_begun": "rr ii ai i",
    "blame": "avv r rr ii avv ai a bi ai aaaaa a ar aa i avb i rr i a",
    "measure_by_code": "av b i aai a a aa",
    "sum_between": "r ai av ai a",
    "last_done": "r ai avv bi ai a",
    "measure_categories": "i r i avv ai i ai a a",
    "sum_streams": "i r i avv a b i r v i aaa aa b",
}
# What machine_code.c calls the types of numbers.
_KINDS = {np.dtype(kind): number for kind, number in (("u1", 1), ("i2", 2), ("i4", 4), ("u4", 5), ("i8", 8), ("?", 1))}
_loading = threading.Lock()


def rows_by_key(keys: pd.Series, rows: Int64s | None = None) -> list[tuple[Any, Int64s]]:
    """Return pairs (key, its rows) in order of key. Rows without a key are in no group.

    rows: the row of each key; None means 0, 1, 2 and so on.
    """
    codes, unique = pd.factorize(keys, sort=True)
    if len(unique) == 1 and bool((codes == 0).all()):
        return [(unique[0], np.arange(len(codes)) if rows is None else rows)]
    # Numbers with few bits are sorted by counting, which is faster than comparing.
    codes = codes.astype(np.int16 if len(unique) < 1 << 15 else np.int64)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(unique) + 1))
    ordered = order if rows is None else rows[order]
    return [(key, ordered[edges[number] : edges[number + 1]]) for number, key in enumerate(unique)]


def different(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return the different values in order.

    np.unique hashes large arrays first. That takes eight times as long as this where most values differ.
    """
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    found: npt.NDArray[Integer] = ordered[fresh]
    return found


def find_places(
    values: npt.NDArray[Any], wanted: npt.NDArray[np.integer], side: Literal["left", "right"] = "left"
) -> Int64s:
    """Return np.searchsorted(values, wanted, side), for wanted values in any order.

    They are looked up in order, so that the next one lies near the last one and in the processor's cache. That takes a
    seventh of the time where there are many of both.
    """
    run = compiled("find_places", _LOOK_UP * len(wanted))
    if run is not None and all(each.dtype in _KINDS and each.flags.c_contiguous for each in (values, wanted)):
        places = np.empty(len(wanted), dtype=np.int64)
        run(values, wanted, int(side == "right"), places)
        return places
    if bool((wanted[1:] >= wanted[:-1]).all()):
        return np.searchsorted(values, wanted, side)
    order = np.argsort(wanted)
    found = np.empty(len(wanted), dtype=np.int64)
    found[order] = np.searchsorted(values, wanted[order], side)
    return found


def find_rows(chosen: npt.NDArray[np.bool_], code: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Return the rows whose code is chosen, in 32 bits. It takes no more memory than the result.

    chosen: for each code, whether its rows are wanted.
    code: the code of each row, from 0 on.
    """
    if chosen.all():
        return np.arange(len(code), dtype=np.int32)
    run = compiled("find_rows", len(code))
    if run is not None and (count := run(chosen, code, np.empty(0, dtype=np.int32))) >= 0:
        found = np.empty(count, dtype=np.int32)
        run(chosen, code, found)
        return found
    blocks = range(0, len(code), _BLOCK)
    rows = np.empty(sum(int(np.count_nonzero(chosen[code[low : low + _BLOCK]])) for low in blocks), dtype=np.int32)
    filled = 0
    for low in blocks:
        its = np.flatnonzero(chosen[code[low : low + _BLOCK]])
        np.add(its, low, out=rows[filled : (filled := filled + len(its))], casting="unsafe")
    return rows


def count_codes(code: npt.NDArray[np.integer], codes: int) -> Int64s:
    """Return how often each code 0 ... codes-1 occurs.

    np.bincount alone would copy narrow codes to 64 bits, which takes eight times their memory.
    """
    found = np.zeros(codes, dtype=np.int64)
    for low in range(0, len(code), _BLOCK):
        found += np.bincount(code[low : low + _BLOCK], minlength=codes)
    return found


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans (start, end) in order. Those that overlap or touch are joined into one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def compiled(name: str, rows: int) -> Callable[..., int] | None:
    """Return the function of this name in machine_code.c; None where it cannot be had, or is not worth it.

    rows: how many rows it will go through.
    """
    least = min(_WORTH_COMPILING, _WORTH_CALLING) if is_code_made() else _WORTH_COMPILING
    return _compiled(name) if rows >= least else None


def is_code_made() -> bool:
    """Return whether a call of machine_code takes no time: an installation, or this process before, made the code."""
    return _engine.cache_info().currsize > 0 or _library() is not None


@cache
def _compiled(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = machine_code(name)
    except Exception:  # noqa: BLE001 - no llvmlite, or one that makes no code here, which can raise anything
        return None
    return found


class _Numbers(ctypes.Structure):
    """An array of any type in _KINDS, as machine_code.c takes it."""

    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_int64), ("kind", ctypes.c_int64))

    @classmethod
    def from_param(cls, array: npt.NDArray[Any]) -> Any:
        """Return a reference to the array. The caller keeps the array."""
        if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError("no array of one dimension without gaps")
        if array.dtype not in _KINDS:
            raise TypeError(f"no array of a type that machine_code.c knows: {array.dtype}")
        return ctypes.byref(cls(array.ctypes.data, len(array), _KINDS[array.dtype]))


def machine_code(name: str) -> Any:
    """Return the function of this name in machine_code.c, which runs without Python's lock.

    hatch_build.py compiles that file at an installation where there is a compiler. Otherwise llvmlite makes code for
    this processor of machine_code.ll, which scripts/build_machine_code makes of the same file. That takes half a second
    in every process. Nothing is kept on disk, so the first run on a machine takes no longer than the next.

    Raises ImportError with neither of both, and another error where llvmlite can make no code here.
    """
    types: dict[str, Any] = {
        "d": ctypes.c_int32,
        "i": ctypes.c_int64,
        # numpy checks type and layout of each array: code that got another would write anywhere.
        "b": np.ctypeslib.ndpointer(dtype=np.uint8, flags="C_CONTIGUOUS"),
        "a": np.ctypeslib.ndpointer(dtype=np.int64, flags="C_CONTIGUOUS"),
        "r": np.ctypeslib.ndpointer(dtype=np.int32, flags="C_CONTIGUOUS"),
        "v": _Numbers,
    }
    with _loading:
        library = _library()
        if library is None:
            address = _engine().get_function_address(name)
        else:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    arguments = (types[letter] for letter in _FUNCTIONS[name].replace(" ", ""))
    return ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(address)


@cache
def _library() -> ctypes.CDLL | None:
    """Return what an installation compiled of machine_code.c as it is now; None where it compiled nothing."""
    source = Path(__file__).with_name("machine_code.c")
    try:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        return ctypes.CDLL(str(source.with_name(f"machine_code-{digest[:16]}.so")))
    except OSError:
        return None


@cache
def _engine() -> Any:
    """Return the engine that holds the code. It lives as long as the process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(Path(__file__).with_name("machine_code.ll").read_text(encoding="utf-8"))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    module.triple, module.data_layout = llvm.get_default_triple(), str(machine.target_data)
    module.verify()  # LLVM would end the process
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
