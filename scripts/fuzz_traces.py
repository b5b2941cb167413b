#!/usr/bin/env python3
"""Damage traces in every known way, and check that analyze ends with a result or with one of our errors.

    scripts/fuzz_traces.py                               2000 files made from traces/, on every core
    scripts/fuzz_traces.py --files 200 --seed 7 --json
    scripts/fuzz_traces.py --only 1234                   one file of that run again, with its traceback
    scripts/fuzz_traces.py --readers --files 5000        by both readers, whose tables must be equal
    scripts/fuzz_traces.py --reports a.sqlite b.sqlite   from these, and write the report and the exports of each too
    scripts/fuzz_traces.py --package ../other            the nsysprof of another checkout

Each file is a real trace, stored by SQLite with one of several page sizes, with one to three damages: bytes flipped,
pages zeroed, swapped or linked in circles, the end cut off, the schema forged, cells with wrong types, 2^63, times that
run backwards, text that is not UTF-8 or is hostile to terminals, HTML and spreadsheets. A process of its own analyses
it, under a limit of time and of address space. Failures are: an exception that is not of ours (a warning counts), death
by a signal, a hang, memory beyond the bound, results that cannot be, an input that changed or got files beside it. The
files that fail are kept. With --readers the tables of each file are read from its pages and by SQLite instead: what the
pages hold must be what SQLite reads, to the cell, and where SQLite refuses a table, so must the pages. File number N of
a seed is the same in every run with the same traces.

Exit codes: 0 nothing found, 1 failures, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.export.content import Content
    from nsysprof.results.analysis import Analysis
    from nsysprof.trace.open import Trace
    from nsysprof.trace.schema import Tables

ROOT = Path(__file__).resolve().parent.parent
# Page size and auto-vacuum of the variants that each trace is damaged in; None leaves it as nsys wrote it.
LAYOUTS = (None, (512, 0), (1024, 1), (65536, 0))
TABLES = ("kernels", "ranges", "range_kernels", "api", "memops")
FAILURES = ("exception", "signal", "hang", "memory", "nonsense", "difference", "changed", "littered")


@dataclass(frozen=True)
class Job:
    """One file to make and analyse. It depends on `seed`, `index` and the bases alone."""

    seed: int
    index: int
    bases: tuple[Path, ...]
    target: Path
    package: Path
    reports: bool
    readers: bool


@dataclass
class Outcome:
    """What became of a file: `kind` is read, refused or one of FAILURES."""

    index: int
    source: str
    damage: str
    kind: str = ""
    detail: str = ""
    file: str = ""
    peak_bytes: int = 0


def main() -> int:
    """Parse, run, print."""
    arguments = parse()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-traces-") as scratch:
        folder = Path(scratch)
        bases = make_bases(arguments.traces or default_traces(), folder)
        indices = [arguments.only] if arguments.only is not None else list(range(arguments.files))
        outcomes: list[Outcome] = []
        for outcome in run(arguments, bases, indices, folder):
            outcomes.append(outcome)
            if outcome.kind in FAILURES and not arguments.json:
                print(f"{outcome.index}: {outcome.kind}: {outcome.source}: {outcome.damage}\n{outcome.detail}")
    result = summarize(outcomes, arguments.seed, time.monotonic() - begin)
    print(json.dumps(result, indent=1) if arguments.json else render(result))
    return int(bool(result["failures"]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "traces", nargs="*", type=Path, help="traces to damage, .sqlite or .sqlite.xz; default: traces/"
    )
    parser.add_argument("--files", type=int, default=2000, help="how many files (default 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="INDEX", help="only this file of the run")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: every core)"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit of a file (default 20)")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help="address space of a file (default 512)")
    parser.add_argument("--readers", action="store_true", help="compare the tables that both readers read")
    parser.add_argument("--reports", action="store_true", help="write the report and the exports of each file too")
    parser.add_argument(
        "--package", type=Path, default=ROOT, help="folder of the nsysprof to test (default: this one's)"
    )
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for the files that fail")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def default_traces() -> list[Path]:
    """Every packed trace of the repository."""
    return sorted((ROOT / "traces").rglob("*.sqlite.xz"))


def make_bases(traces: list[Path], scratch: Path) -> tuple[Path, ...]:
    """Each trace unpacked, in every layout."""
    folder = scratch / "bases"
    folder.mkdir()
    bases = []
    for number, trace in enumerate(traces):
        content = trace.read_bytes()
        content = lzma.decompress(content) if trace.suffix == ".xz" else content
        for layout in LAYOUTS:
            size, vacuum = layout or (0, 0)
            base = folder / f"{number}-{trace.name.partition('.')[0]}-{size}-{vacuum}.sqlite"
            base.write_bytes(content)
            if layout is not None:
                with closing(sqlite3.connect(base, isolation_level=None)) as database:
                    for statement in (f"PRAGMA page_size = {size}", f"PRAGMA auto_vacuum = {vacuum}", "VACUUM"):
                        database.execute(statement)
            bases.append(base)
    return tuple(bases)


def summarize(outcomes: list[Outcome], seed: int, seconds: float) -> dict[str, object]:
    """Return counts, and every failure completely."""
    return {
        "files": len(outcomes),
        "seed": seed,
        "seconds": round(seconds, 1),
        "peak_mib": max((outcome.peak_bytes for outcome in outcomes), default=0) >> 20,
        "outcomes": dict(Counter(outcome.kind for outcome in outcomes)),
        "failures": [asdict(outcome) for outcome in outcomes if outcome.kind in FAILURES],
    }


def render(result: dict[str, object]) -> str:
    """Return the summary as text; failures were printed when they came."""
    counts = result["outcomes"]
    assert isinstance(counts, dict)
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return (
        f"{result['files']} files, seed {result['seed']}: {said}; {result['seconds']} s, "
        f"a process held at most {result['peak_mib']} MiB"
    )


# The pool: one process a slot, replaced when it dies or is killed.


class Worker:
    """A process that makes and analyses one file after another."""

    def __init__(self, number: int, folder: Path, memory_bytes: int) -> None:
        self.folder = folder / f"worker-{number}"
        self.memory_bytes = memory_bytes
        self.begun = 0.0
        self.outcome: Outcome | None = None
        self.sha256 = ""
        self.start()

    def start(self) -> None:
        """Start a new process in an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(theirs, self.memory_bytes), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, job: Job) -> None:
        self.outcome = Outcome(job.index, "", "")
        # Until the file is made, the clock covers the start of the process too.
        self.begun = time.monotonic() + 60
        self.connection.send(job)

    @property
    def target(self) -> Path:
        return self.folder / "t.sqlite"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run(arguments: argparse.Namespace, bases: tuple[Path, ...], indices: list[int], folder: Path) -> Iterator[Outcome]:
    """Outcomes as they come."""
    todo = list(reversed(indices))

    def next_job(worker: Worker) -> Job:
        package = arguments.package.resolve()
        how = arguments.reports, arguments.readers
        return Job(arguments.seed, todo.pop(), bases, worker.target, package, *how)

    workers = [Worker(number, folder, arguments.memory << 20) for number in range(min(arguments.jobs, len(indices)))]
    try:
        for worker in workers:
            worker.give(next_job(worker))
        while busy := [worker for worker in workers if worker.outcome is not None]:
            ready = wait([worker.connection for worker in busy], timeout=0.2)
            for worker in busy:
                outcome = listen(worker, worker.connection in ready, arguments.seconds)
                if outcome is None:
                    continue
                finish(outcome, worker, arguments.keep)
                yield outcome
                worker.outcome = None
                if outcome.kind in ("signal", "hang"):
                    worker.stop()
                    worker.start()
                if todo:
                    worker.give(next_job(worker))
    finally:
        for worker in workers:
            worker.stop()


