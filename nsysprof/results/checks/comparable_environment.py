"""Decide which facts of a machine must match before two captures may be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# Two captures are comparable when these agree. Clocks vary by nature and are recorded separately.
COMPARABLE_FIELDS = (
    "gpu_name",
    "gpu_count",
    "driver_version",
    "cuda_version",
    "torch_version",
    "cudnn_loaded_version",
    "cublas_loaded_version",
    "device",
    "cpu_model",
    "nsys_version",
)


def comparable_hash(environment: dict[str, Any]) -> str:
    """Return twelve hex digits over COMPARABLE_FIELDS. Equal hashes mean comparable captures."""
    subset = {key: environment.get(key) for key in COMPARABLE_FIELDS}
    return hashlib.sha256(json.dumps(subset, sort_keys=True).encode()).hexdigest()[:12]
