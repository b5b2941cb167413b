"""Compare the ranges of two sides' traces: a full outer join by range, then by kernel."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from nsysprof.analysis.attribution.library_ranges import is_of_library
from nsysprof.analysis.sampling.series_ratio import LEAST_INSTANCES, ratio_of_medians
from nsysprof.results.comparison import (
    METRICS,
    PARTS,
    WHOLE_TRACE,
    KernelChange,
    KernelFacts,
    MetricChange,
    RangeChange,
    RangeFacts,
)

# A kernel's change of time is worth showing when it exceeds this, and this share of the range's time.
NOTABLE_PCT, NOTABLE_SHARE_PCT = 5.0, 1.0

Key = tuple[str, str]
Ranges = Mapping[Key, RangeFacts]
# So many ranges are compared one by one: no person reads more, and a trace of 10 MB may have a hundred thousand.
MOST_RANGES = 5_000
# Kernels without a known category are paired only if their names are at least this similar.
_ALIKE = 0.6
# Kernels are paired among so many of each side, those with the most time, by so many characters of their names: the
# time to compare two names grows with both lengths.
_MOST, _NAME = 100, 200


@dataclass(frozen=True)
class _Counted:
    """A range of one trace, and the number of calls that its numbers are divided by."""

    facts: RangeFacts
    calls: int

    def of_call(self, metric: str) -> float | None:
        """Return a number per call; None is unknown. Integers that divide evenly stay integers."""
        value = self.facts.metrics[metric]
        if value is None or not METRICS[metric].per_call:
            return value
        return value // self.calls if value % self.calls == 0 else value / self.calls


def compare_ranges(baseline: Sequence[Ranges], candidate: Sequence[Ranges]) -> tuple[RangeChange, ...]:
    """Return the ranges of either side: the whole trace, the program's with the most time first, libraries'.

    Of more than MOST_RANGES, those with the least time are left out.

    baseline, candidate: one entry per trace.
    """
    longest_ns: dict[Key, int] = {}
    for trace in (*baseline, *candidate):
        for key, facts in trace.items():
            longest_ns[key] = max(facts.metrics["wall"] or 0, longest_ns.get(key, 0))
    keys = sorted(longest_ns, key=lambda key: (key[0] != WHOLE_TRACE, -longest_ns[key]))[: MOST_RANGES + 1]
    changes = (_compare(key, _of(key, baseline), _of(key, candidate)) for key in keys)
    return tuple(sorted(changes, key=_place))


def _place(change: RangeChange) -> tuple[bool, bool, float]:
    wall = change.metrics["wall"]
    calls = (wall.baseline or 0) * change.baseline_calls, (wall.candidate or 0) * change.candidate_calls
    return change.range != WHOLE_TRACE, change.is_library, -max(calls)


def _of(key: Key, traces: Sequence[Ranges]) -> list[RangeFacts]:
    return [trace[key] for trace in traces if key in trace]


def _compare(key: Key, baseline: Sequence[RangeFacts], candidate: Sequence[RangeFacts]) -> RangeChange:
    # The divisor: calls where all traces say how many there were, else instances.
    counted = all(facts.calls for facts in (*baseline, *candidate))
    old, new = (
        [_Counted(facts, (facts.calls or 1) if counted else max(1, facts.instances)) for facts in side]
        for side in (baseline, candidate)
    )
    before, after = _median_trace(old), _median_trace(new)
    parts, per_call = _part_changes(before, after)
    return RangeChange(
        range=key[0],
        domain=key[1],
        how="both" if old and new else "vanished" if old else "appeared",
        baseline_calls=before.calls if before else 0,
        candidate_calls=after.calls if after else 0,
        metrics={name: _metric(name, old, new) for name in METRICS},
        parts=parts,
        wall_change_ns=None if parts is None else sum(parts.values()),
        per_call=per_call,
        kernels=_kernels(before, after) if before and after else (),
        baseline_family=before.facts.family if before else None,
        candidate_family=after.facts.family if after else None,
        is_library=is_of_library(*key),
        **_wall_ratio(baseline, candidate),
    )


def _wall_ratio(baseline: Sequence[RangeFacts], candidate: Sequence[RangeFacts]) -> dict[str, Any]:
    """Return the ratio of the median instances with its 95 % interval, over all traces of each side together."""
    old, new = ([wall for facts in side for wall in facts.walls_ns if wall > 0] for side in (baseline, candidate))
    if min(len(old), len(new)) < LEAST_INSTANCES:
        return {}
    ratio, low, high = ratio_of_medians(old, new)
    assert low is not None
    assert high is not None
    return {"wall_ratio": ratio, "wall_ratio_low": low, "wall_ratio_high": high}


def _median_trace(traces: Sequence[_Counted]) -> _Counted | None:
    """Return the trace whose wall time (or else busy time) is the lower median.

    Its parts add up, as those of an average would not.
    """
    if not traces:
        return None
    ordered = sorted(traces, key=lambda trace: trace.of_call("wall") or trace.of_call("busy") or 0)
    return ordered[(len(ordered) - 1) // 2]


def _metric(name: str, old: Sequence[_Counted], new: Sequence[_Counted]) -> MetricChange:
    before, after = (tuple(counted.of_call(name) for counted in side) for side in (old, new))
    error = 0.0
    if name == "dram":
        worst = (
            max((counted.facts.dram_error_bytes / counted.calls for counted in side), default=0.0)
            for side in (old, new)
        )
        error = sum(worst)
    middle = middle_time if METRICS[name].unit == "ns" else _median
    change = MetricChange(name, before, after, middle(before), middle(after), error)
    return replace(change, is_within_error=error > 0 and change.change is not None and abs(change.change) <= error)


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median, or None where any value is unknown: the median of the others would describe other traces."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def middle_time(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of a time (ns) over traces, which is what is tested; None where any is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    is_one = len(known) == 1 or not any(known)
    return known[0] if is_one else statistics.geometric_mean([max(1.0, value) for value in known])


def _part_changes(old: _Counted | None, new: _Counted | None) -> tuple[dict[str, int] | None, bool]:
    """Return the change of each part (ns), and whether it is per call."""
    if old is None or new is None or old.facts.parts is None or new.facts.parts is None:
        return None, False
    per_call = old.calls != new.calls or bool(old.facts.walls_ns[1:] or new.facts.walls_ns[1:])
    before, after = (
        _share(facts.parts or {}, calls if per_call else 1)
        for facts, calls in ((old.facts, old.calls), (new.facts, new.calls))
    )
    return {part: after[part] - before[part] for part in PARTS}, per_call


def _share(parts: Mapping[str, int], calls: int) -> dict[str, int]:
    """Return the parts per call in whole ns. Their running sums are rounded, so that the parts still add up."""
    shares, total, given = {}, 0, 0
    for part in PARTS:
        total += parts[part]
        reached = round(total / calls) if calls > 1 else total
        shares[part], given = reached - given, reached
    return shares


def _kernels(old: _Counted, new: _Counted) -> tuple[KernelChange, ...]:
    """Return every kernel of either side, the largest change of time first."""
    before, after = old.facts.kernels, new.facts.kernels
    pairs: list[tuple[str | None, str | None, str]] = [(name, name, "both") for name in before if name in after]
    vanished = {name: facts for name, facts in before.items() if name not in after}
    appeared = {name: facts for name, facts in after.items() if name not in before}
    renamed = pair_kernels(vanished, appeared)
    pairs += [(old_name, new_name, "renamed") for old_name, new_name in renamed]
    of_old, of_new = ({pair[side] for pair in renamed} for side in (0, 1))
    pairs += [(name, None, "vanished") for name in vanished if name not in of_old]
    pairs += [(None, name, "appeared") for name in appeared if name not in of_new]
    changes = [_kernel(how, old, old_name, new, new_name) for old_name, new_name, how in pairs]
    total_ns = sum(change.baseline_ns for change in changes)
    changes = [replace(change, is_notable=_is_notable(change, total_ns)) for change in changes]
    return tuple(sorted(changes, key=lambda change: -abs(change.candidate_ns - change.baseline_ns)))


def _is_notable(change: KernelChange, total_ns: float) -> bool:
    """Return whether a kernel's change is worth showing.

    total_ns: the kernel time of the range in the baseline.
    """
    if change.how != "both" or change.baseline_instances != change.candidate_instances:
        return True
    moved = abs(change.candidate_ns - change.baseline_ns)
    return moved > NOTABLE_PCT / 100 * change.baseline_ns and moved > NOTABLE_SHARE_PCT / 100 * total_ns


def _kernel(how: str, old: _Counted, old_name: str | None, new: _Counted, new_name: str | None) -> KernelChange:
    before = None if old_name is None else old.facts.kernels[old_name]
    after = None if new_name is None else new.facts.kernels[new_name]
    name, facts = (old_name, before) if before is not None else (new_name, after)
    return KernelChange(
        how,
        kernel_role(name, facts) if name is not None and facts is not None else "",
        old_name,
        new_name,
        before.instances / old.calls if before else 0.0,
        after.instances / new.calls if after else 0.0,
        before.total_ns / old.calls if before else 0.0,
        after.total_ns / new.calls if after else 0.0,
        before.label or None if before else None,
        after.label or None if after else None,
    )


_BACKWARD = re.compile(r"bwd|backward|dgrad|wgrad|bprop|grad", re.IGNORECASE)


def kernel_role(name: str, facts: KernelFacts) -> str:
    """Return the role of a kernel: its category, and whether it belongs to a backward pass."""
    return f"{facts.category} backward" if _BACKWARD.search(name[:4096]) else facts.category


def pair_kernels(vanished: Mapping[str, KernelFacts], appeared: Mapping[str, KernelFacts]) -> list[tuple[str, str]]:
    """Return pairs (name in the baseline, name in the candidate) of kernels with the same role.

    A kernel is in one pair at most. Where several are possible, the most similar short names are paired first, then the
    kernels that take the most time.
    """
    candidates = []
    longest = [(new, facts, kernel_role(new, facts)) for new, facts in _longest(appeared)]
    for old, old_facts in _longest(vanished):
        role = kernel_role(old, old_facts)
        for new, new_facts, new_role in longest:
            if new_role != role:
                continue
            alike = _likeness(old_facts.short_name, new_facts.short_name)
            if not role.startswith("other") or alike >= _ALIKE:
                candidates.append((-alike, -min(old_facts.total_ns, new_facts.total_ns), old, new))
    pairs: list[tuple[str, str]] = []
    used_old: set[str] = set()
    used_new: set[str] = set()
    for _, _, old, new in sorted(candidates):
        if old not in used_old and new not in used_new:
            used_old.add(old)
            used_new.add(new)
            pairs.append((old, new))
    return pairs


def _longest(kernels: Mapping[str, KernelFacts]) -> list[tuple[str, KernelFacts]]:
    """Return the kernels that take the most time. Comparing thousands of names with each other takes too long."""
    return sorted(kernels.items(), key=lambda item: -item[1].total_ns)[:_MOST]


def _likeness(one: str, other: str) -> float:
    """Return how similar two names are, from 0 to 1."""
    return SequenceMatcher(None, one[:_NAME], other[:_NAME], autojunk=False).ratio()
