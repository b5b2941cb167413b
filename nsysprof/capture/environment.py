"""Describe what a measurement ran on: host, GPU and torch, and the GPU's clocks before, during and after."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from nsysprof.environment import collect_gpus, collect_host
from nsysprof.files.plain_file import explain_decoding
from nsysprof.notes import Note, make_note
from nsysprof.nsight.run_tool import tool_version
from nsysprof.results.checks import comparable_hash

# Throttle reasons that NVML also gives for a GPU that is not throttled.
HARMLESS_CLOCK_REASONS = frozenset({"gpu_idle", "applications_clocks_setting"})


class _Clock(Struct):
    """The fields of one NVML reading that reports use."""

    sm_clock_mhz: float
    memory_clock_mhz: float
    temperature_c: float
    power_w: float | None
    throttle_reasons: tuple[str, ...]


class _During(Struct):
    samples: int
    sm_clock_mhz_min: float
    sm_clock_mhz_max: float
    temperature_c_max: float
    throttle_reasons: tuple[str, ...]


class _Clocks(Struct):
    before: _Clock
    during: _During
    after: _Clock


class _Ceilings(Struct):
    bytes_per_s: float | None = None
    l2_bytes_per_s: float | None = None
    # By dtype.
    flops: dict[str, float | None] | None = None
    sm_clock_mhz: dict[str, float | None] | None = None
    gpu_name: str | None = None
    link_bytes_per_s: float | None = None


class _Environment(Struct):
    """The facts about an environment that are structures instead of plain values."""

    clocks: _Clocks | None = None
    ceilings: _Ceilings | None = None
    sdpa_flags: dict[str, bool] | None = None


def has_usable_gpu() -> bool:
    """Return whether this machine has a GPU that CUDA_VISIBLE_DEVICES does not hide."""
    return bool(collect_gpus()) and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")


def memory_of(device: str) -> int | None:
    """Return the memory (bytes) of the first GPU, or of the machine for the device `cpu`; None where unknown."""
    memory_bytes = collect_gpus()[0]["memory_bytes"] if device == "cuda" else collect_host()["memory_bytes"]
    return None if memory_bytes is None else int(memory_bytes)


def check_environment(environment: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the field, when a file's environment is not valid."""
    try:
        msgspec.convert(environment, _Environment)
    except msgspec.ValidationError as failed:
        raise ValueError(f"environment.{explain_decoding(failed)}") from failed
    for name, value in environment.items():
        if name not in _Environment.__struct_fields__ and not isinstance(value, str | int | float | None):
            raise ValueError(f"environment.{name[:40]}: expected a plain value, got {type(value).__name__}")


def check_ceilings(ceilings: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the field, when a file's ceilings are not valid."""
    try:
        msgspec.convert(ceilings, _Ceilings)
    except msgspec.ValidationError as failed:
        raise ValueError(f"ceilings.{explain_decoding(failed)}") from failed


def merge_environment(
    facts: Mapping[str, Any],
    host: Mapping[str, Any],
    gpus: Sequence[Mapping[str, Any]],
    locked_clock_mhz: int | None = None,
) -> dict[str, Any]:
    """Return the facts about a measurement, with a hash of those that must match before two are compared.

    facts: what the measured process reported about torch and its GPU.
    host, gpus: what is known from outside the process.
    locked_clock_mhz: the SM clock at which the GPU was locked (MHz); None where it was not locked.
    """
    known = dict(facts)
    uuid = known.pop("gpu_uuid", None)
    mine = next((gpu for gpu in gpus if gpu["uuid"] == uuid), gpus[0] if gpus else None)
    environment = {
        **host,
        **known,
        "gpu_count": len(gpus),
        "driver_version": mine["driver_version"] if mine else None,
        "power_limit_w": mine.get("power_limit_w") if mine else None,
        "nsys_version": None,  # the pass is untraced
        **({"clocks_locked": "no" if locked_clock_mhz is None else f"{locked_clock_mhz} MHz"} if mine else {}),
    }
    return {**environment, "comparable_hash": comparable_hash(environment)}


def summarize_clocks(timed: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the first, last and extreme clocks, and every throttle reason; None where NVML reports nothing."""
    if not timed:
        return None
    during = [sample for sample in timed if sample["case"] is not None] or timed
    keys = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "throttle_reasons")
    sm = [sample["sm_clock_mhz"] for sample in during]
    return {
        "before": {key: timed[0][key] for key in keys},
        "during": {
            "samples": len(during),
            "sm_clock_mhz_min": min(sm),
            "sm_clock_mhz_max": max(sm),
            "temperature_c_max": max(sample["temperature_c"] for sample in during),
            "throttle_reasons": sorted({r for s in during for r in s["throttle_reasons"]}),
        },
        "after": {key: timed[-1][key] for key in keys},
    }


def clock_notes(environment: dict[str, Any]) -> list[Note]:
    """Return a warning when the GPU was throttled while it was measured."""
    clocks = environment.get("clocks")
    if not clocks:
        return []
    reasons = [r for r in clocks["during"]["throttle_reasons"] if r not in HARMLESS_CLOCK_REASONS]
    if not reasons:
        return []
    return [make_note("gpu-throttled", "capture", reasons=", ".join(reasons))]


def collect_machine(nsys: Path | None) -> dict[str, Any]:
    """Return the facts that are known from outside the program. Its torch and CUDA are not.

    nsys: the nsys that records; None where none does.
    """
    gpus = collect_gpus()
    environment = {
        **collect_host(),
        "gpu_name": ", ".join(sorted({gpu["name"] for gpu in gpus})) or None,
        "gpu_count": len(gpus),
        "driver_version": gpus[0]["driver_version"] if gpus else None,
        "power_limit_w": gpus[0].get("power_limit_w") if gpus else None,
        "nsys_version": None if nsys is None else tool_version(nsys),
    }
    return {**environment, "comparable_hash": comparable_hash(environment)}
