"""Make answers to an agent: below a maximum size, about a range that it names, and of a comparison."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from nsysprof.errors import UsageError
from nsysprof.files.plain_file import json_value
from nsysprof.report.pages.compare import open_questions, step_line, verdict_line, wall_line
from nsysprof.results.analysis import Analysis
from nsysprof.results.comparison import KernelChange, RangeChange, VersionComparison

# An answer has at most this many characters as it is sent, about a third of what agents commonly accept.
MOST_CHARACTERS = 30_000
MOST_ROWS = 200
# The longest name that is shown whole, and the longest sentence.
MOST_NAME, _MOST_SENTENCE = 300, 1_500
# Sentences of our own. All other texts are names of the program's.
_SENTENCES = ("text", "next_step", "said", "unknown_because", "reason", "how_to_see_more")
# How many rows of each list are kept, until the answer is small enough.
_FEWER = (MOST_ROWS, 150, 100, 70, 50, 40, 30, 20, 15, 10, 7, 5, 3, 2, 1)
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def bound(answer: dict[str, Any], how_to_see_more: str = "") -> dict[str, Any]:
    """Return the answer, in which every list keeps as many of its first entries as fit.

    `left_out` then says how many entries of each list are missing, by its name.

    how_to_see_more: what an agent does to get the rest.
    """
    shown: dict[str, Any] = {}
    for most in _FEWER:
        missing: dict[str, int] = {}
        shown = _cut(answer, most, "", missing)
        if missing:
            shown |= {"left_out": dict(list(missing.items())[:MOST_ROWS]), "how_to_see_more": how_to_see_more}
        if _size(shown) <= MOST_CHARACTERS:
            break
    return shown


def page(name: str, rows: Callable[[int, int], Sequence[Any]], total: int, offset: int, limit: int) -> dict[str, Any]:
    """Return the rows from an offset on, how many there are in all, and where the next ones begin (None: nowhere).

    rows: returns the rows from a number to before another.
    """
    first = min(max(0, offset), total)
    wanted = min(max(1, limit), MOST_ROWS)
    found = [_cut_value(row, MOST_ROWS, "", {}) for row in rows(first, min(first + wanted, total))]
    while True:
        following = first + len(found)
        answer = {name: found, "total": total, "next_offset": following if following < total else None}
        if len(found) <= 1 or _size(answer) <= MOST_CHARACTERS:
            return answer
        found = found[: max(1, len(found) * 4 // 5)]


def shorten(text: str, most: int = MOST_NAME) -> str:
    """Return a text, cut where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}{_ELLIPSIS}"


def _size(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, indent=2, default=str))


def _cut(answer: dict[Any, Any], most: int, path: str, missing: dict[str, int]) -> dict[str, Any]:
    kept = list(answer.items())[: max(most, 20)]
    if len(kept) < len(answer):
        missing[path or "answer"] = missing.get(path or "answer", 0) + len(answer) - len(kept)
    return {shorten(str(key)): _cut_value(value, most, _join(path, str(key)), missing) for key, value in kept}


