"""Open a range around each compilation in a captured program: of torch.compile, of Triton and of CuTe DSL.

It needs only torch, because it runs in the program's own Python, and imports nothing that the program does not. The
ranges say `nsysprof compile KIND NAME (FILE:LINE)`, and behind a colon why, where the compiler says so, which
nsysprof.trace.table_readers.layer_ranges reads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .attention_calls.range_marker import find_marker
from .attention_facts import shorten_path
from .watched_program.after_import import after_import, attempt
from .watched_program.module_places import find_place

WANTED = "NSYSPROF_COMPILES"
# What torch calls the reasons for which it compiles, and the word for each in a range.
_TRIGGERS = {"DYNAMO": "dynamo", "LAZY_BACKWARD": "backward", "CUDAGRAPH_RECORDING": "graph"}
# Longer reasons are cut, and so many frames are looked through for the function that is compiled.
_MOST_TEXT, _MOST_NAME, _MOST_FRAMES, _MOST_CONSTANTS = 300, 120, 60, 12
# The number of the compilation before the reason, which differs each time.
_NUMBER = re.compile(r"^\[?\d+/\d+(_\d+)?\]?: *")


def begin(torch: Any) -> None:
    """Watch this process, which has just imported torch."""
    push, pop, origin = find_marker(torch)
    if origin in ("nvtx", "torch"):
        CompileRanges(torch, push, pop).begin()


class CompileRanges:
    """Wraps the functions that compile, each when the program imports its module."""

    def __init__(self, torch: Any, push: Callable[[str], Any], pop: Callable[[], Any]) -> None:
        self._torch, self._push, self._pop = torch, push, pop
        self._torch_folder = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep  # noqa: PTH100, PTH120
        # What torch compiled, by the number that it gave to it: a backward pass has the number of its forward pass.
        self._name_by_number: dict[str, str] = {}

    def begin(self) -> None:
        """Wrap what each compiler calls when the program has imported it, or now where it has."""
        for name, wrap in (
            ("torch._dynamo.callback", self.wrap_dynamo),
            ("torch._inductor.runtime.triton_heuristics", self.wrap_tuning),
            ("triton.compiler.compiler", self.wrap_triton),
            ("triton.runtime.autotuner", self.wrap_tuning),
            ("cutlass.base_dsl.dsl", self.wrap_cute),
        ):
            what = f"compilations by {name}"
            if name in sys.modules:
                attempt(functools.partial(wrap, sys.modules[name]), f"the program's {what} are not recorded")
            else:
                after_import(name, what, wrap)

    def wrap_dynamo(self, module: Any) -> None:
        """Open a range where torch tells its callbacks that it compiles: they are cleared by torch._dynamo.reset()."""
        handler = module.CompilationCallbackHandler
        original = handler.install_callbacks

        @functools.wraps(original)
        @contextlib.contextmanager
        def install_callbacks(self_: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with self._open(lambda: self._name_torch(*args)), original(self_, *args, **kwargs) as value:
                yield value

        handler.install_callbacks = install_callbacks

    def wrap_triton(self, module: Any) -> None:
        """Open a range around each call of triton.compile, which may also find the kernel in its cache."""
        original = module.compile

        @functools.wraps(original)
        def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
            with self._open(lambda: self._name_kernel("triton", src)):
                return original(src, *args, **kwargs)

        module.compile = compile

    def wrap_tuning(self, module: Any) -> None:
        """Open a range around each measurement of the variants of a kernel, by inductor or by Triton's autotuner."""
        for owner, name in (("CachingAutotuner", "benchmark_all_configs"), ("Autotuner", "_bench")):
            if hasattr(module, owner):
                self._wrap_method(getattr(module, owner), name, lambda tuner, *_: self._name_kernel("tune", tuner))

    def wrap_cute(self, module: Any) -> None:
        """Open a range around each compilation of CuTe DSL."""
        self._wrap_method(module.BaseDSL, "compile_and_cache", lambda _dsl, *args: _cut("cute", str(args[2]), "", 0))

    def _wrap_method(self, owner: Any, name: str, describe: Callable[..., str]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def method(self_: Any, *args: Any, **kwargs: Any) -> Any:
            with self._open(lambda: describe(self_, *args)):
                return original(self_, *args, **kwargs)

        setattr(owner, name, method)

    @contextlib.contextmanager
    def _open(self, describe: Callable[[], str]) -> Iterator[None]:
        try:
            text = describe()
        except Exception:  # noqa: BLE001 - another version, whose objects look different
            text = _cut("unknown", "unknown", "", 0)
        self._push(text)
        try:
            yield
        finally:
            self._pop()

    def _name_torch(self, trigger: Any = None, number: Any = "") -> str:
        """Return the range of what torch compiles now. Earlier versions give neither trigger nor number."""
        kind = _TRIGGERS.get(getattr(trigger, "name", "DYNAMO"), "dynamo")
        frame = sys._getframe(1)
        for _ in range(_MOST_FRAMES if kind == "dynamo" else 0):
            if frame.f_code.co_name == "_compile" and frame.f_globals.get("__name__") == "torch._dynamo.convert_frame":
                code, why = frame.f_locals["code"], frame.f_locals.get("recompile_reason") or ""
                name, path, line = code.co_name, shorten_path(code.co_filename), str(code.co_firstlineno)
                if code.co_filename.startswith(self._torch_folder):  # a module of torch: where the program calls it
                    name, (path, _, line) = "module", find_place(self._torch, shorten_path).rpartition(":")
                self._name_by_number[str(number)] = name_and_place = f"{name}\n{path}\n{line or 0}"
                return _cut(kind, *_split(name_and_place), _NUMBER.sub("", str(why)))
            if frame.f_back is None:
                break
            frame = frame.f_back
        return _cut(kind, *_split(self._name_by_number.get(str(number), "unknown\n\n0")))

    def _name_kernel(self, kind: str, source: Any) -> str:
        """Return the range of a kernel of Triton: its function, and the constants that it is compiled for."""
        function = getattr(source, "fn", None) or getattr(source, "base_fn", None)
        plain = function
        for _ in range(4):  # a function within one that Triton compiles, or tunes, or both
            plain = getattr(plain, "fn", None) or plain
        code = getattr(plain, "__code__", None)
        name = getattr(plain, "__name__", "") or str(getattr(source, "name", "") or "kernel")
        path = shorten_path(code.co_filename) if code is not None else ""
        return _cut(kind, name, path, code.co_firstlineno if code is not None else 0, _constants(source, function))


def _split(name_and_place: str) -> tuple[str, str, int]:
    name, path, line = name_and_place.split("\n")
    return name, path, int(line)


def _constants(source: Any, function: Any) -> str:
    """Return the constants for which a kernel of Triton is compiled, such as the size of its blocks."""
    names = getattr(function, "arg_names", ())
    constants = getattr(source, "constants", None) or getattr(source, "constexprs", None) or {}
    parts = []
    for key, value in list(constants.items())[:_MOST_CONSTANTS]:
        place = key[0] if isinstance(key, tuple) else key
        name = names[place] if isinstance(place, int) and place < len(names) else place
        if type(value) in (int, float, str, bool):
            parts.append(f"{name}={value}")
    return ", ".join(parts)


def _cut(kind: str, name: str, path: str, line: int, why: str = "") -> str:
    """Return the text of a range, in one line and not too long."""
    # A range cannot hold the surrogates with which Python writes a path that is not UTF-8.
    texts = (text.encode("utf-8", "replace").decode() for text in (name, path, why))
    name, path, why = (" ".join(text.split()) for text in texts)
    name = name.replace(" ", "_").replace("(", "").replace(")", "")[:_MOST_NAME] or "unknown"
    text = f"nsysprof compile {kind} {name} ({path[-_MOST_TEXT:]}:{line})"
    return f"{text}: {why[:_MOST_TEXT]}" if why else text
