"""Load the compiled loops of loops.c, or none of them: numpy does what each loop does, in more time."""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Each function with its arguments: i for an integer, a for an array of integers, b for bytes, v for an array of any
# type in _KINDS, and r for rows (of 32 bits).
FUNCTIONS = {
    "decode": "b iii ai aa i aii",
    "encode": "a iii ai ai a a",
    "read_events": "b iii ai aa iiii a bbb i ai ai ai aaa",
    "replay": "i aaaaaaaaaaaaaa i aa",
    "summarize": "aaa i a vvv a ii aaa v a i",
    "count_calls": "vvvv aa ii vvv a i a i a aaa a i i aaa",
    "find_sets": "r i aaaaa i aaa rrrrrr ii",
    "measure_work": "avva ii r i aa ii rrrrrr v aaa i a aa",
    "list_ends": "avv ri i ai ai ii ar i",
    "blame": "avv r rr ii avv ai a bi ai aaaaa a ar aa i avb i rr i a",
}
# loops.c has this name, so that loops of another version, which may write elsewhere, are not used. The number
# rises with each change of what a loop takes, or of CAUSES.
_VERSION = "version_6"
# Loops that hand each other what they find, by the one that begins: all of them run compiled, or none.
UNITS = {
    **dict.fromkeys(("encode", "read_events"), "decode"),
    "list_ends": "blame",
}
# What loops.c calls the types of numbers.
_KINDS = {np.dtype(kind): number for kind, number in (("u1", 1), ("i2", 2), ("i4", 4), ("u4", 5), ("i8", 8), ("?", 1))}
LIBRARY = f"loops-{sysconfig.get_platform()}.so"


def loop(name: str) -> Callable[..., int] | None:
    """Return the function of this name in loops.c, which runs without Python's lock; None where numpy shall do it.

    NSYSPROF_NATIVE=0 leaves everything to numpy. A process decides once, for all functions alike.
    """
    return _function(name) if native_problem() is None and is_wanted(UNITS.get(name, name)) else None


def is_wanted(_unit: str) -> bool:
    """Return whether a loop, or a unit of loops, runs compiled where it can. Tests put another function here."""
    return True


@cache
def native_problem() -> str | None:
    """Return why there are no compiled loops; None where there are."""
    if os.environ.get("NSYSPROF_NATIVE") == "0":
        return "NSYSPROF_NATIVE is 0"
    try:
        library = _library()
    except OSError:
        return "the installation compiled nothing"
    missing = [name for name in (*FUNCTIONS, _VERSION) if not hasattr(library, name)]
    return "they are of another version; install nsysprof again" if missing else None


def can_take(*arrays: npt.NDArray[Any]) -> bool:
    """Return whether the loops know the types of the arrays, and the arrays have no gaps."""
    return all(array.dtype in _KINDS and array.flags.c_contiguous for array in arrays)


class _Numbers(ctypes.Structure):
    """An array of any type in _KINDS, as loops.c takes it."""

    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_int64), ("kind", ctypes.c_int64))

    @classmethod
    def from_param(cls, array: npt.NDArray[Any]) -> Any:
        """Return a reference to the array. The caller keeps the array."""
        if not isinstance(array, np.ndarray) or array.ndim != 1 or not array.flags.c_contiguous:
            raise TypeError("no array of one dimension without gaps")
        if array.dtype not in _KINDS:
            raise TypeError(f"no array of a type that loops.c knows: {array.dtype}")
        return ctypes.byref(cls(array.ctypes.data, len(array), _KINDS[array.dtype]))


@cache
def _library() -> ctypes.CDLL:
    """Return what hatch_build.py compiled at the installation. Raises OSError where it compiled nothing."""
    return ctypes.CDLL(str(Path(__file__).with_name(LIBRARY)))


@cache
def _function(name: str) -> Callable[..., int]:
    types: dict[str, Any] = {
        "i": ctypes.c_int64,
        # numpy checks type and layout of each array: code that got another would write anywhere.
        "b": np.ctypeslib.ndpointer(dtype=np.uint8, flags="C_CONTIGUOUS"),
        "a": np.ctypeslib.ndpointer(dtype=np.int64, flags="C_CONTIGUOUS"),
        "r": np.ctypeslib.ndpointer(dtype=np.int32, flags="C_CONTIGUOUS"),
        "v": _Numbers,
    }
    function: Any = getattr(_library(), name)
    function.argtypes = [types[letter] for letter in FUNCTIONS[name].replace(" ", "")]
    function.restype = ctypes.c_int64
    return function  # type: ignore[no-any-return]