def _cut_value(value: Any, most: int, path: str, missing: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return _cut(value, most, path, missing)
    if isinstance(value, list | tuple):
        if len(value) > most:
            missing[path] = missing.get(path, 0) + len(value) - most
        return [_cut_value(each, most, path, missing) for each in value[:most]]
    if isinstance(value, str):
        is_sentence = path.rpartition(".")[2] in _SENTENCES
        return shorten(value, _MOST_SENTENCE if is_sentence else MOST_NAME)
    return value


def _join(path: str, key: str) -> str:
    return shorten(f"{path}.{key}" if path else key)


_MOST_NEAR, _MOST_SHOWN = 5, 80
# The columns of range_kernels.csv that tell kernels apart, and those that can be added up over ranges.
_KERNEL, _SUMS = ["name", "short_name", "category", "label"], ["instances", "total_ns"]


def kernels_of_range(analysis: Analysis, name: str) -> pd.DataFrame:
    """Return the kernels of a range, or of all ranges of a family (step#) together, with times in ns.

    Raises UsageError for a range that the trace does not have.
    """
    names = _names(analysis, name)
    table = analysis.range_kernels
    table = table[table["range"].isin(names).to_numpy(dtype=bool)]
    if len(names) == 1:
        return table
    groups = table.groupby(_KERNEL, dropna=False, sort=False)
    joint = groups[_SUMS].sum().join(groups["min_ns"].min()).join(groups["max_ns"].max()).reset_index()
    return joint.assign(avg_ns=joint["total_ns"] / joint["instances"])


def instances_of_range(analysis: Analysis, name: str) -> pd.DataFrame:
    """Return the instances of a range, or of all ranges of a family (step#) by their start.

    Raises UsageError for a range that the trace does not have.
    """
    names = _names(analysis, name)
    table = analysis.range_instances
    table = table[table["range"].isin(names).to_numpy(dtype=bool)]
    return table if len(names) == 1 else table.sort_values("start_ns", kind="stable")


def refuse_unknown_range(name: str, known: Sequence[str]) -> None:
    """Raise UsageError for a range that is not among those of a trace, with the names that come near.

    known: the names of the ranges, those with the most time first.
    """
    if name in known:
        return
    if not known:
        raise UsageError("The trace has no ranges.", "Ask kernels without range_name for those of the whole trace.")
    folded = {each.casefold(): each for each in reversed(known)}
    # A path of ranges ends with the name of its last one.
    wanted = name.rsplit(" > ", maxsplit=1)[-1].casefold()[:500]
    near = [folded[each] for each in difflib.get_close_matches(wanted, folded, _MOST_NEAR)]
    near += [each for each in known if wanted and (wanted in each.casefold() or each.casefold() in wanted)]
    near = list(dict.fromkeys(near))[:_MOST_NEAR]
    what = "Near names" if near else "Those with the most time"
    shown = ", ".join(repr(shorten(each, _MOST_SHOWN)) for each in near or known[:_MOST_NEAR])
    raise UsageError(
        f"No range is called {shorten(name, _MOST_SHOWN)!r}.", f"{what}: {shown}. summarize lists the largest ones."
    )


def _names(analysis: Analysis, name: str) -> list[str]:
    """Return the ranges with this name, or else those of the family with this name."""
    ranges = analysis.ranges.sort_values("wall_ns", ascending=False, kind="stable")
    own = dict.fromkeys(str(each) for each in ranges["range"])
    if name in own:
        return [name]
    families = ranges["family"].astype(object).where(ranges["family"].notna(), ranges["range"])
    refuse_unknown_range(name, list(dict.fromkeys((*(str(each) for each in families), *own))))
    return [str(each) for each in ranges.loc[(families == name).to_numpy(dtype=bool), "range"].unique()]


# How many rows of each list the overview has.
_OVERVIEW = {"ranges": 12, "kernels": 15, "latency": 15, "memory": 10, "findings": 30}
_HOW_TO_SEE_MORE = (
    "Ask compare again with part = ranges, kernels, latency, findings or memory, and offset. With range_name, kernels "
    "are of that range."
)


def overview_answer(found: VersionComparison) -> dict[str, Any]:
    """Return the verdict in sentences, how the step changed, and the first rows of each part."""
    rows = {name: make(found, "") for name, make in _PARTS.items()}
    shown = {name: each[: _OVERVIEW[name]] for name, each in rows.items()}
    missing = {name: len(each) - len(shown[name]) for name, each in rows.items() if len(each) > len(shown[name])}
    first = _kernel_range(found, "")
    step = found.step
    facts: dict[str, Any] = {
        "said": [line for line in (step_line(found), wall_line(found), verdict_line(found)) if line],
        "baseline": {"inputs": found.baseline.inputs, "kinds": found.baseline.kinds},
        "candidate": {"inputs": found.candidate.inputs, "kinds": found.candidate.kinds},
        "differences": json_value(found.differences),
        "step": None
        if step is None
        else {
            "per": step.per, "baseline_ns": step.baseline_ns, "candidate_ns": step.candidate_ns,
            "change_pct": step.change_pct, "verdict": None if step.verdict is None else step.verdict.verdict,
        },
        "peak_bytes": None
        if found.memory is None
        else {"baseline": found.memory.baseline_peak_bytes, "candidate": found.memory.candidate_peak_bytes},
        **shown,
        "kernels_of": None if first is None else first.label,
        "undecided": list(open_questions(found)),
        "notes": [{"text": note.text, "next_step": note.next_step} for note in found.notes],
    }  # fmt: skip
    answer = bound(json_value(facts), _HOW_TO_SEE_MORE)
    lost = answer.get("left_out", {})
    left_out = {name: missing.get(name, 0) + lost.get(name, 0) for name in {**missing, **lost}}
    return {**answer, "left_out": left_out, "how_to_see_more": _HOW_TO_SEE_MORE} if left_out else answer


def part_answer(found: VersionComparison, part: str, range_name: str, offset: int, limit: int) -> dict[str, Any]:
    """Return rows of one part, most important first. Raises UsageError for one that does not exist."""
    if part not in _PARTS:
        raise UsageError(f"{part[:100]!r} is not a part of a comparison.", f"Known: {', '.join(_PARTS)}.")
    rows = json_value(_PARTS[part](found, range_name))
    answer = page(part, lambda first, last: rows[first:last], len(rows), offset, limit)
    if part == "kernels":
        of = _kernel_range(found, range_name)
        answer["kernels_of"] = None if of is None else of.label
    return answer


def _ranges(found: VersionComparison, _range_name: str) -> list[dict[str, Any]]:
    """Return the ranges as compare orders them: those of the program with the most time first."""
    return [
        {
            "range": change.range,
            "domain": change.domain,
            "how": change.how,
            "baseline_calls": change.baseline_calls,
            "candidate_calls": change.candidate_calls,
            # What did not change is left out, and so is what neither side knows.
            "changed": {
                name: {"baseline": metric.baseline, "candidate": metric.candidate}
                for name, metric in change.metrics.items()
                if metric.baseline != metric.candidate
            },
            "wall_parts_ns": {name: value for name, value in (change.parts or {}).items() if value},
            "wall_ratio": change.wall_ratio,
            "wall_verdict": None if change.wall_verdict is None else change.wall_verdict.verdict,
            "baseline_backend": change.baseline_family,
            "candidate_backend": change.candidate_family,
        }
        for change in found.ranges
    ]


def _kernels(found: VersionComparison, range_name: str) -> list[dict[str, Any]]:
    """Return the kernels of one range, those whose time changed most first."""
    change = _kernel_range(found, range_name)
    if change is None:
        return []

    def moved(kernel: KernelChange) -> float:
        return -abs(kernel.candidate_ns - kernel.baseline_ns)

    return [
        {
            "how": kernel.how,
            "role": kernel.role,
            "baseline": kernel.baseline_label or kernel.baseline_name,
            "candidate": kernel.candidate_label or kernel.candidate_name,
            "baseline_instances": kernel.baseline_instances,
            "candidate_instances": kernel.candidate_instances,
            "baseline_ns": kernel.baseline_ns,
            "candidate_ns": kernel.candidate_ns,
        }
        for kernel in sorted(change.kernels, key=moved)
    ]


def _kernel_range(found: VersionComparison, range_name: str) -> RangeChange | None:
    """Return the range with this name, or the first that has kernels. Raises UsageError for an unknown one."""
    if not range_name:
        return next((change for change in found.ranges if change.kernels), None)

    names = list(dict.fromkeys(change.range for change in found.ranges))
    refuse_unknown_range(range_name, names)
    return next(change for change in found.ranges if change.range == range_name)


def _latency(found: VersionComparison, _range_name: str) -> list[dict[str, Any]]:
    """Return the cases, those that differ first."""
    order = ["SLOWER", "INCONCLUSIVE", "FASTER", "SAME", ""]
    rows = [
        {
            "case": change.case,
            "verdict": "" if change.verdict is None else change.verdict.value,
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "baseline_ns": change.baseline.median_ns,
            "candidate_ns": change.candidate.median_ns,
            "reason": change.reason,
        }
        for change in found.latency.changes
    ]
    return sorted(rows, key=lambda row: (order.index(str(row["verdict"])), -(row["ratio"] or 1.0)))


def _findings(found: VersionComparison, _range_name: str) -> list[Any]:
    return list(found.findings)


def _memory(found: VersionComparison, _range_name: str) -> list[Any]:
    return [] if found.memory is None else list(found.memory.changes)


_PARTS: dict[str, Callable[[VersionComparison, str], list[Any]]] = {
    "findings": _findings, "ranges": _ranges, "kernels": _kernels, "latency": _latency, "memory": _memory,
}  # fmt: skip
