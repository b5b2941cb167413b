"""Run the backend that was tuned for each shape in torch's attention: `with nsysprof.policy("policy.json"):`."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from nsysprof.attention.policy_file import AUTO, PolicyFile, read_policy

_REFUSED = ("No available kernel", "No viable backend")
# Torch's flags belong to the process: another thread's call must neither see them changed nor change them back.
_FLAGS = threading.RLock()


class PolicyWarning(UserWarning):
    """A call, or every call, was left to torch's own choice. Each reason is reported once."""


class policy:
    """Makes torch.nn.functional.scaled_dot_product_attention run the backend tuned for each shape, within a block.

    A call uses a rule of the policy when all of these match: batch, heads of q and of k, sequence length (the same for
    q and k), head dimension, dtype and is_causal. It must have no attn_mask, no dropout and no scale of its own. Its
    pass
    must match too: `fwd` without gradients, `fwdbwd` (else `bwd`) where a gradient is required. Shapes between the
        tuned ones are not guessed, because which backend is the fastest changes at sizes that only measuring finds.

    Every other call is left to torch, with one PolicyWarning for each reason. So is a call that its backend refuses,
    and so are all calls on another GPU, torch or cuDNN than the policy's (with `strict`, they raise PolicyError
    instead).

    While a block lasts, the function in torch.nn.functional is replaced for all threads, and their calls launch one
    after the other. Of several open blocks, the one entered last counts. A TorchFunctionMode would also see functions
    that were imported before, but it is entered for every operator of a model.

    The attributes `calls` and `left` count the calls that ran as tuned and those that were left to torch.

    Raises PolicyError for a file that is not a policy, and ImportError without torch.

    source: the policy.json of `nsysprof tune`.
    strict: whether a policy from another machine is an error.
    """

    def __init__(self, source: str | os.PathLike[str], *, strict: bool = False) -> None:
        self._file = read_policy(Path(source))
        self._strict = strict
        self._rules = _index(self._file)
        self._said: set[str] = set()
        self.calls = 0
        self.left = 0

    def __enter__(self) -> policy:
        self._holds = self._holds_here()
        with _FLAGS:
            if self._holds:
                _ACTIVE.append(self)
                if len(_ACTIVE) == 1:
                    _replace_function()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _FLAGS:
            if self._holds:
                # Remove the last entry of this policy's own, because blocks of several threads end in any order.
                _ACTIVE.pop(max(i for i, active in enumerate(_ACTIVE) if active is self))
                if not _ACTIVE:
                    _restore_function()

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
            warnings.warn(f"{text} This is reported once.", PolicyWarning, stacklevel=5)

    def _choose(self, key: Any, device: str) -> str | None:
        """Return the backend for a call, or None where there is no rule."""
        return self._rules.get(key) if device == self._file.device else None

    def _give_up(self, key: Any, backend: str) -> None:
        """Leave a shape to torch for good, because asking a backend that refuses costs more than the call."""
        self._rules[key] = AUTO
        self.calls -= 1
        self.left += 1
        self._say(f"{backend} refused a call that it was tuned for; that shape is left to torch.")


# The policies of all open blocks, the innermost last, and torch's own function while any is open. Guarded by _FLAGS.
_ACTIVE: list[policy] = []
_ORIGINAL: list[Callable[..., Any]] = []


def _replace_function() -> None:
    import torch.nn.functional

    _ORIGINAL.append(torch.nn.functional.scaled_dot_product_attention)
    torch.nn.functional.scaled_dot_product_attention = _make(_ORIGINAL[0])


def _restore_function() -> None:
    import torch.nn.functional

    torch.nn.functional.scaled_dot_product_attention = _ORIGINAL.pop()


def _make(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that replaces torch's while any policy is in force."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = {
        "math": SDPBackend.MATH,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": getattr(SDPBackend, "CUDNN_ATTENTION", SDPBackend.MATH),
    }
    select = _selector()

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
        def leave() -> torch.Tensor:
            out: torch.Tensor = original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **rest)
            return out

        active = _ACTIVE[-1] if _ACTIVE else None
        if active is None:
            return leave()
        call, backend = None, None
        if attn_mask is None and dropout_p == 0.0 and scale is None and isinstance(query, torch.Tensor):
            call = _key(query, key, value, is_causal)
            backend = None if call is None else active._choose(call, query.device.type)
        if torch.compiler.is_compiling():  # the compiler knows torch's own context manager, but not flags or locks
            with nullcontext() if backend is None or backend == AUTO else sdpa_kernel(kernels[backend]):
                return leave()
        with _FLAGS:
            return _run(active, call, backend, select, leave)

    return scaled_dot_product_attention


def _run(active: policy, call: Any, backend: str | None, select: Any, leave: Callable[[], Any]) -> Any:
    """Run a call by the policy and return its result; `leave` runs it as torch would. The caller holds _FLAGS."""
    if backend is None:
        active.left += 1
        active._say("A call does not match any rule of the policy and is left to torch.")
        return leave()
    active.calls += 1
    if backend == AUTO:
        return leave()
    restore = select(backend)
    try:
        return leave()
    except RuntimeError as error:
        if not any(words in str(error) for words in _REFUSED):
            raise
    finally:
        restore()
    active._give_up(call, backend)
    return leave()


def _key(query: Any, key: Any, value: Any, is_causal: bool) -> Any:
    """Return the key of a call in the rules, or None for a call of a form that is never tuned."""
    import torch

    shape = query.shape
    if len(shape) != 4 or len(key.shape) != 4 or key.shape[2] != shape[2] or key.shape != value.shape:
        return None
    wants = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    sizes = (shape[0], shape[1], key.shape[1], shape[2], shape[3])
    return (*sizes, query.dtype, is_causal, "grad" if wants else "fwd")


def _index(file: PolicyFile) -> dict[Any, str]:
    """Return the backends of the rules by key. Of rules for gradients, the whole pass counts before the backward."""
    import torch

    dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    found: dict[Any, str] = {}
    for rule in sorted(file.rules, key=lambda rule: rule.pass_ == "fwdbwd"):
        kind = "fwd" if rule.pass_ == "fwd" else "grad"
        shape = (rule.batch, rule.heads, rule.kv_heads, rule.seq, rule.head_dim)
        found[(*shape, dtypes[rule.dtype], rule.causal, kind)] = rule.backend
    return found


def _compare(file: PolicyFile) -> list[tuple[str, str | None, str | None]]:
    """Return what must be the same on this machine: (name, the policy's value, the value here)."""
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
    """Return the version of cuDNN that torch loaded, such as `9.19.0`; None without cuDNN."""
    import torch

    number = torch.backends.cudnn.version()
    if number is None:
        return None
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _selector() -> Callable[[str], Callable[[], None]]:
    """Return a function that allows one backend alone and returns a function that restores what was allowed before.

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
