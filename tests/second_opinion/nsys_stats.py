"""Compare an analysis with nsys stats, to the last digit that it prints, and explain each difference.

An explanation is a rule of nsys that is computed here a second time: it holds only where it gives the very number that
nsys printed.
"""

from __future__ import annotations

import csv
import re
import shutil
import sqlite3
import subprocess
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests.second_opinion.compared import KEYS, Difference, read_table
from tests.second_opinion.trace_rows import ADDED, OPERATORS, PID, Call, Enclosed, TraceRows, Work, without_numbers

Row = dict[str, Any]
Key = tuple[str, ...]
Explain = Callable[[str, float], str | None]

STATS = {
    "Avg (ns)": "avg_ns", "Med (ns)": "med_ns", "Min (ns)": "min_ns", "Max (ns)": "max_ns", "StdDev (ns)": "stddev_ns",
}  # fmt: skip
# What older versions call a report.
OLD_NAMES = {
    "cuda_gpu_kern_sum": "gpukernsum", "cuda_api_sum": "cudaapisum", "cuda_gpu_mem_time_sum": "gpumemtimesum",
    "cuda_gpu_mem_size_sum": "gpumemsizesum", "nvtx_pushpop_sum": "nvtxppsum", "nvtx_startend_sum": "nvtxsesum",
    "nvtx_gpu_proj_sum": "", "nvtx_kern_sum": "nvtxkernsum",
}  # fmt: skip
BACKTRACES = "nsys counts the rows that repeat a call for its backtrace (event class 67) as calls"
THREADS = "nsys projects the work of the range's own thread; nsysprof's start/end ranges hold all work of their process"
GRAPHS = "nsys stats knows nothing of graph replays recorded as wholes"
IDLE = "nsys counts only the instances of a range that launched work; ours holds all of them"
PER_ROW = "nsys adds a kernel's time once for each enclosing instance of the name and each row of its call"
LOST = "nsys has no row for ranges whose work is unknown"
EXPLANATIONS = (BACKTRACES, THREADS, GRAPHS, IDLE, PER_ROW, LOST)


@dataclass
class StatsResult:
    """What became of one nsys and one trace."""

    cells: int = 0
    problem: str = ""
    differences: list[Difference] = field(default_factory=list)


