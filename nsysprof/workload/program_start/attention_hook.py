"""Record a captured program's attention: wrap its functions as they are imported, and write all calls at its end.

It needs only the standard library, because it runs in the program's own Python. The folder attention_calls beside this
file has the code that names a call and turns it into a range.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_OPERATORS = (
    "scaled_dot_product_attention",  # as programs of torch.export call it
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)
_FLASH_ATTN = (
    "flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func", "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked_func", "flash_attn_varlen_kvpacked_func", "flash_attn_with_kvcache",
)  # fmt: skip
# Whether a program uses one of these decides what `optimize` tries.
_LIBRARIES = {"transformers"}
_LAYERS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")


class AttentionHook:
    """A finder that leaves the search to others, and wraps the attention of each library once it is imported."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._calls: Any = None
        self._original: Any = None
        self._searching: set[str] = set()
        self._torch_folder = ""
        # What of torch.jit calls attention.
        self._in_graphs: set[str] = set()
        self._after: dict[str, Callable[[ModuleType], None]] = {
            "torch": self._wrap_torch,
            "torch._dynamo": self._show_compiler,
            "torch.nn.attention.flex_attention": self._wrap_named(("flex_attention",)),
            "torch._inductor.runtime.triton_heuristics": self._wrap_compiled_flex,
            "flash_attn.flash_attn_interface": self._wrap_named(_FLASH_ATTN),
            "flash_attn_interface": self._wrap_named(_FLASH_ATTN),
            "xformers.ops.fmha": self._wrap_named(("memory_efficient_attention",)),
        }

    def start(self) -> None:
        """Begin to watch imports."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        after = self._after.get(name)
        if after is None or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._attempt(lambda: after(module))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the program must run on, whatever its libraries look like
            print(f"nsysprof: some attention is not recorded: {error}", file=sys.stderr)  # noqa: T201
            if self._calls is not None:
                self._calls.problem(f"{type(error).__name__}: {error}")

    def _wrap_torch(self, torch: Any) -> None:
        calls = load("attention_calls", "attention_calls")
        marker = load("attention_calls", "range_marker").find_marker(torch)
        self._calls = calls.AttentionCalls(torch, load("attention_facts"), marker)
        process = os.getpid()
        atexit.register(lambda: self._attempt(lambda: self._write(process)))
        os.register_at_fork(after_in_child=self._after_fork)
        functional = torch.nn.functional
        original = self._original = functional.scaled_dot_product_attention
        wrapped = self._calls.wrap_function(original, "sdpa")
        if wrapped is not self._calls.fast_function:
            wrapped.__module__ = "torch.nn.functional"  # where pickle finds it
        functional.scaled_dot_product_attention = wrapped
        _keep_scriptable(wrapped)
        self._torch_folder = os.path.dirname(os.path.abspath(torch.__file__))  # noqa: PTH100, PTH120
        unseen = load("unseen_attention")
        unseen.watch_scripts(lambda: self._in_graphs.add("functions of torch.jit.script"))
        unseen.watch_graphs(torch.jit, lambda: self._in_graphs.add("programs that torch.jit loaded or traced"))
        for name in _LAYERS:
            self._calls.wrap_in(torch, name)
        compiled = load("attention_calls", "compiled_calls")
        for name in _OPERATORS:
            for suffix in ("", "_backward"):
                packet = getattr(torch.ops.aten, name + suffix, None)
                if packet is not None and "default" in packet.overloads():
                    compiled.wrap_operator(self._calls, packet.default, is_backward=bool(suffix))

    def _show_compiler(self, dynamo: Any) -> None:
        load("attention_calls", "fast_path").show_compiler(dynamo, self._known_calls(), self._original)

    def _unseen(self) -> list[str]:
        """Return what may call attention from C++."""
        shorten = load("attention_facts").shorten_path
        libraries: list[str] = load("unseen_attention").libraries_with_attention(self._torch_folder, shorten)
        return [*libraries, *sorted(self._in_graphs)]

    def _wrap_named(self, names: Sequence[str]) -> Callable[[Any], None]:
        """Return a function that wraps those of a module's functions that it has."""

        def wrap(module: Any) -> None:
            for name in names:
                self._known_calls().wrap_in(module, name)

        return wrap

    def _wrap_compiled_flex(self, module: Any) -> None:
        calls = self._known_calls()
        load("attention_calls", "compiled_calls").wrap_triton(calls, module.CachingAutotuner)

    def _known_calls(self) -> Any:
        if self._calls is None:
            raise RuntimeError("torch was not imported first")
        return self._calls

    def _after_fork(self) -> None:
        """Count anew in a fork, whose end runs multiprocessing's finalizers but no functions of atexit."""
        self._calls.clear()
        self._calls.on_first = self._finish_fork

    def _finish_fork(self) -> None:
        finalize = sys.modules.get("multiprocessing.util")
        if finalize is not None:
            process = os.getpid()
            finalize.Finalize(None, lambda: self._attempt(lambda: self._write(process)), exitpriority=-100)

    def _write(self, process: int) -> None:
        """Write what was called, unless this is a fork of the process, or nothing was called."""
        if os.getpid() != process:
            return
        libraries = {name: str(getattr(sys.modules[name], "__version__", "")) for name in _LIBRARIES & {*sys.modules}}
        data = {"format_version": 1, "process": process, "libraries": libraries, **self._calls.to_json()}
        data["unseen"] = self._unseen()
        path = os.path.join(self._folder, f"{process}.json")  # noqa: PTH118
        with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(data, file, separators=(",", ":"))
        os.replace(f"{path}.part", path)  # noqa: PTH105


def _keep_scriptable(wrapped: Any) -> None:
    """Let torch.jit.script take the wrapped function for the operator, as it does with torch's own."""
    builtins = sys.modules.get("torch.jit._builtins")
    name, table = "aten::scaled_dot_product_attention", getattr(builtins, "_builtin_table", None)
    if table is not None:
        table[id(wrapped)] = name
    elif builtins is not None:
        builtins._builtin_ops.append((wrapped, name))


def load(name: str, part: str = "") -> Any:
    """Return a module of this folder, or a part of a folder in it, which the program's own path does not have."""
    if part:
        load(name)
        return importlib.import_module(f"nsysprof_{name}.{part}")
    loaded = sys.modules.get(f"nsysprof_{name}")
    if loaded is not None:
        return loaded
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)  # noqa: PTH100, PTH118, PTH120
    folders = [path] if os.path.isdir(path) else None  # noqa: PTH112
    file = os.path.join(path, "__init__.py") if folders else f"{path}.py"  # noqa: PTH118
    spec = importlib.util.spec_from_file_location(f"nsysprof_{name}", file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"nsysprof_{name}"] = module  # the compiler of torch looks functions up by their module
    spec.loader.exec_module(module)
    return module