def listen(worker: Worker, has_news: bool, limit_s: float) -> Outcome | None:
    """Return the outcome of the worker's file, when it has one or is over its time."""
    outcome = worker.outcome
    assert outcome is not None
    if has_news:
        try:
            news = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            code = worker.process.exitcode or 0
            outcome.kind = "signal"
            outcome.detail = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return outcome
        if news[0] == "made":
            _, outcome.source, outcome.damage, worker.sha256 = news
            worker.begun = time.monotonic()
            return None
        outcome.kind, outcome.detail, outcome.peak_bytes = news
        return outcome
    if time.monotonic() - worker.begun > limit_s:
        outcome.kind, outcome.detail = "hang", f"more than {limit_s} s"
        return outcome
    return None


def finish(outcome: Outcome, worker: Worker, keep: Path) -> None:
    """Check the input, and keep it when something is wrong."""
    if outcome.kind in ("read", "refused"):
        beside = sorted(path.name for path in worker.folder.iterdir() if path != worker.target)
        if not worker.target.exists() or sha256(worker.target) != worker.sha256:
            outcome.kind, outcome.detail = "changed", "the input is not what it was"
        elif beside:
            outcome.kind, outcome.detail = "littered", f"beside the input: {', '.join(beside)}"
    if outcome.kind in FAILURES and worker.target.exists():
        keep.mkdir(parents=True, exist_ok=True)
        kept = keep / f"{outcome.index}-{outcome.kind}.sqlite"
        shutil.copyfile(worker.target, kept)
        outcome.file = str(kept)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# In the worker's process.


