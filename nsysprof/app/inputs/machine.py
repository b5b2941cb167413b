"""Find out what must be known of this machine before anything is measured: torch, a GPU, the dtype that suits it."""

from __future__ import annotations

import importlib.util

from nsysprof.attention.case import check_names
from nsysprof.errors import MissingToolError

DEVICES = ("auto", "cuda", "cpu")


def require_torch(command: str) -> None:
    """Raise MissingToolError when a package of the extra [torch] is missing. Imports none of them."""
    for module in ("torch", "nvtx", "pynvml"):
        if importlib.util.find_spec(module) is None:
            raise MissingToolError(
                f"{command} needs the Python package {module}, which is not installed.",
                "pip install 'nsysprof[torch]'",
            )


def settle_device(device: str, profiler: str = "none") -> str:
    """Return `cuda` or `cpu` for what the user asked for. Raise MissingToolError where there is no GPU for it."""
    from nsysprof.capture.environment import has_usable_gpu

    check_names("device", [device], DEVICES)
    has_gpu = device != "cpu" and has_usable_gpu()
    if device == "cuda" and not has_gpu:
        raise MissingToolError(
            "--device cuda, but no NVIDIA GPU can be used here.", "Use --device cpu, or check nvidia-smi."
        )
    if device == "auto" and profiler == "nsys" and not has_gpu:
        raise MissingToolError(
            "--profiler nsys, but there is no NVIDIA GPU here to trace.",
            "Use --profiler torch for operators on the CPU, or add --device cpu to record NVTX ranges alone.",
        )
    return ("cuda" if has_gpu else "cpu") if device == "auto" else device


def default_dtype(device: str) -> str:
    """Return what a grid is measured in when the user names no dtype."""
    return "fp16" if device == "cuda" else "fp32"
