"""Make a large trace of a training whose ranges nest, for `scripts/bench.py analyze --shape`.

One step is written row by row and then repeated by SQLite, later each time and with correlation ids of its own. In a
step, the main thread launches three quarters of the kernels inside ranges, and a helper thread the rest while the main
thread waits for it. One kernel in sixteen runs on a stream of its own, beside the others.
"""

from __future__ import annotations

import contextlib
import lzma
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benches.machine import ROOT

SOURCE = ROOT / "traces" / "h200-faults" / "none.sqlite.xz"
KERNEL, CALL, COPY = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY"
SYNC, RANGE = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS"
_TABLES = {
    KERNEL: (
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
    ),
    CALL: ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
    COPY: (
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
        "srcKind", "dstKind",
    ),
    SYNC: (
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType", "eventId",
        "eventSyncId",
    ),
    RANGE: ("start", "end", "eventType", "globalTid", "textId", "domainId"),
}  # fmt: skip
# Their rows come from the source otherwise, and would meet rows of ours.
_EMPTIED = (
    *_TABLES, "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUDA_GPU_MEMORY_USAGE_EVENTS",
    "PROFILER_OVERHEAD", "StringIds",
)  # fmt: skip
_PID = 281474993487872
_MAIN, _HELPER = _PID + 1, _PID + 2
_KERNEL_NAMES = 48
_LEAF_KERNELS = 36
_CALL_NAMES = (
    "cudaLaunchKernel_v7000", "cudaStreamIsCapturing_v10000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020",
)  # fmt: skip
_FIRST_CALL, _FIRST_KERNEL, _FIRST_RANGE = 1, 100, 1000
# So much a kernel's end may move from step to step (ns), in an order that looks random.
_JITTER_NS = 61
_BEGIN_NS = 1_000_000_000


@dataclass
class _Step:
    """One step as it is written: rows by table, and the clocks of the threads and streams."""

    names: int
    rows: dict[str, list[tuple[int, ...]]] = field(default_factory=lambda: {table: [] for table in _TABLES})
    clock: int = _BEGIN_NS
    free: dict[int, int] = field(default_factory=lambda: {7: _BEGIN_NS, 13: _BEGIN_NS})
    id: int = 1
    named: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(21))

    def call(self, name: int, took: int, tid: int) -> int:
        """Write a call and return its correlation id."""
        self.rows[CALL].append((self.clock, self.clock + took, 0, tid, self.id, _FIRST_CALL + name, 0))
        self.clock += took + self.random.randrange(300, 900)
        self.id += 1
        return self.id - 1

    def launch(self, tid: int) -> None:
        """Write a kernel with its calls."""
        if self.random.random() < 0.95:
            self.call(1, 300, tid)
        begin, name = self.clock, int(_KERNEL_NAMES * self.random.random() ** 2)
        stream = 13 if self.random.random() < 1 / 16 else 7
        key = self.call(0, self.random.randrange(1800, 4200), tid)
        start = max(self.free[stream] + 2 * _JITTER_NS, begin + 2500)
        took = 800 + 150 * name + self.random.randrange(400)
        if stream == 13:
            took *= 4
        self.free[stream] = start + took + _JITTER_NS
        self.rows[KERNEL].append((start, start + took, 0, 1, stream, key, _PID, _FIRST_KERNEL + name, 500 + name))

    def open_range(self) -> tuple[int, int]:
        """Return what close_range needs."""
        self.named += 1
        self.clock += 400
        return self.clock, self.named - 1

    def close_range(self, opened: tuple[int, int]) -> None:
        """Write a range that ends now."""
        self.clock += 400
        begin, number = opened
        self.rows[RANGE].append((begin, self.clock, 59, _MAIN, _FIRST_RANGE + number % self.names, 0))

    def inside(self, depth: int, deepest: int) -> None:
        """Write what a range of a depth holds."""
        if depth == deepest:
            for _ in range(_LEAF_KERNELS):
                self.launch(_MAIN)
            return
        self.launch(_MAIN)
        for _ in range(_branches(depth, deepest)):
            opened = self.open_range()
            self.inside(depth + 1, deepest)
            self.close_range(opened)

    def finish(self, helped: int) -> None:
        """Write the pass of the helper thread, a copy to the host, and the wait for it."""
        opened = self.open_range()
        self.clock += 20_000
        for _ in range(helped):
            self.launch(_HELPER)
        self.clock += 20_000
        self.close_range(opened)
        key, start = self.call(2, 3000, _MAIN), self.free[7] + 2 * _JITTER_NS
        self.rows[COPY].append((start, start + 1500, 0, 1, 7, key, _PID, 4, 2, 2, 1))
        begin, wait = self.clock, self.id
        self.call(3, max(1000, start + 2500 - begin), _MAIN)
        self.rows[SYNC].append((begin + 200, self.clock - 1000, 0, 1, 7, wait, _PID, 3, 2**32 - 1, 2**32 - 1))


