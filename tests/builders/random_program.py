"""Programs made at random, whose traces hold what is known: each figure is booked while the program runs.

Nothing is sought in time here. When a call is made, the ranges that are open on its thread and in its process are
known, and they get what the call causes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder
from tests.builders.generations import GENERATIONS, schema
from tests.second_opinion.figures import Figures, statistics
from tests.second_opinion.trace_rows import copy_name, union

KERNELS = ("gemm", "softmax", "add")
COPY_KINDS = (1, 2, 8)
NAMES = (("step", 0), ("forward", 0), ("step", 1), ("aten::mm, op_id = 7, seq = 2", 0), ("aten::mm, op_id = 8", 0))
DOMAINS = {0: "", 1: "library"}


@dataclass(eq=False)
class Piece:
    """Work of a GPU, and the ranges that caused it."""

    kind: str
    start: int
    end: int
    device: int
    name: str
    bytes: int = 0


@dataclass(eq=False)
class Instance:
    """An instance of a range and what is known of it."""

    name: str
    style: str
    domain: str
    start: int
    pid: int
    tid: int
    domain_id: int
    is_registered: bool
    end: int = 0
    work: list[Piece] = field(default_factory=list)
    own: list[Piece] = field(default_factory=list)  # kernels for which it was the innermost of the thread
    launches: list[int] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    holds_whole: bool = False
    holds_silent: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name.partition(",")[0], self.style, self.domain


class Program:
    """Runs actions one after another on one clock, writes their rows and books what they cause."""

    def __init__(self, generation: str, *, lazy: bool, by_node: bool) -> None:
        self.builder = TraceBuilder(generation, lazy=lazy)
        self.tables, self.by_node = schema(generation), by_node
        self.now = 1_000
        self.stacks: dict[int, list[Instance]] = defaultdict(list)
        self.started: dict[int, list[Instance]] = defaultdict(list)
        self.instances: list[Instance] = []
        self.unclosed: list[Instance] = []
        self.work: list[Piece] = []
        self.calls: dict[str, list[int]] = defaultdict(list)
        self.free_at: dict[tuple[int, int, int], int] = {}
        self.correlations: dict[int, int] = defaultdict(int)
        self.launches: list[int] = []
        self.replays: list[int] = []
        self.lost: list[int] = []
        self.memory: list[tuple[int, int, int, int]] = []
        self.held: list[tuple[int, int, int, int]] = []
        self.last_of: dict[int, int] = {}
        self.latest = 0
        self.number = 0
        self.is_silent = False
        for board in (0, 1):
            self.builder.gpu(board, f"board {board}", cuda=board)
        for pid in (PID, OTHER_PID):
            for domain, name in DOMAINS.items():
                if name:
                    self.builder.range(0, None, name, kind=75, tid=pid | 1, domain=domain)

    # Ranges.

    def push(self, tid: int, which: int, registered: bool) -> None:
        self.now += 1
        self.stacks[tid].append(self._begin(tid, which, "PushPop", registered))

    def start(self, tid: int, which: int, registered: bool) -> None:
        self.now += 1
        self.started[tid & ~0xFFFFFF].append(self._begin(tid, which, "StartEnd", registered))

    def _begin(self, tid: int, which: int, style: str, registered: bool) -> Instance:
        name, domain = NAMES[which % len(NAMES)]
        one = Instance(name, style, DOMAINS[domain], self.now, tid & ~0xFFFFFF, tid, domain, registered)
        self.instances.append(one)
        return one

    def pop(self, tid: int) -> None:
        self._end(self.stacks[tid])

    def end(self, tid: int) -> None:
        self._end(self.started[tid & ~0xFFFFFF])

    def _end(self, opened: list[Instance]) -> None:
        if opened:
            self.now += 1
            opened.pop().end = self.now

    # Calls.

    def _call(
        self, tid: int, name: str, *, took: int, failed: bool = False, twice: bool = False
    ) -> tuple[int, int, int]:
        """Make a call; return its correlation id, its end and its number."""
        pid = tid & ~0xFFFFFF
        self.correlations[pid] += 1
        correlation, start = self.correlations[pid], self.now
        self.now += took
        self.builder.call(start, self.now, correlation, name, tid=tid, result=int(failed))
        if twice:
            self.builder.call(start, self.now, correlation, name, tid=tid, event_class=67)
        self.calls[name.removesuffix("_v7000").removesuffix("_v3020")].append(took)
        self.last_of[pid] = self.now
        self.latest = max(self.latest, self.now)
        self.number += 1
        return correlation, self.now, self.number

    def _open(self, tid: int) -> list[Instance]:
        return [*self.stacks[tid], *self.started[tid & ~0xFFFFFF]]

    def _runs(
        self, tid: int, kind: str, name: str, where: tuple[int, int], after: int, took: int, size: int = 0
    ) -> Piece:
        """Put work into a stream of a device, and book it with every open range."""
        lane = (tid & ~0xFFFFFF, *where)
        start = max(after + 3, self.free_at.get(lane, 0))
        piece = Piece(kind, start, start + took, where[0], name, size)
        self.free_at[lane] = piece.end
        self.latest = max(self.latest, piece.end)
        self.work.append(piece)
        for one in self._open(tid):
            one.work.append(piece)
        if kind == "kernel" and self.stacks[tid]:
            self.stacks[tid][-1].own.append(piece)
        return piece

    def _book(self, tid: int, number: int, *, is_replay: bool = False, is_lost: bool = False) -> None:
        for one in (self, *self._open(tid)):
            one.launches.append(number)
            if is_replay:
                one.replays.append(number)
            if is_lost:
                one.lost.append(number)

    def launch(self, tid: int, where: tuple[int, int], took: int, which: int, outcome: str) -> None:
        """Add a kernel; `outcome`: it runs, its launch fails, its record is lost, or its call has a backtrace."""
        name = KERNELS[which % len(KERNELS)]
        correlation, ended, number = self._call(
            tid, "cudaLaunchKernel_v7000", took=4, failed=outcome == "failed", twice=outcome == "backtrace"
        )
        if outcome == "failed":
            return
        self._book(tid, number, is_lost=outcome == "lost")
        if outcome != "lost":
            piece = self._runs(tid, "kernel", f"{name}(int)", where, ended, took)
            self.builder.kernel(
                piece.start, piece.end, correlation, name, pid=tid & ~0xFFFFFF, device=where[0], stream=where[1]
            )

    def copy(self, tid: int, where: tuple[int, int], took: int, which: int, size: int) -> None:
        kind = COPY_KINDS[which % len(COPY_KINDS)]
        correlation, ended, _ = self._call(tid, "cudaMemcpyAsync_v3020", took=5)
        piece = self._runs(tid, "copy", copy_name(kind), where, ended, took, size)
        self.builder.copy(
            piece.start, piece.end, correlation, size, kind, device=where[0], pid=tid & ~0xFFFFFF, stream=where[1]
        )

    def fill(self, tid: int, where: tuple[int, int], took: int, size: int) -> None:
        correlation, ended, _ = self._call(tid, "cudaMemsetAsync_v3020", took=5)
        piece = self._runs(tid, "fill", "[CUDA memset]", (where[0], 7), ended, took, size)
        self.builder.fill(piece.start, piece.end, correlation, size, device=where[0], pid=tid & ~0xFFFFFF)

    def replay(self, tid: int, where: tuple[int, int], took: int, which: int) -> None:
        """Add a graph: its kernels where nodes are traced, else the graph as a whole, or nothing in old versions."""
        correlation, ended, number = self._call(tid, "cudaGraphLaunch", took=6)
        self._book(tid, number, is_replay=True)
        if self.by_node:
            for node in range(1, 2 + which):
                piece = self._runs(tid, "kernel", "add(int)", where, ended, took)
                self.builder.kernel(
                    piece.start, piece.end, correlation, "add", pid=tid & ~0xFFFFFF, device=where[0], stream=where[1],
                    node=node,
                )  # fmt: skip
        elif "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in self.tables:
            piece = self._runs(tid, "graph", f"[CUDA graph {which}]", where, ended, took)
            self.builder.put(
                "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=piece.start, end=piece.end, deviceId=where[0], contextId=1,
                streamId=where[1], correlationId=correlation, globalPid=tid & ~0xFFFFFF, graphId=which,
                graphExecId=which,
            )  # fmt: skip
            for one in self._open(tid):
                one.holds_whole = True
        else:
            self.is_silent = True
            for one in self._open(tid):
                one.holds_silent = True

    def migrate(self, where: tuple[int, int], took: int, size: int) -> None:
        """Pages of unified memory move on their own, for no call and no range."""
        start = self.now
        self.work.append(Piece("migration", start, start + took, where[0], copy_name(11), size))
        self.latest = max(self.latest, start + took)
        self.builder.copy(start, start + took, 0, size, 11, device=where[0], stream=0)

    def allocate(self, tid: int, where: tuple[int, int], size: int) -> None:
        _, ended, number = self._call(tid, "cudaMalloc_v3020", took=7)
        self.held.append((tid & ~0xFFFFFF, where[0], number << 20, size))
        self.memory.append((ended - 1, tid & ~0xFFFFFF, where[0], size))
        self.builder.allocate(ended - 1, number << 20, size, pid=tid & ~0xFFFFFF, device=where[0])

    def free(self, tid: int) -> None:
        mine = [one for one in self.held if one[0] == tid & ~0xFFFFFF]
        if mine:
            _, ended, _ = self._call(tid, "cudaFree_v3020", took=7)
            pid, device, address, size = mine[0]
            self.held.remove(mine[0])
            self.memory.append((ended - 1, pid, device, -size))
            self.builder.free(ended - 1, address, pid=pid, device=device)

    # The end.

    def write(self, path: Path) -> Path:
        """Close what is open, one range in two with the trace itself, and write the file."""
        self.now += 1
        left = [one for opened in (*self.stacks.values(), *self.started.values()) for one in opened]
        self.unclosed = left[::2]
        for one in left[1::2]:
            one.end = self.now
        known = [time for one in self.instances for time in (one.start, one.end)]
        for one in self.unclosed:
            one.end = max([self.latest, *known])
        for one in self.instances:
            end, kind = None if one in self.unclosed else one.end, 59 if one.style == "PushPop" else 60
            self.builder.range(
                one.start, end, one.name, kind=kind, tid=one.tid, domain=one.domain_id, registered=one.is_registered
            )
        return self.builder.write(path)

    def figures(self) -> Figures:
        """Return what the analysis has to say, in the form of the second opinion."""
        return {
            "kernels.csv": self._kernels(),
            "api.csv": {(name,): _renamed(statistics(took)) for name, took in self.calls.items()},
            "memops.csv": self._copies(),
            "ranges.csv": self._ranges(),
            "range_instances.csv": self._instances(),
            "summary.json": {("totals",): self._totals(), ("coverage",): self._coverage()},
        }

    def _kernels(self) -> dict[tuple[str, ...], dict[str, Any]]:
        shown = [piece for piece in self.work if piece.kind in ("kernel", "graph")]
        names: dict[str, list[int]] = defaultdict(list)
        for piece in shown:
            names[piece.name].append(piece.end - piece.start)
        total = sum(map(sum, names.values()))
        return {(name,): {**statistics(took), "share_pct": 100 * sum(took) / total} for name, took in names.items()}

    def _copies(self) -> dict[tuple[str, ...], dict[str, Any]]:
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for piece in self.work:
            if piece.kind in ("copy", "fill", "migration"):
                row = found.setdefault((piece.name,), {"count": 0, "total_ns": 0, "total_bytes": 0, "max_bytes": 0})
                row["count"] += 1
                row["total_ns"] += piece.end - piece.start
                row["total_bytes"] += piece.bytes
                row["max_bytes"] = max(row["max_bytes"], piece.bytes)
        return found

    def _groups(self) -> dict[tuple[str, str, str], list[Instance]]:
        groups: dict[tuple[str, str, str], list[Instance]] = defaultdict(list)
        for one in self.instances:
            groups[one.key].append(one)
        return groups

    def _ranges(self) -> dict[tuple[str, ...], dict[str, Any]]:
        return {key: self._range(members) for key, members in self._groups().items()}

    def _range(self, members: list[Instance]) -> dict[str, Any]:
        work = list(dict.fromkeys(piece for one in members for piece in one.work))
        launches, replays, lost = (
            len({number for one in members for number in getattr(one, name)})
            for name in ("launches", "replays", "lost")
        )
        own = [piece for one in members for piece in one.own]
        row = {
            **_counts(work), "instances": len(members), "wall_ns": sum(one.end - one.start for one in members),
            "projected_ns": sum(_span(one.work) for one in members), "launch_count": launches,
            "graph_launch_count": replays, "lost_launch_count": lost,
            "exclusive_kernel_count": len(own),
            "exclusive_kernel_total_ns": sum(piece.end - piece.start for piece in own),
            "memcpy_bytes": sum(piece.bytes for piece in work if piece.kind == "copy"),
            "memset_bytes": sum(piece.bytes for piece in work if piece.kind == "fill"),
            "peak_vram_bytes": self._peak_in(members),
        }  # fmt: skip
        if members[0].style == "StartEnd":
            row["exclusive_kernel_count"] = row["exclusive_kernel_total_ns"] = None
        kernels = [name for name in row if "kernel" in name]
        if any(one.holds_whole for one in members):
            row |= dict.fromkeys(kernels)
        if any(one.holds_silent for one in members) or (lost and lost == launches):
            row |= dict.fromkeys([*kernels, "gpu_busy_ns", "projected_ns"])
        return row

    def _instances(self) -> dict[tuple[str, ...], dict[str, Any]]:
        found = {}
        for key, members in self._groups().items():
            for number, one in enumerate(members):
                row = {**_counts(one.work), "start_ns": one.start, "wall_ns": one.end - one.start}
                row["gpu_idle_ns"] = _idle(one.work)
                if one.holds_whole:
                    row |= {"kernel_count": None, "kernel_total_ns": None}
                if one.holds_silent or (one.lost and len(one.lost) == len(one.launches)):
                    row |= dict.fromkeys(("kernel_count", "kernel_total_ns", "gpu_busy_ns", "gpu_idle_ns"))
                found[*key, str(number)] = row
        return found

    def _totals(self) -> dict[str, Any]:
        asked = [piece for piece in self.work if piece.kind != "migration"]
        kernels = [piece for piece in asked if piece.kind == "kernel"]
        opaque = self.is_silent or any(piece.kind == "graph" for piece in asked)
        copied: dict[str, int] = defaultdict(int)
        for piece in self.work:
            if piece.kind in ("copy", "migration"):
                copied[piece.name] += piece.bytes
        peaks = self._peaks()
        return {
            "kernel_count": None if opaque else len(kernels),
            "kernel_total_ns": None if opaque else sum(piece.end - piece.start for piece in kernels),
            "launch_count": len(self.launches),
            "graph_launch_count": len(self.replays),
            "gpu_busy_ns": None if self.is_silent else _busy(asked),
            "gpu_busy_with_migrations_ns": None if self.is_silent else _busy(self.work),
            "gpu_span_ns": None if self.is_silent else _span(asked),
            "memcpy_bytes": dict(copied),
            "memset_bytes": sum(piece.bytes for piece in asked if piece.kind == "fill"),
            "peak_vram_bytes": None if peaks is None else {str(board): peak for board, peak in peaks.items()},
        }

    def _coverage(self) -> dict[str, Any]:
        kernels = sum(piece.kind == "kernel" for piece in self.work)
        return {"kernels": kernels, "launches": len(self.launches), "launches_without_gpu_record": len(self.lost)}

    def _steps(self) -> list[tuple[int, int, int, int]] | None:
        """Return the changes of device memory; what a process still holds goes back after its last call."""
        if not self.memory or "CUDA_GPU_MEMORY_USAGE_EVENTS" not in self.tables:
            return None
        left: dict[tuple[int, int], int] = defaultdict(int)
        for pid, device, _, size in self.held:
            left[pid, device] += size
        ends = [(self.last_of[pid] + 1, pid, device, -size) for (pid, device), size in left.items()]
        return sorted([*self.memory, *ends], key=lambda step: step[0])

    def _peaks(self) -> dict[int, int] | None:
        steps = self._steps()
        if steps is None:
            return None
        used: dict[int, int] = defaultdict(int)
        peaks: dict[int, int] = {}
        for _, _, device, change in steps:
            used[device] += change
            peaks[device] = max(peaks.get(device, 0), used[device])
        return peaks

    def _peak_in(self, members: list[Instance]) -> int | None:
        """Return the most that the process held on a device while any of the instances was open."""
        steps = self._steps()
        if steps is None:
            return None
        most = 0
        for one in members:
            for device in (0, 1):
                used = 0
                for time, pid, where, change in steps:
                    if pid != one.pid or where != device or time > one.end:
                        continue
                    if time > one.start:
                        most = max(most, used)
                    used += change
                most = max(most, used)
        return most


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {"calls": row.pop("instances"), **row}


def _counts(work: list[Piece]) -> dict[str, Any]:
    kernels = [piece for piece in work if piece.kind == "kernel"]
    total = sum(piece.end - piece.start for piece in kernels)
    return {"kernel_count": len(kernels), "kernel_total_ns": total, "gpu_busy_ns": _busy(work)}


def _busy(work: list[Piece]) -> int:
    return sum(union([(piece.start, piece.end) for piece in work if piece.device == device]) for device in (0, 1))


def _span(work: list[Piece]) -> int:
    return max(piece.end for piece in work) - min(piece.start for piece in work) if work else 0


def _idle(work: list[Piece]) -> int:
    boards = [[piece for piece in work if piece.device == device] for device in (0, 1)]
    return sum(_span(of_board) - _busy(of_board) for of_board in boards)


_WHERE = st.tuples(st.integers(0, 1), st.sampled_from((7, 13)))
_THREADS = st.sampled_from((PID | 1, PID | 2, OTHER_PID | 1))
_ACTIONS = st.one_of(
    st.tuples(st.just("push"), _THREADS, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("start"), _THREADS, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("pop"), _THREADS),
    st.tuples(st.just("end"), _THREADS),
    st.tuples(
        st.just("launch"), _THREADS, _WHERE, st.integers(1, 60), st.integers(0, 2),
        st.sampled_from(("runs", "runs", "runs", "lost", "failed", "backtrace")),
    ),
    st.tuples(st.just("copy"), _THREADS, _WHERE, st.integers(1, 60), st.integers(0, 2), st.integers(0, 1 << 40)),
    st.tuples(st.just("fill"), _THREADS, _WHERE, st.integers(1, 60), st.integers(0, 1 << 30)),
    st.tuples(st.just("replay"), _THREADS, _WHERE, st.integers(1, 60), st.integers(1, 3)),
    st.tuples(st.just("migrate"), _WHERE, st.integers(1, 60), st.integers(1, 1 << 20)),
    st.tuples(st.just("allocate"), _THREADS, _WHERE, st.integers(1, 1 << 33)),
    st.tuples(st.just("free"), _THREADS),
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Return a program that launches at least one kernel, recorded by any nsys, exported in full or not."""
    program = Program(draw(st.sampled_from(GENERATIONS)), lazy=draw(st.booleans()), by_node=draw(st.booleans()))
    program.launch(PID | 1, (0, 7), 50, 0, "runs")
    for name, *arguments in draw(st.lists(_ACTIONS, max_size=40)):
        program.now += draw(st.integers(0, 20))
        getattr(program, name)(*arguments)
    return program