def serve(connection: Connection, memory_bytes: int) -> None:
    """Make, announce and analyse files until the parent is gone."""
    warnings.simplefilter("error")
    limited = False
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            job: Job = connection.recv()
            source, damages = make_file(job)
            if not limited:
                sys.path.insert(0, str(job.package))
                examine(job, job.bases[0])  # what is loaded on need is loaded before the limit counts
                limit_memory(memory_bytes)
                limited = True
            connection.send(("made", source, damages, sha256(job.target)))
            kind, detail = judge(job)
            connection.send((kind, detail, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def compare_readers(path: Path) -> str:
    """Read every table from the file's pages and by plain SQLite, then all of them both ways; the first difference."""
    from nsysprof.native import load
    from nsysprof.trace.open import open_trace
    from nsysprof.trace.tables import read_tables

    with open_trace(path) as trace:
        for table in filter(None, map(trace.find, READ)):
            difference = compare_table(trace, table)
            if difference:
                return f"{table}: {difference}"
    found = []
    by_default = load.is_wanted
    for compiled in (True, False):
        load.is_wanted = lambda _unit, compiled=compiled: compiled
        try:
            with open_trace(path) as trace:
                found.append(comparable(read_tables(trace)))
        finally:
            load.is_wanted = by_default
    for name, ours in found[0].items():
        if ours != found[1][name]:
            return f"{name}: pages {str(ours)[:500]}, SQLite {str(found[1][name])[:500]}"
    return ""


def compare_table(trace: Trace, table: str) -> str:
    """How the rows on the table's pages, where those are accepted, differ from what an unguarded SQLite reads."""
    from nsysprof.trace.columns import TableSource, _as_integer, _rowid, page_positions
    from nsysprof.trace.leaf_pages import UnusualLayoutError, scan_table
    from nsysprof.trace.open import quote

    names = tuple(name for name in trace.columns[table] if name in READ_COLUMNS) or trace.columns[table]
    try:
        root, positions = page_positions(trace, TableSource(table, names, names))
        batches = [batch.T.tolist() for batch in scan_table(trace.path, root, positions)]
        key = _rowid(trace, table)
    except (UnusualLayoutError, sqlite3.DatabaseError):
        return ""
    pages = [tuple(row) for batch in batches for row in batch]
    with closing(sqlite3.connect(f"{trace.path.as_uri()}?mode=ro&immutable=1", uri=True)) as plain:
        plain.text_factory = bytes
        parts = ", ".join(_as_integer(quote(name)) for name in names)
        try:
            rows = plain.execute(f"SELECT {parts}, {key} FROM {quote(table)} NOT INDEXED").fetchmany(len(pages) + 1)
        except (sqlite3.DatabaseError, OverflowError) as error:
            return f"{len(pages)} rows on pages; SQLite: {error}"
    if rows == pages:
        return ""
    differing = [pair for pair in zip(pages, rows, strict=False) if pair[0] != pair[1]]
    return f"{len(pages)} rows on pages, {len(rows)} of SQLite; first that differ: {differing[:1]} of {names}"


def comparable(tables: Tables) -> dict[str, object]:
    """All that was read as plain values, without the codes that each reader gives out in its own order."""
    work, calls = tables.work, tables.calls
    values: dict[str, object] = {
        "work": [array.tolist() for array in (work.start_ns, work.duration_ns, tables.launch, work.bytes)],
        "variants": work.variants[work.variant].tolist(),
        "copies": work.copy_kind.tolist(),
        "counts": (work.kernels, work.dropped, work.unsized, sorted(tables.recorded)),
        "strings": list(tables.strings.items()),
        "devices": tables.devices,
        "facts": (tables.capture_facts, tables.export_facts, tables.diagnostics),
        "notes": sorted(note.text for note in tables.notes),
    }
    if calls is not None:
        values["calls"] = [array.tolist() for array in (calls.start_ns, calls.duration_ns)]
        values["call variants"] = calls.variants[calls.variant].tolist()
    for name in ("ranges", "memory"):
        table = getattr(tables, name)
        values[name] = None if table is None else table.to_dict("list")
    return {"calls": None, "call variants": None, **values}


def limit_memory(more_bytes: int) -> None:
    """Limit this process to the address space that it has and `more_bytes`."""
    statm = Path("/proc/self/statm")
    held = int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (held + more_bytes, resource.RLIM_INFINITY))


def examine(job: Job, path: Path) -> str:
    """Analyse the file or compare the readers; what is wrong with what came of it."""
    return compare_readers(path) if job.readers else analyze(path, reports=job.reports)


def judge(job: Job) -> tuple[str, str]:
    """Analyse the file; what came of it, and the traceback or complaint."""
    from nsysprof.errors import NsysprofError

    try:
        nonsense = examine(job, job.target)
    except NsysprofError as error:
        return ("refused", "") if error.text and error.next_step else ("nonsense", f"no next step: {error.text}")
    except MemoryError:
        return "memory", traceback.format_exc()[-4000:]
    except Exception:  # noqa: BLE001 (whatever it is, it is what we look for)
        return "exception", traceback.format_exc()[-4000:]
    kind = "difference" if job.readers else "nonsense"
    return (kind, nonsense) if nonsense else ("read", "")


def analyze(path: Path, *, reports: bool) -> str:
    """Analyse one trace; what is impossible in the result, or nothing."""
    from nsysprof.app.analyze import analyze_trace

    if not reports:
        return find_nonsense(analyze_trace(path))
    from nsysprof.app.export import read_content
    from nsysprof.report.write import write_analysis

    analysis, content = analyze_trace(path), read_content(path, path, lambda _text: None)
    with tempfile.TemporaryDirectory(prefix="fuzz-report-") as folder:
        write_analysis(analysis, None, Path(folder) / "out", figures=False)
        return find_nonsense(analysis) or write_the_rest(content, Path(folder))


def write_the_rest(content: Content, folder: Path) -> str:
    """Return what is wrong with the exports, or nothing."""
    from nsysprof.export.chrome import write_chrome
    from nsysprof.export.parquet import write_parquet
    from nsysprof.export.perfetto import write_perfetto

    rows = {}
    for name, write in (("perfetto", write_perfetto), ("chrome", write_chrome), ("parquet", write_parquet)):
        rows[name] = write(content, folder / name, lambda _more: None).rows
    json.loads((folder / "chrome").read_bytes())
    known = {key: rows["perfetto"].get(key, 0) for key in rows["chrome"]}
    return "" if known == rows["chrome"] else f"the exports differ: {rows}"


def find_nonsense(analysis: Analysis) -> str:
    """Return what no trace can mean: sums that do not add up, negative values, our mark for NULL in results."""
    coverage, totals = analysis.coverage, analysis.totals
    if coverage.kernels != coverage.attributed_kernels + sum(coverage.reasons.values()):
        return f"kernels do not add up: {coverage}"
    sums = {name: value for name, value in asdict(totals).items() if isinstance(value, int)}
    sums |= {f"{name} bytes": size for name, size in (totals.memcpy_bytes or {}).items()}
    sums |= {f"peak of device {number}": size for number, size in (totals.peak_vram_bytes or {}).items()}
    for table in TABLES:
        for name, column in getattr(analysis, table).items():
            if name.endswith(("_ns", "_count", "_bytes", "instances", "calls")) and column.notna().any():
                sums[f"{table}.{name}"] = column.min()
    negative = [f"{name} {value}" for name, value in sums.items() if value < 0]
    if negative:
        return f"less than nothing: {', '.join(negative)}"
    leaked = [name for name in sums if str(-(2**63)) in name]
    return f"NULL as a number: {', '.join(leaked)}" if leaked else ""


# The damage. SQL comes first, on a file that is still whole.


def make_file(job: Job) -> tuple[str, str]:
    """Write the job's file; the trace it came from and what was done to it."""
    source = random.Random(f"{job.seed}:{job.index}")
    base = source.choice(job.bases)
    shutil.copyfile(base, job.target)
    weights = [6 if damage is overwrite_cells else 1 for damage in (*SQL_DAMAGES, *BYTE_DAMAGES)]
    chosen = source.choices((*SQL_DAMAGES, *BYTE_DAMAGES), weights, k=source.choice((1, 1, 1, 2, 3)))
    done = []
    for sql_damage in (damage for damage in SQL_DAMAGES if damage in chosen):
        with closing(sqlite3.connect(job.target, isolation_level=None)) as database, suppress(sqlite3.Error):
            sql_damage(database, source)
        done.append(sql_damage.__name__)
    content = bytearray(job.target.read_bytes())
    for byte_damage in (damage for damage in chosen if damage in BYTE_DAMAGES):
        byte_damage(content, source)
        done.append(byte_damage.__name__)
    job.target.write_bytes(content)
    return base.stem, " + ".join(done)


NUMBERS = (
    -1, 0, 1, -5_000, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63), -(2**62), 1 << 48, -(1 << 56),
    0.5, -0.0, 1e18, 9.3e18, 1e308, -1e308, float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", "soon", "12", "0x10", "\0", "a\0b", "\x1b[31m\x1b]0;title\x07", "<script>alert(1)</script>", "=1+cmd|'/c x'!A0",
    "../../../../etc/passwd", "\u202eevil", "\r\nline|two", "RUN::math::S99999999999999999999", "RUN::::=",
    "\ud7ff\ufffe",
    '"; DROP TABLE StringIds; --', "e\u0301" * 500, "n" * 200_000, "{{ 7 * 7 }}", "%s%n", "nan", "(" * 5_000,
    "cudaGraphLaunch_v10000", "cudaStreamBeginCapture_v10000",
)  # fmt: skip
RAW_TEXTS = ("x'ff'", "x'c328'", "x'eda080'", "x'f8a1a1a1a1'", "x'80'", "zeroblob(70000)")
READ = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_GPU_MEMORY_USAGE_EVENTS", "NVTX_EVENTS",
    "StringIds", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "META_DATA_CAPTURE", "META_DATA_EXPORT",
    "EXPORT_META_DATA", "DIAGNOSTIC_EVENT", "GPU_METRICS", "TARGET_INFO_GPU_METRICS",
)  # fmt: skip

