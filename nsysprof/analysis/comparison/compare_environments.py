"""Check whether two sides were measured under conditions that let their numbers be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.results.checks import COMPARABLE_FIELDS
from nsysprof.results.comparison import Difference

# More facts that must match. They come from the trace and from the method of measuring.
MEASURED_FIELDS = ("latency_method", "trace_tool", "work_kind", "memory_kind")
# Facts that may differ between what is compared, and that a reader wants to know.
TOLD_FIELDS = ("git_commit", "python_version", "os", "tf32_matmul", "sdpa_flags", "cudnn_loaded_from")
# SM clocks that differ by this much while measuring (percent) count as different.
_CLOCK_GAP_PCT = 2.0


def compare_environments(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """Return the facts that must agree and do not.

    The inputs of one side must agree among themselves too. A fact that one side does not know is not a difference.
    """
    found = [
        difference
        for fact in (*COMPARABLE_FIELDS, *MEASURED_FIELDS)
        if (difference := _differs(fact, baseline, candidate)) is not None
    ]
    clocks = _clocks(baseline), _clocks(candidate)
    if clocks[0] and clocks[1] and _apart(clocks[0], clocks[1]):
        found.append(Difference("sm_clock_mhz", (_range(clocks[0]),), (_range(clocks[1]),)))
    return tuple(found)


def noted_differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """Return facts that differ but do not prevent a comparison, such as throttling."""
    found = [
        difference
        for fact in (*TOLD_FIELDS, "throttled")
        if (difference := _differs(fact, *([_with_throttle(each) for each in side] for side in (baseline, candidate))))
        is not None
    ]
    return tuple(found)


def unknown_facts(environments: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the COMPARABLE_FIELDS that no input knows."""
    # An untraced measurement has no nsys version, and one on the CPU has no cuDNN version: these are not unknown.
    asked = [fact for fact in COMPARABLE_FIELDS if fact not in ("nsys_version", "clocks_locked")]
    if any(each.get("device") == "cpu" for each in environments):
        asked = ["torch_version", "device", "cpu_model"]
    return tuple(fact for fact in asked if all(each.get(fact) is None for each in environments))


def common_environment(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts on which all inputs that know them agree."""
    facts = (*COMPARABLE_FIELDS, *MEASURED_FIELDS, *TOLD_FIELDS)
    known = {fact: _known(fact, environments) for fact in facts}
    return {fact: values[0] for fact, values in known.items() if len(values) == 1}


def _differs(
    fact: str, baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> Difference | None:
    old, new = _known(fact, baseline), _known(fact, candidate)
    if not old or not new or (old == new and len(old) == 1):
        return None
    return Difference(fact, old, new)


def _known(fact: str, environments: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the distinct known values of a fact, as texts."""
    return tuple(dict.fromkeys(str(each[fact]) for each in environments if each.get(fact) is not None))


def _clocks(environments: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the lowest and the highest SM clock while measuring (MHz)."""
    found = [during for each in environments if (during := _during(each)) is not None]
    if not found:
        return None
    return min(d["sm_clock_mhz_min"] for d in found), max(d["sm_clock_mhz_max"] for d in found)


def _during(environment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    clocks = environment.get("clocks")
    during = clocks.get("during") if isinstance(clocks, Mapping) else None
    if not isinstance(during, Mapping):
        return None
    whole = all(isinstance(during.get(f"sm_clock_mhz_{end}"), int | float) for end in ("min", "max"))
    return during if whole else None


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    gap = max(one[0] - other[1], other[0] - one[1])
    return gap > _CLOCK_GAP_PCT / 100 * max(one[1], other[1])


def _range(clocks: tuple[float, float]) -> str:
    return f"{clocks[0]:g} to {clocks[1]:g}"


def _with_throttle(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    during = _during(environment)
    if during is None:
        return environment
    reasons = set(during.get("throttle_reasons") or ()) - {"gpu_idle", "applications_clocks_setting"}
    return {**environment, "throttled": ", ".join(sorted(reasons)) or "no"}
