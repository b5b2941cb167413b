"""The strict grammar of `--fail-on`: `slower:3%,launches:+1,vram:+5%`.

    rules  = rule {"," rule}
    rule   = metric ":" ["+"] number [unit]
    unit   = "%", for bytes also B, KB, MB, GB, KiB, MiB, GiB, for times ns, us, ms, s; counts have none

A rule is broken when the metric grew by that much or more. `slower` and `faster` are of the latency, in percent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nsysprof.comparison import METRICS
from nsysprof.errors import UsageError

LATENCY_METRICS = ("slower", "faster")
# What users call it, and what it is called in every table of ours.
ALIASES = {"memcpy": "copied", "memset": "filled", "bytes": "moved", "memory": "vram", "time": "kernel_time"}
# Sums that have no column of their own: bytes copied and set.
_SUMS = {"moved": "bytes"}
_RULE = re.compile(r"([a-z_-]+):(\+?)([0-9]+(?:\.[0-9]+)?)\s*(%|[A-Za-z]*)")
_UNITS = {
    "count": {},
    "bytes": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}


@dataclass(frozen=True)
class Rule:
    """metric: of LATENCY_METRICS, METRICS or "moved". limit: in percent, or in the metric's own unit (ns, bytes)."""

    text: str
    metric: str
    limit: float
    percent: bool


def parse_gate(text: str) -> tuple[Rule, ...]:
    """The rules of a gate. Raises UsageError that names the part which is none, and what would be one."""
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise UsageError("--fail-on names nothing.", "Give rules such as slower:3%,launches:+1,vram:+5%.")
    rules = tuple(_parse_rule(part) for part in parts)
    seen: set[str] = set()
    for rule in rules:
        if rule.metric in seen:
            raise UsageError(f"--fail-on has two rules for {rule.metric}.", "Give one limit for each.")
        seen.add(rule.metric)
    return rules


def known_metrics() -> tuple[str, ...]:
    """Everything that a rule can be about."""
    return (*LATENCY_METRICS, *METRICS, *ALIASES)


def _parse_rule(part: str) -> Rule:
    match = _RULE.fullmatch(part)
    if match is None:
        raise UsageError(
            f"--fail-on: '{part}' is no rule.", "A rule is METRIC:LIMIT, such as slower:3% or launches:+1."
        )
    name, _, number, unit = match.groups()
    name = name.replace("-", "_")
    metric = ALIASES.get(name, name)
    if metric not in (*LATENCY_METRICS, *METRICS, *_SUMS):
        raise UsageError(f"--fail-on: unknown metric '{match[1]}'.", f"Known: {', '.join(known_metrics())}.")
    limit = float(number)
    if not limit > 0:
        raise UsageError(f"--fail-on: '{part}' would fail whatever is measured.", "Give a limit above zero.")
    if unit == "%":
        return Rule(part, metric, limit, True)
    if metric in LATENCY_METRICS:
        raise UsageError(f"--fail-on: '{part}' needs a percentage.", f"For example {metric}:3%.")
    units = _UNITS[_SUMS.get(metric) or METRICS[metric].unit]
    if (unit and unit not in units) or (units and not unit):
        known = ", ".join(["%", *units]) if units else "% or none"
        raise UsageError(f"--fail-on: '{part}' has the unit '{unit}'.", f"The units of {metric} are: {known}.")
    return Rule(part, metric, limit * units.get(unit, 1), False)