READ_COLUMNS = {
    "start", "end", "deviceId", "streamId", "contextId", "correlationId", "globalPid", "globalTid", "endGlobalTid",
    "bytes", "copyKind", "address", "memKind", "memoryOperationType", "demangledName", "shortName", "graphNodeId",
    "nameId", "returnValue", "eventClass", "eventType", "text", "textId", "domainId", "rangeId", "id", "value", "name",
    "totalMemory", "smCount", "uuid", "cuDevice", "gpuId", "cudaId", "pid", "severity", "timestamp", "typeId",
    "metricId", "metricName",
}  # fmt: skip


def pick_table(database: sqlite3.Connection, source: random.Random) -> tuple[str, list[str]]:
    """Return a table and its columns: most often one that the analysis reads, and of its columns those."""
    there = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
    table = source.choice(([name for name in READ if name in there] if source.random() < 0.9 else []) or there)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    return table, ([name for name in columns if name in READ_COLUMNS] if source.random() < 0.9 else []) or columns


def overwrite_cells(database: sqlite3.Connection, source: random.Random) -> None:
    """Cells of any type and value, NULL where the schema forbids it."""
    allow_null(database)
    for _ in range(source.choice((1, 3, 10))):
        table, columns = pick_table(database, source)
        (last,) = database.execute(f'SELECT coalesce(max(rowid), 1) FROM "{table}"').fetchone()
        value, given = pick_value(source)
        is_long = any(isinstance(item, (str, bytes)) and len(item) > 100 for item in given) or "zeroblob" in value
        rows = [source.randint(1, last) for _ in range(5 if is_long else source.choice((1, 5, 50)))]
        # Long values in every row would make a file of gigabytes, whose memory says nothing.
        which = "1" if source.random() < 0.2 and not is_long else f"rowid IN ({', '.join(map(str, rows))})"
        with suppress(sqlite3.Error):
            database.execute(
                f'UPDATE OR IGNORE "{table}" SET "{source.choice(columns)}" = {value} WHERE {which}', given
            )


