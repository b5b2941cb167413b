"""Find code that may call attention where the hook cannot see it: C++ code of libraries, and programs of torch.jit.

It needs only the standard library, because it runs in the program's own Python.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Any

# The name of an operator of attention as C++ code that was linked against torch holds it, also compiled by inductor.
_NAME = b"scaled_dot_product_"
_SYMBOL = re.compile(rb"(_ZN2at4_ops\d+_?|aoti_torch_[a-z0-9]+_+)" + _NAME)
_BEFORE = 64
_JIT = f"{os.sep}jit{os.sep}"
_PIECE = 1 << 24
# A program may map many libraries; they are in memory already, but must not delay its end.
_MOST_BYTES = 2 << 30
_SYSTEM = ("/usr/lib", "/lib", "/usr/local/cuda")


def libraries_with_attention(torch_folder: str, shorten: Callable[[str], str]) -> list[str]:
    """Return the libraries of this process, without torch's own, whose C++ code names an operator of attention.

    shorten: returns a path as it may be shown.
    """
    names, left = [], _MOST_BYTES
    for path in _mapped_libraries(torch_folder):
        try:
            left -= os.path.getsize(path)  # noqa: PTH202
            if left >= 0 and _names_attention(path):
                compiled = "torchinductor_" in path
                names.append("code that torch.compile wrote in C++" if compiled else shorten(path))
        except OSError:  # it was deleted after it was loaded
            continue
    return sorted(set(names))


def _mapped_libraries(torch_folder: str) -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if ".so" in line}
    except OSError:  # not Linux
        return []
    # The system names a file by its real path.
    others = (torch_folder + os.sep, os.path.realpath(torch_folder) + os.sep, *_SYSTEM)
    # NVIDIA's libraries beside torch are called by torch alone.
    return sorted(path for path in paths if not path.startswith(others) and f"{os.sep}nvidia{os.sep}" not in path)


def _names_attention(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        before = b""
        while piece := file.read(_PIECE):
            text = before + piece
            if _NAME in text and _SYMBOL.search(text):
                return True
            before = text[-2 * _BEFORE :]
    return False


def watch_graphs(jit: Any, seen: Callable[[], None]) -> None:
    """Have `seen` called when torch.jit loads or traces a program that calls attention, which then runs in C++.

    jit: torch.jit.
    """
    for name in ("load", "trace", "trace_module"):
        original = getattr(jit, name, None)
        if original is not None:
            setattr(jit, name, _looked_at(original, seen))


def _looked_at(original: Callable[..., Any], seen: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        function = original(*args, **kwargs)
        with contextlib.suppress(Exception):  # a module without `forward` has no graph
            if _NAME.decode() in str(function.inlined_graph):
                seen()
        return function

    return make


def watch_scripts(seen: Callable[[], None]) -> None:
    """Have `seen` called when torch.jit.script compiles a function that calls attention, which then runs in C++."""
    builtins: Any = sys.modules.get("torch.jit._builtins")
    find = getattr(builtins, "_find_builtin", None)
    if find is None:  # another torch
        return

    def find_builtin(function: Any) -> Any:
        name = find(function)
        # torch.compile asks too, from torch/fx, of which nothing runs in C++.
        if name == "aten::scaled_dot_product_attention" and _JIT in sys._getframe(1).f_code.co_filename:
            seen()
        return name

    builtins._find_builtin = find_builtin
