"""Decide which facts of a machine must match before two captures may be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# Two captures are comparable when these facts agree. Clocks vary by nature and are recorded separately.
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
    "power_limit_w",
    "clocks_locked",
)
# Facts that older measurements did not record. While unknown, they do not change the hash.
_LATER = ("power_limit_w", "clocks_locked")


def comparable_hash(environment: dict[str, Any]) -> str:
    """Return twelve hex digits over COMPARABLE_FIELDS. Equal hashes mean comparable captures."""
    subset = {key: environment.get(key) for key in COMPARABLE_FIELDS}
    subset = {key: value for key, value in subset.items() if value is not None or key not in _LATER}
    return hashlib.sha256(json.dumps(subset, sort_keys=True).encode()).hexdigest()[:12]
