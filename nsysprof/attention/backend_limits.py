"""List what each backend takes beside plain attention, as data: who can run a shape, and why another cannot.

What a backend takes may still be refused by its library for other reasons, such as a head size or a GPU. Only a
measured process can ask the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nsysprof.attention.mask import BACKENDS, PLUGINS, SERVED
from nsysprof.attention.shape import Shape, is_hub_backend
from nsysprof.errors import UsageError

# What a shape may have: the option that asks for it, and how to see it in a shape.
_FEATURES: dict[str, tuple[str, Callable[[Shape], bool]]] = {
    "mask": ("--mask", lambda shape: shape.mask != "none" and not shape.window),
    "window": ("--window", lambda shape: shape.window is not None),
    "v": ("--head-dim-v", lambda shape: shape.own_head_dim_v is not None),
    "cap": ("--softcap", lambda shape: shape.softcap > 0),
    "sinks": ("--sinks", lambda shape: shape.sinks),
    "fp8": ("--kv-dtype fp8", lambda shape: shape.kv_dtype != "same"),
    "pages": ("--page-size", lambda shape: shape.page_size > 0),
    "gradient": ("--pass bwd", lambda shape: shape.pass_ != "fwd"),
    "fp32": ("--dtype fp32", lambda shape: shape.dtype == "fp32"),
}
# Torch's backends and naive get an fp8 cache cast and pages gathered within the measured call. What of the rest torch
# itself refuses, it says itself.
_TORCH = frozenset({"mask", "window", "v", "fp8", "pages", "gradient", "fp32"})
_FLASH = frozenset({"window", "cap", "gradient"})
TAKES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("math", "flash", "efficient", "cudnn", "auto"), _TORCH),
    "naive": _TORCH | {"cap", "sinks"},
    "flex": _TORCH | {"cap", "sinks"},
    "flash_attn": _FLASH,
    "xformers": frozenset({"gradient", "fp32"}),
    "varlen": frozenset({"window", "pages", "gradient"}),
    "flash3": frozenset({"gradient"}),
    "flash4": frozenset({"gradient"}),
    "flashinfer": frozenset({"window", "cap", "fp8", "pages", "v"}),
    "sage": frozenset(),
    "te": frozenset({"window", "v", "gradient", "fp32"}),
    "hub": _FLASH,
}
# Backends that compute with fewer bits than their inputs have. They are measured, and called approximate.
LOSSY = frozenset({"sage"})
# The largest error, relative to the result, that a loss of bits explains: a forgotten mask or another scale changes
# random results by more. A lossy backend that is farther from the reference is wrong.
MOST_LOSS = 0.2
# What to install for a backend whose library is missing.
INSTALL = {
    "flash_attn": "pip install flash-attn",
    "xformers": "pip install xformers",
    "varlen": "torch 2.10 or later",
    "flash3": "torch 2.11 or later, and FlashAttention 3, from the folder hopper of its repository",
    "flash4": "torch 2.11 or later, and pip install flash-attn-4",
    "flashinfer": "pip install flashinfer-python",
    "sage": "pip install sageattention==1.0.6",
    "te": "pip install transformer_engine[pytorch]",
    "hub": "pip install kernels",
}


# Backends, beside torch's own, whose kernels have a name of their own.
NAMED_KERNELS = frozenset({"flash3", "flash4", "flashinfer", "sage", "flex"})


def is_lossy(backend: str) -> bool:
    """Return whether a backend gives up precision by design."""
    return backend in LOSSY


def takes_of(backend: str) -> frozenset[str]:
    """Return what a backend takes; of a user's own or a registered one, plain attention and gradients."""
    return TAKES.get("hub" if is_hub_backend(backend) else backend, frozenset({"gradient", "fp32"}))


def missing_features(backend: str, shape: Shape) -> list[str]:
    """Return what of a shape a backend does not take, in the order of the options."""
    takes = takes_of(backend)
    return [name for name, (_, is_asked) in _FEATURES.items() if name not in takes and is_asked(shape)]


def why_refused(backend: str, shape: Shape) -> str:
    """Return in one sentence why a backend cannot run a shape, and which could; empty where nothing speaks against it.

    A backend is judged by what is known of it here, without its library.
    """
    missing = missing_features(backend, shape)
    if not missing:
        return ""
    options = " and ".join(_FEATURES[name][0] for name in missing)
    return f"{backend} does not take {options}; {_who_can(shape)}."


def _who_can(shape: Shape) -> str:
    able = [name for name in (*BACKENDS, *PLUGINS, *SERVED) if name != "auto" and not missing_features(name, shape)]
    return f"{', '.join(able)} may" if able else "no backend does"


def refuse_hopeless(backends: Sequence[str], shapes: Sequence[Shape]) -> None:
    """Raise UsageError where none of the backends takes one of the shapes."""
    for shape in shapes:
        reasons = [why_refused(name, shape) for name in backends]
        if reasons and all(reasons):
            raise UsageError(f"No backend of the grid can run this: {reasons[0]}", f"Give --backends {_near(shape)}.")


def _near(shape: Shape) -> str:
    return ",".join(name for name in ("math", "naive", "flex") if not missing_features(name, shape)) or "naive"
