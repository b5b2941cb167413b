"""Check the machine before anything is measured: torch, a GPU, and the dtype that suits it."""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path
from typing import Any

from nsysprof.attention.shape import check_names
from nsysprof.capture.environment import has_usable_gpu
from nsysprof.errors import MissingToolError
from nsysprof.nsight.run_tool import NCU, find_tool

DEVICES = ("auto", "cuda", "cpu")


def require_torch(command: str) -> None:
    """Raise MissingToolError when a package of the extra [torch] is missing. No package is imported."""
    for module in ("torch", "nvtx", "pynvml"):
        if importlib.util.find_spec(module) is None:
            raise MissingToolError(
                f"{command} needs the Python package {module}, which is not installed.",
                "pip install 'nsysprof[torch]'",
            )


def settle_device(device: str, profiler: str = "none") -> str:
    """Return `cuda` or `cpu` for what the user requested. Raises MissingToolError where the GPU for it is missing."""
    check_names("device", [device], DEVICES)
    has_gpu = device != "cpu" and has_usable_gpu()
    if device == "cuda" and not has_gpu:
        raise MissingToolError(
            "--device cuda was given, but no NVIDIA GPU can be used here.", "Use --device cpu, or check nvidia-smi."
        )
    if device == "auto" and profiler == "nsys" and not has_gpu:
        raise MissingToolError(
            "--profiler nsys was given, but there is no NVIDIA GPU here to trace.",
            "Use --profiler torch for operators on the CPU, or add --device cpu to record only NVTX ranges.",
        )
    return ("cuda" if has_gpu else "cpu") if device == "auto" else device


def default_dtype(device: str) -> str:
    """Return the dtype of a grid that names none."""
    return "fp16" if device == "cuda" else "fp32"


def shared_values(request: object, plan: type) -> dict[str, Any]:
    """Return what a request says about those fields of a plan that it has too."""
    return {field.name: getattr(request, field.name) for field in fields(plan) if hasattr(request, field.name)}


def find_ncu(option: str, named: Path | None) -> Path:
    """Return the ncu to use. Raises MissingToolError, which names the option that needs it."""
    found = find_tool(NCU, named)
    if found is None:
        raise MissingToolError(
            f"{option} was given, but ncu was not found.",
            "Install Nsight Compute, or name it with --ncu or NSYSPROF_NCU.",
        )
    return found
