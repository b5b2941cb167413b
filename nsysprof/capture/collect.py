"""From the events of the measured processes to one outcome a case and the environment they ran in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nsysprof.capture.plan import CapturePlan
from nsysprof.environment import comparable_hash
from nsysprof.notes import Note, Severity
from nsysprof.samples import Samples


@dataclass
class CaseOutcome:
    """What became of one case in each pass. calls: inside its range in the traced pass."""

    status: str = "not_run"
    reason: str = ""
    measured: dict[str, Any] | None = None
    traced: str = "not_run"
    traced_reason: str = ""
    calls: int | None = None
    counted: str = "not_run"
    counted_reason: str = ""

    @property
    def samples(self) -> Samples | None:
        if self.measured is None:
            return None
        return Samples(tuple(self.measured["values_ns"]), self.measured["method"])


@dataclass
class Progress:
    """The state of a capture, fed with events as they come."""

    plan: CapturePlan
    outcomes: list[CaseOutcome] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    ceilings: dict[str, Any] | None = None
    current: int | None = None

    def __post_init__(self) -> None:
        self.outcomes = [CaseOutcome() for _ in self.plan.cases]

    def take(self, event: dict[str, Any], pass_name: str) -> None:
        kind = event["event"]
        if kind == "environment":
            self.environment.update(event["facts"])
        elif kind == "clocks":
            self.clocks.append({k: v for k, v in event.items() if k != "event"} | {"pass": pass_name})
        elif kind == "ceilings":
            self.ceilings = {k: v for k, v in event.items() if k != "event"}
        elif kind == "start":
            self.current = event["case"]
        elif kind == "done":
            self._finish(event, pass_name)

    def _finish(self, event: dict[str, Any], pass_name: str) -> None:
        outcome = self.outcomes[event["case"]]
        self.current = None
        if pass_name == "timed":
            outcome.status, outcome.reason = event["status"], event["reason"]
            outcome.measured = event.get("measured")
        elif pass_name == "traced":
            outcome.traced, outcome.traced_reason = event["status"], event["reason"]
            outcome.calls = event.get("calls", self.plan.traced_calls)
        else:
            outcome.counted, outcome.counted_reason = event["status"], event["reason"]


def result_rows(progress: Progress) -> list[dict[str, Any]]:
    """One row a case for results.csv, with what the untraced pass knows; the trace fills in the rest."""
    rows = []
    for case, outcome in zip(progress.plan.cases, progress.outcomes, strict=True):
        samples, measured = outcome.samples, outcome.measured or {}
        interval = samples.median_interval_ns() if samples else None
        status, reason = outcome.status, outcome.reason
        if status == "ok" and progress.plan.profiler != "none" and outcome.traced not in ("ok", "not_run"):
            reason = f"measured, but its traced run failed ({outcome.traced}): {outcome.traced_reason}"
        cell = case.to_json()
        rows.append(
            {
                "range": progress.plan.range_of(case),
                **{key: cell[key] for key in ("backend", "batch", "heads", "seq", "head_dim", "dtype")},
                "kv_heads": case.key_heads,
                "causal": case.causal,
                "pass": case.pass_,
                "status": status,
                "reason": reason,
                "samples": len(samples.values_ns) if samples else 0,
                "latency_median_ns": _round(samples.median_ns) if samples else None,
                "latency_ci_low_ns": interval[0] if interval else None,
                "latency_ci_high_ns": interval[1] if interval else None,
                "input_bytes": measured.get("input_bytes"),
                "peak_allocated_bytes": measured.get("peak_allocated_bytes"),
                "peak_reserved_bytes": measured.get("peak_reserved_bytes"),
                "peak_beyond_inputs_bytes": measured.get("peak_beyond_inputs_bytes"),
                "traced_calls": outcome.calls if outcome.traced == "ok" else None,
            }
        )
    return rows


def merged_environment(
    host: dict[str, Any], gpus: list[dict[str, Any]], progress: Progress, nsys_version: str | None
) -> dict[str, Any]:
    """Host, GPU and torch facts with clocks before, during and after, and the hash over what must match."""
    facts = dict(progress.environment)
    uuid = facts.pop("gpu_uuid", None)
    mine = next((gpu for gpu in gpus if gpu["uuid"] == uuid), None)
    environment = {
        **host,
        **facts,
        "gpu_count": len(gpus),
        "driver_version": mine["driver_version"] if mine else (gpus[0]["driver_version"] if gpus else None),
        "nsys_version": nsys_version,
        "clocks": summarize_clocks(progress.clocks),
    }
    if progress.ceilings is not None:
        environment["ceilings"] = progress.ceilings
    environment["comparable_hash"] = comparable_hash(environment)
    return environment


def summarize_clocks(samples: list[dict[str, Any]]) -> dict[str, Any] | None:
    """First, last and extreme clocks of the untraced pass, and every throttle reason seen; None without NVML."""
    timed = [sample for sample in samples if sample["pass"] == "timed"]
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


# Reasons that NVML gives for clocks of a GPU that is not throttled.
HARMLESS_CLOCK_REASONS = frozenset({"gpu_idle", "applications_clocks_setting"})


def clock_notes(environment: dict[str, Any]) -> list[Note]:
    """A warning when the GPU was throttled while it was being measured."""
    clocks = environment.get("clocks")
    if not clocks:
        return []
    reasons = [r for r in clocks["during"]["throttle_reasons"] if r not in HARMLESS_CLOCK_REASONS]
    if not reasons:
        return []
    return [
        Note(
            "gpu-throttled",
            Severity.WARNING,
            f"The GPU was throttled during the untraced pass ({', '.join(reasons)}); latencies may be too high.",
            "Let it cool down or wait for its other users, then measure again.",
        )
    ]


def _round(value: float | None) -> int | None:
    return None if value is None else round(value)