def pick_value(source: random.Random) -> tuple[str, tuple[object, ...]]:
    """Return SQL for a value, and what it takes."""
    kind = source.randrange(6)
    if kind == 0:
        return "NULL", ()
    if kind == 1:
        return f"CAST({source.choice(RAW_TEXTS)} AS TEXT)", ()
    if kind == 2:
        return "?", (source.randbytes(source.choice((0, 1, 8, 5_000))),)
    if kind == 3:
        return "?", (source.choice(TEXTS),)
    return "?", (source.choice(NUMBERS),)


def hostile_names(database: sqlite3.Connection, source: random.Random) -> None:
    """Other names for kernels, calls and ranges."""
    for table, column in (("StringIds", "value"), ("NVTX_EVENTS", "text"), ("TARGET_INFO_GPU", "name")):
        with suppress(sqlite3.Error):
            (last,) = database.execute(f"SELECT coalesce(max(rowid), 1) FROM {table}").fetchone()
            for _ in range(source.choice((1, 20))):
                value = f"CAST({source.choice(RAW_TEXTS)} AS TEXT)" if source.random() < 0.2 else "?"
                given = (source.choice(TEXTS),) if value == "?" else ()
                row = source.randint(1, last)
                database.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}", given)


def allow_null(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'")
    database.execute("PRAGMA writable_schema = RESET")


def forge_schema(database: sqlite3.Connection, source: random.Random) -> None:
    """Root pages of other tables, texts that are no SQL, objects that are no tables."""
    table, columns = pick_table(database, source)
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    column = source.choice(columns)
    root = source.choice((0, 1, -1, 2**31, pages, pages + 1, source.randint(1, pages)))
    change = source.choice(
        (
            f"rootpage = {root}",
            f"rootpage = (SELECT rootpage FROM sqlite_master ORDER BY rootpage LIMIT 1 OFFSET {source.randrange(9)})",
            f"sql = replace(sql, '{column}', '{source.choice(('x', 'start', '', chr(34)))}')",
            f"sql = substr(sql, 1, {source.randint(0, 300)})",
            "sql = NULL",
            "sql = CAST(x'ff' || sql AS TEXT)",
            f"type = '{source.choice(('view', 'index', 'trigger', 'TABLE', ''))}'",
            "name = name || '_V2'",
            "name = upper(name)",
            "sql = replace(sql, 'INTEGER', 'INTEGER PRIMARY KEY')",
            "sql = rtrim(sql, ')') || ', PRIMARY KEY (start)) WITHOUT ROWID'",
            f"sql = replace(sql, ' {column} ', ' {column} INTEGER GENERATED ALWAYS AS (1) VIRTUAL, y ')",
        )
    )
    database.execute("PRAGMA writable_schema = ON")
    database.execute(f"UPDATE sqlite_master SET {change} WHERE name = ?", (table,))


def alter_tables(database: sqlite3.Connection, source: random.Random) -> None:
    """Columns and tables that are gone, new, renamed, or in another's place."""
    for _ in range(source.choice((1, 4))):
        table, columns = pick_table(database, source)
        column = source.choice(columns)
        with suppress(sqlite3.Error):
            database.execute(
                source.choice(
                    (
                        f"ALTER TABLE {table} DROP COLUMN {column}",
                        f"ALTER TABLE {table} RENAME COLUMN {column} TO {column.upper()}_",
                        f"ALTER TABLE {table} ADD COLUMN extra TEXT DEFAULT 'x'",
                        f"DROP TABLE {table}",
                        f"DELETE FROM {table}",
                        f"DELETE FROM {table} WHERE rowid % 2",
                        f"INSERT INTO {table} SELECT * FROM {table}",
                        f"CREATE INDEX i{source.randrange(99)} ON {table} ({column})",
                    )
                )
            )


def flip_bytes(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 5, 50, 500))):
        content[source.randrange(len(content))] = source.randrange(256)


