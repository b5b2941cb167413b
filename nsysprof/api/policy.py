"""`with nsysprof.policy("policy.json"):` torch's attention runs the backend that was tuned for each shape."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from nsysprof.policy_file import AUTO, PolicyFile, read_policy

_REFUSED = ("No available kernel", "No viable backend")
# Torch's flags are those of the process: a call of another thread must not see them changed, nor change them back.
_FLAGS = threading.RLock()


class PolicyWarning(UserWarning):
    """A call, or all of them, was left to torch's own choice; said once for each reason."""


class policy:
    """Within the block, torch.nn.functional.scaled_dot_product_attention runs the backend tuned for each shape.

    source: the policy.json of `nsysprof tune`. A call is tuned for when batch, heads of q and of k, sequence length (of
    q and k alike), head dimension, dtype and is_causal are those of a rule, it has no attn_mask, no dropout and no
    scale of its own, and its pass agrees: `fwd` without gradients, `fwdbwd` (else `bwd`) where one is required. Shapes
    between the tuned ones are not guessed: which backend is fastest changes at sizes that only measuring finds.

    Every other call is left to torch, with one PolicyWarning for each reason; so is a call whose backend refuses it,
    and so are all calls on another GPU, torch or cuDNN than the policy's (strict: PolicyError instead).

    It replaces the function in torch.nn.functional while the block lasts, for all threads, whose calls then launch one
    after the other. A TorchFunctionMode would also see functions that were imported before, but is entered for
    every operator of a model. calls, left: how many calls ran as tuned and how many were left to torch.

    Raises PolicyError for a file that is none, MissingToolError without torch.
    """

    def __init__(self, source: str | os.PathLike[str], *, strict: bool = False) -> None:
        self._file = read_policy(Path(source))
        self._strict = strict
        self._rules = _index(self._file)
        self._said: set[str] = set()
        self._depth = 0
        self._lock = threading.Lock()
        self._original: Callable[..., Any] | None = None
        self.calls = 0
        self.left = 0

    def __enter__(self) -> policy:
        import torch.nn.functional

        with self._lock:
            self._depth += 1
            if self._depth == 1 and self._holds_here():
                self._original = torch.nn.functional.scaled_dot_product_attention
                torch.nn.functional.scaled_dot_product_attention = self._make(self._original)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch.nn.functional

        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._original is not None:
                torch.nn.functional.scaled_dot_product_attention = self._original
                self._original = None

    def _holds_here(self) -> bool:
        differences = [
            f"{name} is {have}, tuned on {wanted}" for name, wanted, have in _compare(self._file) if wanted != have
        ]
        if not differences:
            return True
        text = f"The policy does not hold here: {'; '.join(differences)}. Every call is left to torch."
        if self._strict:
            from nsysprof.errors import PolicyError

            raise PolicyError(text, "Tune again on this machine.")
        self._say(text)
        return False

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"{text} Said once.", PolicyWarning, stacklevel=4)

    def _make(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function that stands in for torch's."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kernels = {
            "math": SDPBackend.MATH,
            "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": getattr(SDPBackend, "CUDNN_ATTENTION", SDPBackend.MATH),
        }
        rules, select = self._rules, _selector()

        def scaled_dot_product_attention(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attn_mask: torch.Tensor | None = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            **rest: Any,
        ) -> torch.Tensor:
            arguments = (query, key, value, attn_mask, dropout_p, is_causal)
            backend = None
            if attn_mask is None and dropout_p == 0.0 and scale is None and query.dim() == 4:
                wants = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
                shape = query.shape
                if key.shape[2] == shape[2] and key.shape == value.shape:
                    backend = rules.get(
                        (
                            *shape[:2],
                            key.shape[1],
                            shape[2],
                            shape[3],
                            query.dtype,
                            is_causal,
                            "grad" if wants else "fwd",
                        )
                    )
            if torch.compiler.is_compiling():  # which knows torch's own context manager, and neither flags nor locks
                if backend is None or backend == AUTO:
                    return original(*arguments, scale=scale, **rest)
                with sdpa_kernel(kernels[backend]):
                    return original(*arguments, scale=scale, **rest)
            with _FLAGS:
                if backend is None:
                    self.left += 1
                    self._say("A call is outside of what the policy was tuned for, and left to torch.")
                    return original(*arguments, scale=scale, **rest)
                self.calls += 1
                if backend == AUTO:
                    return original(*arguments, scale=scale, **rest)
                restore = select(backend)
                try:
                    return original(*arguments, scale=scale, **rest)
                except RuntimeError as error:
                    if not any(words in str(error) for words in _REFUSED):
                        raise
                finally:
                    restore()
                self.calls -= 1
                self.left += 1
                self._say(f"{backend} refused a call that it was tuned for, which is left to torch.")
                return original(*arguments, scale=scale, **rest)

        return scaled_dot_product_attention


def _index(file: PolicyFile) -> dict[Any, str]:
    """Rules by what a call shows of itself. Of the passes with gradients the whole one counts before the backward."""
    import torch

    dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    found: dict[Any, str] = {}
    for rule in sorted(file.rules, key=lambda rule: rule.pass_ == "fwdbwd"):
        kind = "fwd" if rule.pass_ == "fwd" else "grad"
        shape = (rule.batch, rule.heads, rule.kv_heads, rule.seq, rule.head_dim)
        found[(*shape, dtypes[rule.dtype], rule.causal, kind)] = rule.backend
    return found


def _compare(file: PolicyFile) -> list[tuple[str, str | None, str | None]]:
    """What must be the same: (name, the policy's, here)."""
    import torch

    if file.device != "cuda":
        return [("torch", file.torch_version, str(torch.__version__))]
    if not torch.cuda.is_available():
        return [("the device", file.gpu_name, "no GPU")]
    return [
        ("the GPU", file.gpu_name, torch.cuda.get_device_name()),
        ("torch", file.torch_version, str(torch.__version__)),
        ("cuDNN", file.cudnn_version, loaded_cudnn()),
    ]


def loaded_cudnn() -> str | None:
    """The version of cuDNN that torch loaded, as `9.19.0`; None without one."""
    import torch

    number = torch.backends.cudnn.version()
    if number is None:
        return None
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _selector() -> Callable[[str], Callable[[], None]]:
    """A function that allows one backend alone, and gives one that allows again what was allowed before.

    sdpa_kernel does the same through Python objects, at several times the cost of the call itself.
    """
    import torch

    flags = torch.backends.cuda
    getters = {
        "math": flags.math_sdp_enabled,
        "flash": flags.flash_sdp_enabled,
        "efficient": flags.mem_efficient_sdp_enabled,
    }
    setters = {
        "math": flags.enable_math_sdp,
        "flash": flags.enable_flash_sdp,
        "efficient": flags.enable_mem_efficient_sdp,
    }
    if hasattr(flags, "enable_cudnn_sdp"):
        getters["cudnn"], setters["cudnn"] = flags.cudnn_sdp_enabled, flags.enable_cudnn_sdp

    def select(backend: str) -> Callable[[], None]:
        before = {name: get() for name, get in getters.items()}
        for name, allow in setters.items():
            allow(name == backend)

        def restore() -> None:
            for name, was in before.items():
                setters[name](was)

        return restore

    return select
