"""Record a captured program's attention: wrap its functions as they are imported, and write all calls at its end.

It needs only the standard library, because it runs in the program's own Python. The folder attention_calls beside this
file has the code that names a call and turns it into a range.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import attention_facts, unseen_attention
from .attention_calls import compiled_calls, fast_path
from .attention_calls.attention_calls import AttentionCalls
from .attention_calls.range_marker import find_marker
from .watched_program.after_import import after_import
from .watched_program.process_file import process_path, write_json

FOLDER = "NSYSPROF_ATTENTION_FOLDER"
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
_SAGE = (
    "sageattn", "sageattn_varlen", "sageattn_qk_int8_pv_fp16_triton", "sageattn_qk_int8_pv_fp16_cuda",
    "sageattn_qk_int8_pv_fp8_cuda", "sageattn_qk_int8_pv_fp8_cuda_sm90",
)  # fmt: skip
_UNIFIED = ("unified_attention",)
_TRITON_OF_SGLANG = "sglang.srt.layers.attention.triton_ops."
# The functions of attention of each module. Engines have copies of FlashAttention under names of their own.
_FUNCTIONS = {
    "torch.nn.attention.flex_attention": ("flex_attention",),
    "torch.nn.attention.varlen": ("varlen_attn", "varlen_attn_out"),
    "flash_attn.flash_attn_interface": _FLASH_ATTN,
    "flash_attn_interface": _FLASH_ATTN,
    "flash_attn_3.flash_attn_interface": _FLASH_ATTN,
    "flash_attn.cute.interface": _FLASH_ATTN,
    "vllm.vllm_flash_attn.flash_attn_interface": _FLASH_ATTN,
    "sgl_kernel.flash_attn": _FLASH_ATTN,
    "xformers.ops.fmha": ("memory_efficient_attention",),
    "sageattention.core": _SAGE,
    "flashinfer.decode": ("single_decode_with_kv_cache",),
    "flashinfer.prefill": ("single_prefill_with_kv_cache",),
    "vllm.attention.ops.triton_unified_attention": _UNIFIED,
    "vllm.v1.attention.ops.triton_unified_attention": _UNIFIED,
    "vllm._custom_ops": ("paged_attention_v1", "paged_attention_v2"),
    f"{_TRITON_OF_SGLANG}decode_attention": ("decode_attention_fwd",),
    f"{_TRITON_OF_SGLANG}extend_attention": ("extend_attention_fwd",),
}
# Classes whose method of this name is attention, by their modules.
_OF_PAGES = ("BatchPrefillWithPagedKVCacheWrapper", "BatchPrefillWithRaggedKVCacheWrapper")
_TE = "transformer_engine.pytorch.attention"
_METHODS = {
    "flashinfer.decode": (("BatchDecodeWithPagedKVCacheWrapper", "run"),),
    "flashinfer.prefill": tuple((name, "run") for name in _OF_PAGES),
    "flashinfer.mla": (("BatchMLAPagedAttentionWrapper", "run"),),
    _TE: (("DotProductAttention", "forward"),),
    f"{_TE}.dot_product_attention.dot_product_attention": (("DotProductAttention", "forward"),),
}
# What loads kernels from a hub.
_HUB = ("get_kernel", "get_local_kernel", "get_locked_kernel", "load_kernel")
# Whether a program uses one of these decides what `optimize` tries.
_LIBRARIES = {"transformers"}
_LAYERS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")


class AttentionHook:
    """The recording of this process, whose libraries' attention is wrapped as they are imported."""

    def __init__(self, torch: Any, folder: str) -> None:
        self._folder = folder
        self._torch_folder = os.path.dirname(os.path.abspath(torch.__file__))  # noqa: PTH100, PTH120
        # What of torch.jit calls attention.
        self._in_graphs: set[str] = set()
        self._calls = AttentionCalls(torch, attention_facts, find_marker(torch))
        self._original = torch.nn.functional.scaled_dot_product_attention

    def start(self, torch: Any) -> None:
        """Wrap torch's own functions, and those of other libraries once they are imported."""
        for name, act in {
            **{name: self._wrap_named(functions) for name, functions in _FUNCTIONS.items()},
            "torch._dynamo": lambda dynamo: fast_path.show_compiler(dynamo, self._calls, self._original),
            "torch._inductor.runtime.triton_heuristics": self._wrap_compiled_flex,
            "kernels.utils": self._wrap_hub,
        }.items():
            after_import(name, "attention calls", lambda module, act=act: self._attempt(lambda: act(module)))  # type: ignore[misc]
        for name, methods in _METHODS.items():
            act = self._wrap_methods(methods)
            after_import(name, "attention methods", lambda module, act=act: self._attempt(lambda: act(module)))  # type: ignore[misc]
        self._attempt(lambda: self._wrap_torch(torch))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the program must run on, whatever its libraries look like
            print(f"nsysprof: some attention is not recorded: {error}", file=sys.stderr)  # noqa: T201
            self._calls.problem(f"{type(error).__name__}: {error}")

    def _wrap_torch(self, torch: Any) -> None:
        process = os.getpid()
        atexit.register(lambda: self._attempt(lambda: self._write(process)))
        os.register_at_fork(after_in_child=self._after_fork)
        wrapped = self._calls.wrap_function(self._original, "sdpa")
        if wrapped is not self._calls.fast_function:
            wrapped.__module__ = "torch.nn.functional"  # where pickle finds it
        torch.nn.functional.scaled_dot_product_attention = wrapped
        _keep_scriptable(wrapped)
        unseen_attention.watch_scripts(lambda: self._in_graphs.add("functions of torch.jit.script"))
        unseen_attention.watch_graphs(
            torch.jit, lambda: self._in_graphs.add("programs that torch.jit loaded or traced")
        )
        for name in _LAYERS:
            self._calls.wrap_in(torch, name)
        for name in _OPERATORS:
            for suffix in ("", "_backward"):
                packet = getattr(torch.ops.aten, name + suffix, None)
                if packet is not None and "default" in packet.overloads():
                    compiled_calls.wrap_operator(self._calls, packet.default, is_backward=bool(suffix))

    def _unseen(self) -> list[str]:
        """Return what may call attention from C++."""
        shorten = attention_facts.shorten_path
        libraries = unseen_attention.libraries_with_attention(self._torch_folder, shorten)
        return [*libraries, *sorted(self._in_graphs)]

    def _wrap_named(self, names: Sequence[str]) -> Callable[[Any], None]:
        """Return a function that wraps those of a module's functions that it has."""

        def wrap(module: Any) -> None:
            for name in names:
                self._calls.wrap_in(module, name)

        return wrap

    def _wrap_methods(self, methods: Sequence[tuple[str, str]]) -> Callable[[Any], None]:
        """Return a function that wraps methods of a module's classes, where it has them."""

        def wrap(module: Any) -> None:
            for kind, method in methods:
                owner = getattr(module, kind, None)
                if owner is not None and owner.__module__ == module.__name__ and method in vars(owner):
                    self._calls.wrap_method(owner, method)

        return wrap

    def _wrap_hub(self, module: Any) -> None:
        """Wrap the functions of attention of each kernel that is loaded from a hub."""
        for name in _HUB:
            load = getattr(module, name, None)
            if load is not None:
                setattr(module, name, self._loader(load))

    def _loader(self, load: Callable[..., Any]) -> Callable[..., Any]:
        wrap, wrapped = self._wrap_named((*_FLASH_ATTN, *_SAGE)), set()

        @functools.wraps(load)
        def load_and_wrap(*args: Any, **kwargs: Any) -> Any:
            kernel = load(*args, **kwargs)
            if id(kernel) not in wrapped:  # a kernel is loaded once, and asked for by each layer
                wrapped.add(id(kernel))
                self._attempt(lambda: wrap(kernel))
            return kernel

        return load_and_wrap

    def _wrap_compiled_flex(self, module: Any) -> None:
        compiled_calls.wrap_triton(self._calls, module.CachingAutotuner)

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
        write_json(process_path(self._folder), data)


def _keep_scriptable(wrapped: Any) -> None:
    """Let torch.jit.script take the wrapped function for the operator, as it does with torch's own."""
    builtins = sys.modules.get("torch.jit._builtins")
    name, table = "aten::scaled_dot_product_attention", getattr(builtins, "_builtin_table", None)
    if table is not None:
        table[id(wrapped)] = name
    elif builtins is not None:
        builtins._builtin_ops.append((wrapped, name))


def begin(torch: Any) -> None:
    """Record this process, which has just imported torch."""
    AttentionHook(torch, os.environ[FOLDER]).start(torch)