def flip_bits(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 20))):
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)


def forge_header(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 3))):
        content[source.randrange(16, 100)] = source.choice((0, 1, 2, 255, source.randrange(256)))


def cut_end(content: bytearray, source: random.Random) -> None:
    del content[source.randrange(1, len(content)) :]


def cut_end_in_silence(content: bytearray, source: random.Random) -> None:
    """Shorter, and the header says so: only the missing pages themselves betray it."""
    size = page_size(content)
    pages = max(1, source.randrange(max(2, len(content) // size)))
    del content[pages * size :]
    content[28:32] = pages.to_bytes(4, "big")


def replace_page(content: bytearray, source: random.Random) -> None:
    """Return a page of zeros, of noise, or of another place."""
    size, start = pick_page(content, source)
    _, other = pick_page(content, source)
    page = source.choice((bytes(size), source.randbytes(size), bytes(content[other : other + size])))
    content[start : start + size] = page[: len(content) - start]


def forge_page_header(content: bytearray, source: random.Random) -> None:
    """Return the kind, the number of cells, where they begin, the last child."""
    _, start = pick_page(content, source)
    place = start + (100 if start == 0 else 0)
    field, width = source.choice(((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4)))
    number = source.choice((0, 1, 2, 5, 10, 13, 255, 2 ** (8 * width) - 1, source.randrange(2 ** (8 * width))))
    write(content, place + field, (number % 2 ** (8 * width)).to_bytes(width, "big"))


def forge_cell_pointers(content: bytearray, source: random.Random) -> None:
    size, start = pick_page(content, source)
    for _ in range(source.choice((1, 10))):
        place = start + 8 + 2 * source.randrange(min(100, size // 4))
        write(
            content, place, source.choice((0, 7, size - 1, size - 3, 65535, source.randrange(65536))).to_bytes(2, "big")
        )


def link_in_circles(content: bytearray, source: random.Random) -> None:
    """Inner pages whose children are themselves, each other, or nowhere."""
    size = page_size(content)
    pages = max(1, len(content) // size)
    inner = [number for number in range(1, pages) if content[number * size] in (2, 5)]
    for number in source.sample(inner, min(len(inner), 3)):
        target = source.choice((number + 1, 0, 1, pages, pages + 7, source.choice(inner) + 1)).to_bytes(4, "big")
        if source.random() < 0.5:
            write(content, number * size + 8, target)
        else:
            (cells,) = struct.unpack_from(">H", content, number * size + 3)
            entry = number * size + 12 + 2 * source.randrange(max(1, min(cells, size // 8)))
            if entry + 2 <= len(content):
                write(content, number * size + struct.unpack_from(">H", content, entry)[0], target)


def forge_cells(content: bytearray, source: random.Random) -> None:
    """Lengths, keys and types at the start of cells of a leaf."""
    size = page_size(content)
    leaves = [start for start in range(size, len(content) - size, size) if content[start] == 13]
    if not leaves:
        return
    start = source.choice(leaves)
    (cells,) = struct.unpack_from(">H", content, start + 3)
    for _ in range(source.choice((1, 10))):
        entry = start + 8 + 2 * source.randrange(max(1, min(cells, size // 4)))
        (offset,) = struct.unpack_from(">H", content, entry)
        noise = source.choice((b"\xff" * 9, b"\x80" * 8, b"\x00", b"\x81\x00", b"\x0a\x0b", source.randbytes(4)))
        write(content, start + offset + source.randrange(12), noise)


def forge_overflow(content: bytearray, source: random.Random) -> None:
    """Pages that begin like a link of a chain: to themselves, to another, to none."""
    size, start = pick_page(content, source)
    target = source.choice((start // size + 1, 0, 1, len(content) // size + 1, 2**32 - 1))
    write(content, start, target.to_bytes(4, "big"))


def write(content: bytearray, place: int, value: bytes) -> None:
    """Overwrite within the file, never making it longer."""
    room = max(0, len(content) - place)
    content[place : place + min(room, len(value))] = value[:room]


def page_size(content: bytearray) -> int:
    """Return the size that the header names, or the usual one when the header is damaged already."""
    size = int.from_bytes(content[16:18], "big") or 4096
    size = 65536 if size == 1 else size
    return size if size in (512, 1024, 4096, 65536) else 4096


def pick_page(content: bytearray, source: random.Random) -> tuple[int, int]:
    size = page_size(content)
    return size, source.randrange(max(1, len(content) // size)) * size


SQL_DAMAGES: tuple[Callable[[sqlite3.Connection, random.Random], None], ...] = (
    alter_tables, hostile_names, overwrite_cells, forge_schema,
)  # fmt: skip
BYTE_DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bytes, flip_bits, forge_header, cut_end, cut_end_in_silence, replace_page, forge_page_header,
    forge_cell_pointers, link_in_circles, forge_cells, forge_overflow,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
