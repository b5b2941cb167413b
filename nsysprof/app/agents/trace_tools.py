"""Answer an agent's questions about the traces of one folder, in bounded answers and without writing anything."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.app.compare import CompareRequest, compare
from nsysprof.app.whatif import WhatIfRequest, what_if
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.results.analysis import Analysis

_MOST_TRACES, _MOST_ROWS, _MOST_TEXT = 500, 200, 300
_MOST_DEPTH = 4
# How many analyses are kept for the next question.
_MOST_KEPT = 4


class TraceTools:
    """The traces in one folder. A trace has the name that list_traces gives it, and no other file is ever read."""

    def __init__(self, folder: Path, nsys: Path | None = None) -> None:
        self._folder, self._nsys = folder.resolve(), nsys
        self._kept: OrderedDict[tuple[str, int, int], Analysis] = OrderedDict()

    def list_traces(self) -> dict[str, Any]:
        """List the traces, reports and captures in the folder, with their sizes in bytes."""
        found = self._traces()
        rows = [{"trace": name, "bytes": _size(path)} for name, path in sorted(found.items())]
        return _bounded("traces", rows, 0, _MOST_TRACES)

    def summarize(self, trace: str) -> dict[str, Any]:
        """Return totals, devices, notes, and the tree of ranges with the most time; times are ns."""
        from nsysprof.report.write import summary_json

        analysis = self._analysis(trace)
        ranges = _rows(analysis.range_tree, 0, 20)
        return _cut({**summary_json(analysis), "range_tree": ranges, "range_tree_rows": len(analysis.range_tree)})

    def findings(self, trace: str) -> dict[str, Any]:
        """Return what to change, the largest saving first, and why the GPU was idle. Savings are ns per step."""
        from nsysprof.report.write import findings_json

        found = findings_json(self._analysis(trace))
        if found["idle"] is not None:
            found["idle"]["causes"] = [row for row in found["idle"]["causes"] if not row["range"]]
        return _cut(found)

    def kernels(self, trace: str, range_name: str = "", offset: int = 0, limit: int = 20) -> dict[str, Any]:
        """Return the kernels of the trace, or of one range, the longest total time (ns) first."""
        analysis = self._analysis(trace)
        table = analysis.range_kernels if range_name else analysis.kernels
        if range_name:
            table = table[(table["range"] == range_name).to_numpy(dtype=bool)]
        table = table.sort_values("total_ns", ascending=False, kind="stable")
        return _bounded("kernels", table, offset, limit)

    def instances(self, trace: str, range_name: str, offset: int = 0, limit: int = 20) -> dict[str, Any]:
        """Return the instances of a range in order, with wall, kernel and idle times (ns)."""
        table = self._analysis(trace).range_instances
        return _bounded("instances", table[(table["range"] == range_name).to_numpy(dtype=bool)], offset, limit)

    def compare(self, baseline: str, candidate: str, ignore_conditions: bool = False) -> dict[str, Any]:
        """Compare two traces: ranges, kernels, copies, memory, and which findings appeared or disappeared."""
        from nsysprof.report.compare import comparison_json

        request = CompareRequest(
            (self._path(baseline),), (self._path(candidate),), ignore_conditions=ignore_conditions, nsys=self._nsys
        )
        found = dict(comparison_json(compare(request).comparison))
        for name in ("ranges", "findings", "differences"):
            found[name] = list(found[name])[:_MOST_ROWS]
        return _cut(found)

    def whatif(
        self,
        trace: str,
        changes: list[str] | None = None,
        no_sync: str = "",
        kernels: dict[str, float] | None = None,
        launched_in: dict[str, float] | None = None,
        policy: str = "",
        like_peers: int | None = None,
    ) -> dict[str, Any]:
        """Replay the steps with changes, and return how long a step would take (ns).

        changes: any of pin-copies, no-alloc, no-host-work, graph-launches, fuse-attention, fuse-optimizer and
        no-stream-waits. no_sync: the range in which to remove waits for the GPU, or "all". kernels: a factor for the
        time of kernels whose name has a text. launched_in: the same for what ranges with a text in their names launch.
        policy: a policy.json of nsysprof tune, by its path in the folder; attention runs on the backends it measured to
        be faster. like_peers: of a folder of ranks, a rank that is to be like the typical other one, with no other
        change; trace is then that folder, "." for the whole one.
        """
        from nsysprof.app.whatif import Change

        names = [change.removeprefix("--") for change in changes or ()]
        unknown = [name for name in names if name not in list(Change)]
        if unknown:
            raise UsageError(f"{unknown[0][:_MOST_TEXT]!r} is not a change.", f"Known: {', '.join(Change)}.")
        request = WhatIfRequest(
            self._path(trace) if like_peers is None else self._folder_of_ranks(trace),
            tuple(map(Change, names)),
            (no_sync,) if no_sync else (),
            tuple((kernels or {}).items()),
            self._nsys,
            ranges=tuple((launched_in or {}).items()),
            policy=self._inside(policy) if policy else None,
            like_peers=like_peers,
        )
        return _cut(what_if(request).found.to_json())

    def _folder_of_ranks(self, name: str) -> Path:
        """Return a folder by its path below the served one, all of whose traces lie in it too."""
        path = self._inside(name)
        if not path.is_dir():
            raise UsageError(f"{name[:200]!r} is not a folder.", "Name the folder that holds the traces of the ranks.")
        outside = [each for each in path.iterdir() if not each.resolve().is_relative_to(self._folder)]
        if outside:
            raise UsageError(f"{name[:200]!r} has links to what lies outside of it.", "Serve a folder without them.")
        return path

    def _inside(self, name: str) -> Path:
        """Return what has this path below the folder, which no link leads out of."""
        try:
            path = (self._folder / name).resolve()
            is_inside = path.is_relative_to(self._folder) and path.exists()
        except (OSError, ValueError):
            is_inside = False
        if not is_inside:
            raise UsageError(f"{name[:200]!r} is not in this folder.", "Give its path below the folder.")
        return path

    def _traces(self) -> dict[str, Path]:
        """Return every trace by its name, which is its path relative to the folder."""
        from nsysprof.app.inputs.compare_inputs import is_input, is_trace

        found: dict[str, Path] = {}
        waiting = [(self._folder, 0)]
        while waiting and len(found) < _MOST_TRACES:
            folder, depth = waiting.pop()
            for path in sorted(folder.iterdir()):
                inside = path.resolve().is_relative_to(self._folder) and not path.name.startswith(".")
                if not inside:
                    continue
                if path.is_dir() and is_input(path):
                    found[path.relative_to(self._folder).as_posix()] = path
                elif path.is_dir() and depth < _MOST_DEPTH:
                    waiting.append((path, depth + 1))
                elif path.is_file() and is_trace(path):
                    found[path.relative_to(self._folder).as_posix()] = path
        return found

    def _path(self, trace: str) -> Path:
        path = self._traces().get(trace)
        if path is None:
            raise UsageError(f"{trace[:200]!r} is not a trace of this folder.", "list_traces names them all.")
        return path

    def _analysis(self, trace: str) -> Analysis:
        from nsysprof.app.trace_analysis.analyze_trace import analyze_trace, resolve
        from nsysprof.app.trace_analysis.join_attention import join_attention
        from nsysprof.app.trace_analysis.join_memory import join_memory
        from nsysprof.app.trace_analysis.read_stacks import read_stacks

        path = self._path(trace)
        status = path.stat()
        key = (trace, status.st_mtime_ns, status.st_size)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
            plain = resolve(path, self._nsys, Path(scratch), lambda _text: None)
            analysis = analyze_trace(plain, stacks=read_stacks(path, plain))
            analysis = join_attention(join_memory(analysis, path, plain), path)
        self._kept[key] = analysis
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return analysis


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [each for each in path.iterdir() if each.is_file()]
    return sum(each.stat().st_size for each in files)


def _rows(table: pd.DataFrame, offset: int, limit: int) -> list[dict[str, Any]]:
    from nsysprof.results.table_records import to_records

    return list(to_records(table.iloc[max(0, offset) : max(0, offset) + min(max(1, limit), _MOST_ROWS)]))


def _bounded(name: str, table: pd.DataFrame | list[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """Return some rows, how many rows there are in all, and the offset of the next rows if there are more."""
    rows = table[offset : offset + limit] if isinstance(table, list) else _rows(table, offset, limit)
    following = max(0, offset) + len(rows)
    return _cut({name: rows, "total": len(table), "next_offset": following if following < len(table) else None})


def _cut(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with its lists and texts cut to a maximum size."""
    return {str(key)[:_MOST_TEXT]: _cut_value(value) for key, value in answer.items()}


def _cut_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _cut(value)
    if isinstance(value, list | tuple):
        return [_cut_value(each) for each in value[:_MOST_TRACES]]
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        return f"{value[: _MOST_TEXT - 1]}\N{HORIZONTAL ELLIPSIS}"
    return value