def _branches(depth: int, deepest: int) -> int:
    """Return how many ranges a range of a depth encloses: 8 leaves a step, or 16 where they nest little."""
    if deepest <= 2:
        return 16 if depth == deepest - 1 else 1
    return 2 if depth % max(1, deepest // 4) == 0 and depth // max(1, deepest // 4) < 4 else 1


def make_deep_trace(target: Path, kernels: int, nesting: int, names: int) -> None:
    """Write a trace with at least `kernels` kernels.

    nesting: how many ranges enclose each kernel of the main thread.
    names: how many names the ranges have; of fewer kernels, fewer names are reached.
    """
    step = _Step(names)
    whole = step.open_range()
    if nesting == 1:
        step.close_range(whole)  # a marker of the step, and its parts beside it
        for _ in range(16):
            opened = step.open_range()
            step.inside(1, 1)
            step.close_range(opened)
    else:
        step.inside(1, nesting)
    step.finish(max(1, len(step.rows[KERNEL]) // 3))
    if nesting > 1:
        step.close_range(whole)
    with made_from(SOURCE, target, emptied=_EMPTIED) as database:
        _write_names(database, names)
        _repeat(database, step, kernels)


@contextlib.contextmanager
def made_from(packed: Path, target: Path, emptied: tuple[str, ...]) -> Iterator[sqlite3.Connection]:
    """Open a trace that has the tables of a packed one, attached as `source`, and their rows but for those emptied."""
    half_made = target.with_name(target.name + ".part")
    half_made.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as plain, contextlib.closing(sqlite3.connect(half_made)) as made:
        plain.write(lzma.decompress(packed.read_bytes()))
        plain.flush()
        made.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        made.execute("ATTACH ? AS source", (plain.name,))
        for name, sql in made.execute("SELECT name, sql FROM source.sqlite_master WHERE type = 'table'").fetchall():
            made.execute(sql)
            if name not in emptied:
                made.execute(f'INSERT INTO main."{name}" SELECT * FROM source."{name}"')
        yield made
        made.commit()
    half_made.rename(target)


def repeat_rows(
    database: sqlite3.Connection,
    rows: str,
    target: str,
    times: range,
    moved: dict[str, str],
    columns: tuple[str, ...] = (),
) -> None:
    """Insert rows again and again into a table.

    rows: what follows FROM; a table in it is called `one`.
    times: k of each repetition.
    moved: SQL of the columns that change with k.
    columns: those that are written, all without.
    """
    columns = columns or tuple(row[1] for row in database.execute(f"PRAGMA main.table_info({target})"))
    listed = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(moved.get(column, f'one."{column}"') for column in columns)
    database.execute(
        f"WITH RECURSIVE c(k) AS (SELECT {times.start} WHERE {len(times)} UNION ALL SELECT k + 1 FROM c WHERE k + 1 < "
        f"{times.stop}) INSERT INTO main.{target} ({listed}) SELECT {values} FROM c CROSS JOIN {rows}"
    )


def _write_names(database: sqlite3.Connection, names: int) -> None:
    rows = [(_FIRST_CALL + number, name) for number, name in enumerate(_CALL_NAMES)]
    for number in range(_KERNEL_NAMES):
        rows.append((_FIRST_KERNEL + number, f"void kernel_of_layer<float, {number}>(float*, int)"))
        rows.append((500 + number, f"kernel_of_layer_{number}"))
    rows += [(_FIRST_RANGE + number, f"part {number} of the model: {'abcdef'[number % 6]}") for number in range(names)]
    database.executemany("INSERT INTO StringIds (id, value) VALUES (?, ?)", rows)


def _repeat(database: sqlite3.Connection, step: _Step, kernels: int) -> None:
    """Write the step so often that there are at least `kernels` kernels."""
    copies = -(-kernels // len(step.rows[KERNEL]))
    shift = max(step.clock, *step.free.values()) - _BEGIN_NS + 5000
    distinct = min(step.named, step.names)
    variants = max(1, step.names // distinct)
    for table, columns in _TABLES.items():
        listed = ", ".join(f'"{column}"' for column in columns)
        database.execute(f"CREATE TEMP TABLE step ({listed})")
        places = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO temp.step VALUES ({places})", sorted(step.rows[table]))
        jitter = f" + (k * 7919 + one.rowid * 104729) % {_JITTER_NS}" if table == KERNEL else ""
        moved = {
            "start": f"start + k * {shift}",
            "end": f"end + k * {shift}{jitter}",
            "correlationId": f"correlationId + k * {step.id}",
            # Of the names, the outermost keeps its own; the others change from step to step.
            "textId": f"CASE textId WHEN {_FIRST_RANGE} THEN textId ELSE textId + k % {variants} * {distinct} END",
        }
        repeat_rows(database, "temp.step AS one", table, range(copies), moved, columns)
        database.execute("DROP TABLE temp.step")