def has_added_ranges(trace: Path) -> bool:
    """Return whether a capture added ranges to the program's own: of operators, modules or collections of garbage."""
    with closing(sqlite3.connect(f"file:{trace}?mode=ro", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        places = [place for place in (("NVTX_EVENTS", "text"), ("StringIds", "value")) if place[0] in tables]
        return any(
            database.execute(f"SELECT 1 FROM {table} WHERE {column} LIKE ? || '%'", (start,)).fetchone()
            for table, column in places
            for start in (OPERATORS, *ADDED)
        )


def compare_stats(nsys: Path, trace: Path, written: dict[str, bytes], folder: Path) -> StatsResult:
    """Run nsys stats on a copy of `trace`, beside which it writes, and hold its tables against the files of ours."""
    result = StatsResult()
    wanted = {old if old in offered(nsys) else new: new for new, old in OLD_NAMES.items()}
    wanted = {name: new for name, new in wanted.items() if name in offered(nsys)}
    if has_added_ranges(trace):  # nsys has rows for them
        wanted = {name: new for name, new in wanted.items() if not new.startswith("nvtx")}
    copy = folder / f"copy-{trace.name}"
    shutil.copyfile(trace, copy)
    stem = folder / f"stats-{trace.stem}"
    argv = [nsys, "stats", "-q", "-r", ",".join(wanted), "-f", "csv", "-o", stem, "--force-overwrite=true", copy]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    tables = {new: _read_csv(Path(f"{stem}_{name}.csv")) for name, new in wanted.items()}
    if done.returncode != 0 or not any(tables.values()):
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        result.problem = f"nsys stats printed nothing ({done.returncode}): {' '.join(last)[:120]}"
        return result
    ours = {name: read_table(written[name], keys) for name, keys in KEYS.items()}
    rules = NsysRules(trace)
    for report, rows in tables.items():
        COMPARE[report](Side(report, rows, result, rules), ours)
    for path in (*folder.glob(f"stats-{trace.stem}_*"), copy):
        path.unlink()
    return result


def version_of(nsys: Path) -> str:
    """Return the version that nsys prints, as 2024.2.3."""
    text = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    found = re.search(r"(\d+\.\d+\.\d+)", text)
    return found.group(1) if found else text


@cache
def offered(nsys: Path) -> frozenset[str]:
    """Return the names of the reports of this nsys."""
    text = subprocess.run([nsys, "stats", "--help-reports"], capture_output=True, text=True, check=False).stdout
    return frozenset(re.findall(r"^\s+(\w+)(?:\[\S*)? -- ", text, re.MULTILINE))


def _read_csv(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@dataclass
class Side:
    """A report of nsys, where its differences go, and nsys' rules on this trace."""

    report: str
    rows: list[Row]
    result: StatsResult
    rules: NsysRules

    def cells(
        self, row: str, ours: Row, theirs: Row, columns: dict[str, str], *,
        scale: float = 1, explain: Explain = lambda _c, _v: None,
    ) -> None:  # fmt: skip
        """Compare cells, ours rounded to the digits that nsys prints."""
        for theirs_name, name in columns.items():
            printed = theirs.get(theirs_name, "")
            if printed == "":
                continue
            self.result.cells += 1
            value, mine = float(printed), ours[name]
            if mine is None or as_printed(mine / scale, printed) != value:
                shown = None if mine is None else mine / scale
                self.say(row, theirs_name, shown, value, explain(theirs_name, value))

    def say(self, row: str, column: str, ours: Any, theirs: Any, explanation: str | None) -> None:
        self.result.differences.append(Difference(self.report, row, column, ours, theirs, explanation))

    def same_rows(self, ours: set[Any], theirs: set[Any], explain: Callable[[Any], str | None]) -> None:
        for key in sorted(ours ^ theirs, key=str):
            here = key in ours
            self.say(str(key), "(row)", 1.0 if here else None, None if here else 1.0, explain(key))


def as_printed(value: float, printed: str) -> float:
    """Return the value with as many decimals as `printed` has, as SQLite rounds: a half goes up."""
    digits = Decimal(1).scaleb(-len(printed.partition(".")[2]))
    return float(Decimal(repr(value)).quantize(digits, ROUND_HALF_UP))


def _kernels(side: Side, tables: dict[str, Any]) -> None:
    ours = {key[0]: row for key, row in tables["kernels.csv"].items() if row["category"] != "graph"}
    theirs = one_row_each(side.rows, lambda row: row["Name"], ("Instances", "Total Time (ns)"))
    side.same_rows(set(ours), set(theirs), lambda _key: None)
    alone = sum(row["total_ns"] for row in ours.values())
    for name in sorted(ours.keys() & theirs.keys()):
        share = 100 * ours[name]["total_ns"] / alone if alone else 0.0
        side.cells(
            name, ours[name], theirs[name],
            {"Instances": "instances", "Total Time (ns)": "total_ns", "Time (%)": "share_pct", **STATS},
            explain=lambda column, value, share=share: (
                GRAPHS if side.rules.graphs and column == "Time (%)" and as_printed(share, "0.0") == value else None
            ),
        )  # fmt: skip


def _calls(side: Side, tables: dict[str, Any]) -> None:
    ours = {key[0]: row for key, row in tables["api.csv"].items()}
    theirs: dict[str, Any] = {}
    for row in side.rows:
        name = row["Name"]
        # Backtraces whose names lack the version have a row of their own, under the same name.
        if name not in theirs or str(ours.get(name, {}).get("calls")) == row["Num Calls"]:
            theirs[name] = row
    side.same_rows(set(ours), set(theirs), lambda _key: None)
    for name in sorted(ours.keys() & theirs.keys()):
        count, total = side.rules.calls_with_backtraces(name)
        rows = {"Num Calls": count, "Total Time (ns)": total}
        doubled = count != ours[name]["calls"]
        side.cells(
            name, ours[name], theirs[name], {"Num Calls": "calls", "Total Time (ns)": "total_ns", **STATS},
            explain=lambda column, value, doubled=doubled, rows=rows: (
                BACKTRACES if doubled and rows.get(column, value) == value else None
            ),
        )  # fmt: skip


def _copies(side: Side, tables: dict[str, Any]) -> None:
    ours = {key[0]: row for key, row in tables["memops.csv"].items()}
    theirs = {spell_out(row["Operation"]): row for row in side.rows}
    side.same_rows(set(ours), set(theirs), lambda _key: None)
    for name in sorted(ours.keys() & theirs.keys()):
        if "size" in side.report:
            columns = {"Total (MB)": "total_bytes", "Avg (MB)": "avg_bytes", "Max (MB)": "max_bytes"}
            side.cells(name, ours[name], theirs[name], columns, scale=1e6)
        side.cells(name, ours[name], theirs[name], {"Count": "count", "Total Time (ns)": "total_ns"})


def spell_out(operation: str) -> str:
    """Return [CUDA memcpy HtoD], as older versions have it, in the words of newer ones."""
    places = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}
    return re.sub(r"\b([HDAP])to([HDAP])\b", lambda short: f"{places[short[1]]}-to-{places[short[2]]}", operation)


def label(key: Key) -> str:
    """Return a range as nsys names it: with its domain before a colon."""
    return f"{key[2]}:{key[0]}" if key[2] else key[0]


def their_name(text: str) -> str:
    """Return a range of nsys without what torch appends, which ours has in columns of its own."""
    return without_numbers(text.removeprefix(":"))[0]


def _walls(side: Side, tables: dict[str, Any]) -> None:
    style = "PushPop" if "pushpop" in side.report else "StartEnd"
    ours = {label(key): row for key, row in tables["ranges.csv"].items() if key[1] == style}
    theirs = one_row_each(side.rows, lambda row: their_name(row["Range"]), ("Instances", "Total Time (ns)"))
    side.same_rows(set(ours), set(theirs), lambda _key: None)
    for name in sorted(ours.keys() & theirs.keys()):
        side.cells(name, ours[name], theirs[name], {"Instances": "instances", "Total Time (ns)": "wall_ns"})


def _projections(side: Side, tables: dict[str, Any]) -> None:
    ours = {(label(key), key[1]): row for key, row in tables["ranges.csv"].items()}
    sums = ("Range Instances", "Total Range Time (ns)", "Total Proj Time (ns)")
    theirs = one_row_each(side.rows, lambda row: (their_name(row["Range"]), row["Style"]), sums)
    own_thread, launching = side.rules.projections(), side.rules.launching_instances()
    columns = dict(zip(sums, ("instances", "wall_ns", "projected_ns"), strict=True))
    # Ranges without work on the GPU are in our table and not in nsys'.
    working = {key for key, row in ours.items() if row["projected_ns"]}
    unknown = {key for key, row in ours.items() if row["projected_ns"] is None}

    def explain_row(key: Key) -> str | None:
        if key in unknown:
            return LOST
        if key not in working or key in own_thread:
            return None
        return GRAPHS if side.rules.graphs else THREADS if key[1] == "StartEnd" else None

    side.same_rows(working, set(theirs), explain_row)
    for key in sorted(ours.keys() & theirs.keys()):
        cause = GRAPHS if key[1] == "PushPop" and side.rules.graphs else THREADS if key[1] == "StartEnd" else None
        side.cells(
            " ".join(key), ours[key], theirs[key], columns,
            explain=lambda column, value, key=key, cause=cause: (
                (cause if own_thread.get(key) == value else None)
                if "Proj" in column
                else (IDLE if launching[key].get(column) == value else None)
            ),
        )  # fmt: skip


def _range_kernels(side: Side, tables: dict[str, Any]) -> None:
    ours = {(label(key), key[1], key[3]): row for key, row in tables["range_kernels.csv"].items()}

    def key_of(row: Row) -> Key:
        return their_name(row["NVTX Range"]), row["Style"], row["Kernel Name"]

    # Kernels outside of every range are rows without a name. A name has a row for each thread.
    named = [row for row in side.rows if row["NVTX Range"] not in ("", "None")]
    theirs = one_row_each(named, key_of, ("Kern Inst", "Total Time (ns)"))
    as_nsys = side.rules.range_kernels()
    side.same_rows(
        set(ours),
        set(theirs),
        lambda key: THREADS if key in ours and key not in as_nsys and key[1] == "StartEnd" else None,
    )
    for key in sorted(ours.keys() & theirs.keys()):
        count, total = as_nsys.get(key, (0, 0))
        said = {"Kern Inst": count, "Total Time (ns)": total}
        differs = (count, total) != (ours[key]["instances"], ours[key]["total_ns"])
        cause = THREADS if count != ours[key]["instances"] else PER_ROW
        side.cells(
            " ".join(key), ours[key], theirs[key], {"Kern Inst": "instances", "Total Time (ns)": "total_ns", **STATS},
            explain=lambda column, value, said=said, differs=differs, cause=cause: (
                cause if differs and said.get(column, value) == value else None
            ),
        )  # fmt: skip


COMPARE: dict[str, Callable[[Side, dict[str, Any]], None]] = {
    "cuda_gpu_kern_sum": _kernels,
    "cuda_api_sum": _calls,
    "cuda_gpu_mem_time_sum": _copies,
    "cuda_gpu_mem_size_sum": _copies,
    "nvtx_pushpop_sum": _walls,
    "nvtx_startend_sum": _walls,
    "nvtx_gpu_proj_sum": _projections,
    "nvtx_kern_sum": _range_kernels,
}


def one_row_each(rows: list[Row], key_of: Callable[[Row], Any], sums: tuple[str, ...]) -> dict[Any, Row]:
    """Return rows by key; of keys with several (by thread, by number, by grid in older versions) the sums alone."""
    grouped: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[key_of(row)].append(row)
    return {
        key: each[0] if len(each) == 1 else {name: str(sum(int(row[name]) for row in each)) for name in sums}
        for key, each in grouped.items()
    }


class NsysRules:
    """What nsys makes of a trace where it differs from us: every row of a call counts, and the own thread alone."""

    def __init__(self, path: Path) -> None:
        rows = TraceRows(path, backtraces=True)
        self.calls = rows.calls
        self.graphs = any(each.kind == "graph" for each in rows.work)
        self.work: dict[tuple[int, int], list[Work]] = defaultdict(list)
        for each in rows.work:
            if each.kind in ("kernel", "copy", "fill") and each.correlation is not None:
                self.work[each.pid, each.correlation].append(each)
        self.ranges = rows.ranges
        by_thread = Enclosed(self.calls)
        # nsys joins the calls to ranges that begin and end on one thread, and leaves the others out.
        crossing = {each.number for each in self.ranges if each.end_tid not in (None, each.tid)}
        self._inside = [(each, [] if each.number in crossing else by_thread.of_thread(each)) for each in self.ranges]

    def _launched(self, call: Call) -> list[Work]:
        return [] if call.correlation is None else self.work.get((call.tid & PID, call.correlation), [])

    def calls_with_backtraces(self, name: str) -> tuple[int, int]:
        """Return rows and total time of a call, every row counted."""
        chosen = [call for call in self.calls if re.sub(r"_v\d{4}$", "", call.name) == name]
        return len(chosen), sum(call.end - call.start for call in chosen)

    def projections(self) -> dict[Key, int]:
        """Return last end minus first start of what each instance's own thread launched, added up."""
        total: dict[Key, int] = defaultdict(int)
        for each, calls in self._inside:
            work = [piece for call in calls for piece in self._launched(call)]
            if work:
                span = max(piece.end for piece in work) - min(piece.start for piece in work)
                total[label(each.key), each.style] += span
        return dict(total)

    def launching_instances(self) -> dict[Key, dict[str, int]]:
        """Return how many instances launched work on their own thread, and their wall time, by nsys' columns."""
        found: dict[Key, dict[str, int]] = defaultdict(lambda: {"Range Instances": 0, "Total Range Time (ns)": 0})
        for each, calls in self._inside:
            if any(self._launched(call) for call in calls):
                row = found[label(each.key), each.style]
                row["Range Instances"] += 1
                row["Total Range Time (ns)"] += each.end - each.start
        return found

    def range_kernels(self) -> dict[Key, tuple[int, int]]:
        """Return (different kernels, time of all rows of instance x call x kernel) as nvtx_kern_sum has them."""
        seen: dict[Key, set[Any]] = defaultdict(set)
        total: dict[Key, int] = defaultdict(int)
        for each, calls in self._inside:
            for call in calls:
                for piece in self._launched(call):
                    if piece.kind == "kernel":
                        key = label(each.key), each.style, piece.name
                        seen[key].add(id(piece))
                        total[key] += piece.duration
        return {key: (len(pieces), total[key]) for key, pieces in seen.items()}
