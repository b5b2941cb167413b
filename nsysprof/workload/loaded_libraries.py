"""Read the versions of torch, CUDA, cuDNN and cuBLAS that this process has really loaded."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch


def collect_torch(device: str) -> dict[str, Any]:
    """Return versions, the visible GPU, and the loaded cuDNN and cuBLAS, each with its origin (wheel or system)."""
    facts: dict[str, Any] = {
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "device": device,
        "gpu_name": None,
        "gpu_uuid": None,
        "gpu_memory_bytes": None,
        "compute_capability": None,
        "sdpa_flags": {
            "flash": torch.backends.cuda.flash_sdp_enabled(),
            "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
            "math": torch.backends.cuda.math_sdp_enabled(),
            "cudnn": getattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: None)(),
        },
        "tf32_matmul": torch.get_float32_matmul_precision() != "highest",
        "torch_threads": torch.get_num_threads(),
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        uuid = str(getattr(properties, "uuid", "") or "")
        facts.update(
            gpu_name=properties.name,
            gpu_uuid=uuid if not uuid or uuid.startswith("GPU-") else f"GPU-{uuid}",
            gpu_memory_bytes=properties.total_memory,
            compute_capability=f"{properties.major}.{properties.minor}",
        )
        torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")  # loads cuBLAS before its version is read
        torch.backends.cudnn.version()
    facts.update(_loaded("cudnn", r"libcudnn\.so[.\d]*$"), **_loaded("cublas", r"libcublas\.so[.\d]*$"))
    return facts


def _loaded(name: str, pattern: str) -> dict[str, Any]:
    path = next((p for p in _mapped_files() if re.search(pattern, p)), None)
    version = None if path is None else (_cudnn_version(path) if name == "cudnn" else _cublas_version(path))
    source = None if path is None else ("wheel" if "site-packages" in path else "system")
    return {f"{name}_loaded_version": version, f"{name}_loaded_from": source}


def _mapped_files() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split(None, 5)[5] for line in lines if line.count("/")))


def _cudnn_version(path: str) -> str | None:
    """Return the version from cudnnGetVersion: 91900 is 9.19.0. Before cuDNN 9 the factors were 1000 and 100."""
    try:
        number = int(ctypes.CDLL(path).cudnnGetVersion())
    except (OSError, AttributeError):
        return None
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _cublas_version(path: str) -> str | None:
    """Return the version from cublasGetProperty(0, 1, 2), which are major, minor and patch and need no handle."""
    try:
        library = ctypes.CDLL(path)
        parts = []
        for which in range(3):
            value = ctypes.c_int()
            if library.cublasGetProperty(which, ctypes.byref(value)) != 0:
                return None
            parts.append(value.value)
    except (OSError, AttributeError):
        return None
    return ".".join(map(str, parts))
