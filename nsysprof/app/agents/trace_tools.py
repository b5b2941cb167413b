"""Answer an agent's questions about the traces of one folder, in bounded answers and without writing anything."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.app.analyze import resolve
from nsysprof.app.compare import compare
from nsysprof.app.inputs.compare_inputs import is_input, is_trace
from nsysprof.app.inputs.reading_requests import Change, CompareRequest, WhatIfRequest
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.app.viewing.view_inputs import are_ranks
from nsysprof.app.whatif import what_if
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import json_value, scratch_folder
from nsysprof.ranks.identity import read_manifest_ranks
from nsysprof.report.pages.compare import open_questions, step_line, verdict_line, wall_line
from nsysprof.report.write import findings_json, summary_json
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.csv_table import to_records
from nsysprof.results.comparison import KernelChange, RangeChange, VersionComparison
from nsysprof.results.power_samples import power_beside
from nsysprof.trace.inputs.bundle_file import is_bundle
from nsysprof.trace.inputs.resolve_input import own_trace

_MOST_RANGES, _MOST_OWNERS = 40, 20
# How many analyses are kept for the next question.
_MOST_KEPT = 4


class TraceTools:
    """The traces in one folder. A trace has the name that list_traces gives it, and no other file is ever read."""

    def __init__(self, folder: Path, nsys: Path | None = None) -> None:
        self._folder, self._nsys = folder.resolve(), nsys
        self._kept: OrderedDict[tuple[str, int, int], Analysis] = OrderedDict()
        # The last comparison, for the next question about it.
        self._compared: tuple[object, VersionComparison] | None = None

    def list_traces(self, offset: int = 0, limit: int = 100) -> dict[str, Any]:
        """List the traces, reports and captures in the folder by name, with their sizes in bytes.

        kind: trace; ranks, a folder of the traces of one job (each is listed too), for whatif with changes of a job; or
        latency, measured without a trace, for compare.
        """
        found = [
            {"trace": name, "kind": each.kind.value, "bytes": each.size()} for name, each in self._traces().items()
        ]
        return page("traces", lambda first, last: found[first:last], len(found), offset, limit)

    def summarize(self, trace: str) -> dict[str, Any]:
        """Return totals, devices, notes, the tree of ranges with the most time, and who owned the memory at its peak.

        Times are ns.
        """
        analysis = self._analysis(trace)
        tree = analysis.range_tree
        ranges = to_records(tree.iloc[:_MOST_RANGES])
        owners = None if analysis.memory_owners is None else to_records(analysis.memory_owners.iloc[:_MOST_OWNERS])
        answer = {**summary_json(analysis), "range_tree": ranges, "range_tree_rows": len(tree), "memory_owners": owners}
        return bound(answer, "Ask instances or kernels about a range.")

    def findings(self, trace: str) -> dict[str, Any]:
        """Return what to change, the largest saving first, and why the GPU was idle. Savings are ns per step."""
        found = findings_json(self._analysis(trace))
        if found["idle"] is not None:
            found["idle"]["causes"] = [row for row in found["idle"]["causes"] if not row["range"]]
        return bound(found, "nsysprof analyze writes all of them.")

    def kernels(self, trace: str, range_name: str = "", offset: int = 0, limit: int = 20) -> dict[str, Any]:
        """Return the kernels of the trace, or of one range, the longest total time (ns) first.

        range_name: a range, or step# for step0, step1 and so on together.
        """
        analysis = self._analysis(trace)
        table = kernels_of_range(analysis, range_name) if range_name else analysis.kernels
        return _page_of("kernels", table.sort_values("total_ns", ascending=False, kind="stable"), offset, limit)

    def instances(self, trace: str, range_name: str, offset: int = 0, limit: int = 20) -> dict[str, Any]:
        """Return the instances of a range in order, with wall, kernel and idle times (ns).

        range_name: a range, or step# for step0, step1 and so on together.
        """
        return _page_of("instances", instances_of_range(self._analysis(trace), range_name), offset, limit)

    def compare(
        self,
        baseline: str,
        candidate: str,
        ignore_conditions: bool = False,
        part: str = "",
        range_name: str = "",
        offset: int = 0,
        limit: int = 20,
    ) -> dict[str, Any]:
        """Compare two traces: the step, ranges, kernels, memory, and which findings appeared or vanished.

        Without part, the answer has the verdict and the first rows of each part, most important first; left_out says
        how many more there are. part: ranges, kernels, latency, findings or memory, to see its rows from offset on.
        range_name: the range whose kernels to show.
        """
        if part or range_name:
            found = self._comparison(baseline, candidate, ignore_conditions)
            return part_answer(found, part or "kernels", range_name, offset, limit)
        return overview_answer(self._comparison(baseline, candidate, ignore_conditions))

    def whatif(
        self,
        trace: str,
        changes: list[str] | None = None,
        no_sync: str = "",
        kernels: dict[str, float] | None = None,
        launched_in: dict[str, float] | None = None,
        policy: str = "",
        like_peers: int | None = None,
        bucket_mb: float | None = None,
        link_scale: float | None = None,
        ranks: int | None = None,
    ) -> dict[str, Any]:
        """Replay the steps with changes, and return how long a step would take (ns).

        changes: any of pin-copies, no-alloc, no-host-work, graph-launches, fuse-attention, fuse-optimizer and
        no-stream-waits. no_sync: the range in which to remove waits for the GPU, or "all". kernels: a factor for the
        time of kernels whose name has a text. launched_in: the same for what ranges with a text in their names launch.
        policy: a policy.json of nsysprof tune, by its path in the folder; attention runs on the backends it measured to
        be faster. Of a folder of ranks, whose path is then the trace ("." for the whole one): like_peers, a rank that
        is to be like the typical other one, with no other change; no_sync "all", gradients are reduced only before the
        optimizer's step; bucket_mb, up to this size (MiB) neighbouring messages are sent together; link_scale, how many
        times as fast the link between ranks is; ranks, a projection of the same work on each of so many ranks.
        """
        names = [change.removeprefix("--") for change in changes or ()]
        unknown = [name for name in names if name not in list(Change)]
        if unknown:
            raise UsageError(f"{unknown[0][:100]!r} is not a change.", f"Known: {', '.join(Change)}.")
        of_job = (like_peers, bucket_mb, link_scale, ranks)
        is_job = any(value is not None for value in of_job) or (no_sync != "" and self._is_of_ranks(trace))
        request = WhatIfRequest(
            self._folder_of_ranks(trace) if is_job else self._trace(trace),
            **{name.replace("-", "_"): True for name in names},
            no_sync=(no_sync,) if no_sync else (),
            kernels=tuple((kernels or {}).items()),
            ranges=tuple((launched_in or {}).items()),
            policy=self._inside(policy) if policy else None,
            like_peers=like_peers,
            bucket_mb=bucket_mb,
            link_scale=link_scale,
            ranks_count=ranks,
            nsys=self._nsys,
        )
        return bound(what_if(request).found.to_json())

    def _is_of_ranks(self, name: str) -> bool:
        """Return whether a name belongs to a folder of ranks, and not to one of the listed traces."""
        listed = self._traces().get(name)
        if listed is not None:
            return listed.kind is TraceKind.RANKS
        with contextlib.suppress(UsageError):
            return self._inside(name).is_dir()
        return False

    def _folder_of_ranks(self, name: str) -> Path:
        """Return a folder by its path below the served one, all of whose traces lie in it too."""
        path = self._inside(name)
        if not path.is_dir():
            raise UsageError(f"{name[:200]!r} is not a folder.", "Name the folder that holds the traces of the ranks.")
        if not stays_inside(path, self._folder):
            raise UsageError(f"{name[:200]!r} has links to what lies outside of it.", "Serve a folder without them.")
        return path

    def _inside(self, name: str) -> Path:
        """Return what has this path below the folder, which no link leads out of."""
        try:
            path = Path(os.path.realpath(self._folder / name))
            is_inside = path.is_relative_to(self._folder) and path.exists()
        except (OSError, ValueError):
            is_inside = False
        if not is_inside:
            raise UsageError(f"{name[:200]!r} is not in this folder.", "Give its path below the folder.")
        return path

    def _traces(self) -> dict[str, ListedTrace]:
        return list_traces(self._folder)

    def _listed(self, name: str) -> ListedTrace:
        found = self._traces().get(name)
        if found is None:
            raise UsageError(f"{name[:200]!r} is not a trace of this folder.", "list_traces names them all.")
        return found

    def _trace(self, name: str) -> Path:
        """Return a trace by its name. Raises UsageError for an entry of the list that has none, or several."""
        listed = self._listed(name)
        if listed.kind is TraceKind.LATENCY:
            raise UsageError(f"{name} has latencies and no trace.", "Only compare can read it.")
        if listed.kind is TraceKind.RANKS:
            raise UsageError(
                f"{name} has the traces of several ranks.",
                "list_traces lists each of them; of the folder, whatif takes changes of a job.",
            )
        return listed.path

    def _comparison(self, baseline: str, candidate: str, ignore_conditions: bool) -> VersionComparison:
        sides = [self._listed(baseline).path, self._listed(candidate).path]
        key = (
            *((each, status.st_mtime_ns, status.st_size) for each in sides for status in [each.stat()]),
            ignore_conditions,
        )
        if self._compared is not None and self._compared[0] == key:
            return self._compared[1]
        request = CompareRequest((sides[0],), (sides[1],), ignore_conditions=ignore_conditions, nsys=self._nsys)
        found = compare(request).comparison
        self._compared = key, found
        return found

    def _analysis(self, trace: str) -> Analysis:
        path = self._trace(trace)
        status = path.stat()
        key = (trace, status.st_mtime_ns, status.st_size)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        with scratch_folder() as scratch:
            plain = resolve(path, self._nsys, scratch, lambda _text: None)
            analysis = assemble(path, plain).analysis
        self._kept[key] = analysis
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return analysis


def _page_of(name: str, table: pd.DataFrame, offset: int, limit: int) -> dict[str, Any]:
    """Return some rows of a table, how many there are in all, and where the next ones begin."""
    return page(name, lambda first, last: to_records(table.iloc[first:last]), len(table), offset, limit)


_MOST_TRACES, _MOST_DEPTH = 10_000, 4
# What a capture or a bench without a trace has for a comparison.
_LATENCIES = ("samples.json", "samples.json.xz", "results.csv")


class TraceKind(StrEnum):
    """What the tools can do with an entry of the list."""

    TRACE = "trace"
    # A folder with the traces of several ranks, for like_peers; each of them is listed too.
    RANKS = "ranks"
    # Measured latencies without a trace, for compare alone.
    LATENCY = "latency"


@dataclass(frozen=True)
class ListedTrace:
    """A trace of the folder, or a folder in it that stands for one."""

    path: Path
    kind: TraceKind

    def size(self) -> int:
        """Return the bytes of its files."""
        files = [self.path] if self.path.is_file() else [each for each in self.path.iterdir() if each.is_file()]
        return sum(each.stat().st_size for each in files)


def list_traces(top: Path) -> dict[str, ListedTrace]:
    """Return what a folder contains by name, which is its path below it. Links that lead out of it are left out."""
    found: dict[str, ListedTrace] = {}
    waiting = [(top, 0)]
    while waiting and len(found) < _MOST_TRACES:
        folder, depth = waiting.pop()
        for path in _visible(folder):
            if not Path(os.path.realpath(path)).is_relative_to(top):
                continue
            if path.is_dir():
                kind = _kind_of(path) if stays_inside(path, top) else None
                if kind is not None:
                    found[path.relative_to(top).as_posix()] = ListedTrace(path, kind)
                if kind in (None, TraceKind.RANKS) and depth < _MOST_DEPTH:
                    waiting.append((path, depth + 1))
            elif _is_trace_file(path) and stays_inside(path, top):
                found[path.relative_to(top).as_posix()] = ListedTrace(path, TraceKind.TRACE)
    return dict(sorted(found.items()))


def stays_inside(path: Path, top: Path) -> bool:
    """Return whether a file or folder lies in `top`, with all that is read with it, wherever its links lead.

    Whoever reads a folder follows its links, and those of the folders that they lead to: to a trace, a manifest, a
    snapshot, the traces of the ranks. A trace of a rank is read with the energy that lies beside it.

    top: without links in its own path.
    """
    waiting = [path] if path.is_dir() else [path, power_beside(path)]
    seen: set[Path] = set()
    while waiting:
        real = Path(os.path.realpath(waiting.pop()))
        if not real.is_relative_to(top):
            return False
        if real not in seen and real.is_dir():
            seen.add(real)
            with contextlib.suppress(PermissionError):  # nothing in it can be read
                waiting += real.iterdir()
    return True


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _kind_of(folder: Path) -> TraceKind | None:
    """Return what a folder is as a whole; None for one that only contains other things."""
    try:
        files = [path for path in _visible(folder) if path.is_file()]
        if own_trace(folder) is not None or any(path.suffix == ".parquet" for path in files):
            return TraceKind.TRACE
        traces = [path for path in files if _is_trace_file(path)]
        if read_manifest_ranks(folder) or are_ranks(folder, traces):
            return TraceKind.RANKS
        if is_input(folder):
            has_latency = any(path.name in _LATENCIES for path in files)
            return TraceKind.TRACE if traces else TraceKind.LATENCY if has_latency else None
    except OSError:
        pass
    return None


def _is_trace_file(path: Path) -> bool:
    return path.is_file() and (is_trace(path) or is_bundle(path))


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
