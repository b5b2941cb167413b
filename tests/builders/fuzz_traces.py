#!/usr/bin/env python3
"""Damage traces in every known way, and check that analyze ends with a result or with one of our errors.

    fuzz_traces.py                                      2000 files made from traces/, on every core
    fuzz_traces.py --files 200 --seed 7 --json
    fuzz_traces.py --only 1234                          one file of that run again, with its traceback
    fuzz_traces.py --readers --files 5000               by both readers, whose tables must be equal
    fuzz_traces.py --reports a.sqlite b.sqlite          from these, and write the report and the exports of each too
    fuzz_traces.py --package ../other                   the nsysprof of another checkout

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
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.export.content import Content
    from nsysprof.results.analysis import Analysis

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.builders.damaged_traces import BYTE_DAMAGES, SQL_DAMAGES, overwrite_cells  # noqa: E402

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


def limit_memory(more_bytes: int) -> None:
    """Limit this process to the address space that it has and `more_bytes`."""
    statm = Path("/proc/self/statm")
    held = int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (held + more_bytes, resource.RLIM_INFINITY))


def examine(job: Job, path: Path) -> str:
    """Analyse the file or compare the readers; what is wrong with what came of it."""
    if not job.readers:
        return analyze(path, reports=job.reports)
    from tests.trace.compare_readers import compare_readers

    return compare_readers(path)


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


if __name__ == "__main__":
    sys.exit(main())
