"""Parse the strict grammar of `--fail-on`: `slower:3%,launches:+1,vram:+5%`.

    rules  = rule {"," rule}
    rule   = metric ":" ["+"] number [unit] | "finding:" code
    unit   = "%", for bytes also B, KB, MB, GB, KiB, MiB, GiB, for times ns, us, ms, s; counts have none

A rule is broken when the metric grew by that much or more. `slower` and `faster` are about the latency, in percent;
`step` is about the time of a step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nsysprof.analysis.sampling.significance import MARGIN_PCT
from nsysprof.errors import UsageError
from nsysprof.results.column_registry.finding_codes import CODES, MEMORY_CODES
from nsysprof.results.comparison import METRICS

LATENCY_METRICS = ("slower", "faster")
# What is measured without a trace.
_UNTRACED = (*LATENCY_METRICS, "vram")
# The time of a step of a program, which traces know.
STEP_TIME = "step"
# A rule about findings has the code of a finding instead of a limit, or this word for all findings.
FINDING, ANY_FINDING = "finding", "any"
# The names that users give to metrics, and the columns of our tables.
ALIASES = {"memcpy": "copied", "memset": "filled", "bytes": "moved", "memory": "vram", "time": "kernel_time"}
# Sums without a column of their own: bytes copied plus bytes set.
_SUMS = {"moved": "bytes"}
_RULE = re.compile(r"([a-z_-]+):(\+?)([0-9]+(?:\.[0-9]+)?)\s*(%|[A-Za-z]*)")
_UNITS = {
    "count": {},
    "bytes": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}


@dataclass(frozen=True)
class GateRule:
    """One rule of a gate."""

    text: str
    # One of LATENCY_METRICS or METRICS, or "moved", or STEP_TIME, or FINDING.
    metric: str
    # In percent, or in the metric's own unit (ns, bytes).
    limit: float
    percent: bool
    # The code of a finding, where the rule is about one.
    code: str = ""


def parse_gate(text: str) -> tuple[GateRule, ...]:
    """Return the rules of a gate. Raises UsageError, which names the invalid part and shows valid ones."""
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise UsageError("--fail-on is empty.", "Give rules such as slower:3%,launches:+1,vram:+5%.")
    rules = tuple(_parse_rule(part) for part in parts)
    seen: set[str] = set()
    for rule in rules:
        about = f"{rule.metric}:{rule.code}" if rule.code else rule.metric
        if about in seen:
            raise UsageError(f"--fail-on has two rules for {about}.", "Give one limit for each.")
        seen.add(about)
    return rules


def margin_of(rules: Sequence[GateRule]) -> float:
    """Return the smallest difference that matters to these rules (percent): the limit of the latency or of a step."""
    limits = {rule.metric: rule.limit for rule in rules if rule.percent}
    return limits.get("slower", limits.get(STEP_TIME, MARGIN_PCT))


def refuse_traced(rules: Sequence[GateRule]) -> None:
    """Raise UsageError for a rule about a number that only a trace has, where nothing is traced."""
    other = next((rule for rule in rules if rule.metric not in _UNTRACED), None)
    if other is not None:
        raise UsageError(
            f"--fail-on: '{other.text}' needs a trace, and nothing is traced here.",
            f"Rules here are about {', '.join(_UNTRACED)}. nsysprof compare of two traces judges the others.",
        )


def known_metrics() -> tuple[str, ...]:
    """Return the names of everything that a rule can be about."""
    return (*LATENCY_METRICS, STEP_TIME, *METRICS, *ALIASES)


def _parse_finding(part: str) -> GateRule:
    code = part.partition(":")[2]
    known = (*CODES, *MEMORY_CODES)
    if code not in (*known, ANY_FINDING):
        raise UsageError(f"--fail-on: {code!r} is not the code of a finding.", f"Known: any, {', '.join(known)}.")
    return GateRule(part, FINDING, 0.0, False, code)


def _parse_rule(part: str) -> GateRule:
    if part.startswith(f"{FINDING}:"):
        return _parse_finding(part)
    match = _RULE.fullmatch(part)
    if match is None:
        raise UsageError(
            f"--fail-on: '{part}' is not a valid rule.", "A rule is METRIC:LIMIT, such as slower:3% or launches:+1."
        )
    name, _, number, unit = match.groups()
    name = name.replace("-", "_")
    metric = ALIASES.get(name, name)
    if metric not in (*LATENCY_METRICS, STEP_TIME, *METRICS, *_SUMS):
        raise UsageError(f"--fail-on: unknown metric '{match[1]}'.", f"Known: {', '.join(known_metrics())}, {FINDING}.")
    limit = float(number)
    if not limit > 0:
        raise UsageError(f"--fail-on: '{part}' would always fail.", "Give a limit above zero.")
    if unit == "%":
        return GateRule(part, metric, limit, True)
    if metric in LATENCY_METRICS:
        raise UsageError(f"--fail-on: '{part}' needs a percentage.", f"For example {metric}:3%.")
    units = _UNITS["ns" if metric == STEP_TIME else _SUMS.get(metric) or METRICS[metric].unit]
    if (unit and unit not in units) or (units and not unit):
        known = ", ".join(["%", *units]) if units else "% or none"
        problem = f"has the unit '{unit}', which {metric} does not have" if unit else "needs a unit"
        raise UsageError(f"--fail-on: '{part}' {problem}.", f"The units of {metric} are: {known}.")
    return GateRule(part, metric, limit * units.get(unit, 1), False)
