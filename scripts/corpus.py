#!/usr/bin/env python3
"""Analyse every trace below a folder, and print what `nsysprof analyze` says of each as one table.

    scripts/corpus.py FOLDER                          exit code, seconds, first two lines and findings of each trace
    scripts/corpus.py FOLDER --expect FILE            fail where a trace says something else than FILE, without seconds
    scripts/corpus.py FOLDER --expect FILE --write    write FILE

Read it to find sentences that are false. Nothing is fetched, and nothing is written below FOLDER.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import gzip
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from nsysprof.cli import main as run_command  # noqa: E402
from nsysprof.plain_text import plain_line  # noqa: E402
from nsysprof.units import format_ns  # noqa: E402

PACKED = ("", ".xz", ".gz", ".zst")
SUFFIXES = (*(f".sqlite{packed}" for packed in PACKED), ".nsys-rep", ".qdrep", ".zip")
HEADINGS = frozenset({"Overview", "Findings", "Fastest backends", "Ranges", ""})
# Where one analysis holds a core for longer than this, it is killed: its exit code is -9.
DEFAULT_LIMIT_S = 120.0


@dataclass(frozen=True)
class Verdict:
    """What `analyze` said of one trace."""

    trace: str
    exit_code: int
    seconds: float
    lines: tuple[str, ...]
    findings: tuple[str, ...]

    def render(self, *, has_seconds: bool) -> str:
        """Return the rows of the table, the further ones indented."""
        head = f"{self.trace}  exit {self.exit_code}" + (f"  {self.seconds:.1f} s" if has_seconds else "")
        rows = [head, *(f"    {line}" for line in self.lines), *(f"    * {finding}" for finding in self.findings)]
        return "\n".join(rows)


@dataclass(frozen=True)
class Running:
    """An analysis that has begun. folder: where it writes its results and what it prints."""

    trace: Path
    process: ForkProcess
    started: float
    folder: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="read all traces below it")
    parser.add_argument("--expect", type=Path, metavar="FILE", help="what they must say")
    parser.add_argument("--write", action="store_true", help="write FILE instead")
    parser.add_argument("--only", default="", metavar="TEXT", help="only traces whose path has this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="analyses at once")
    parser.add_argument("--limit", type=float, default=DEFAULT_LIMIT_S, help="most seconds of one analysis")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"corpus.py: {arguments.folder} is not a folder.", file=sys.stderr)
        return 2
    if arguments.write and arguments.expect is None:
        print("corpus.py: --write needs --expect FILE.", file=sys.stderr)
        return 2
    traces = [path for path in find_traces(arguments.folder) if arguments.only in str(path)]
    if not traces:
        print(f"corpus.py: there is no trace below {arguments.folder}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="nsysprof-corpus-") as work:
        verdicts = analyze_all(arguments.folder, traces, Path(work), jobs=arguments.jobs, limit_s=arguments.limit)
    print("\n".join(verdict.render(has_seconds=True) for verdict in verdicts))
    if arguments.expect is None:
        return 0
    return judge([verdict.render(has_seconds=False) for verdict in verdicts], arguments.expect, write=arguments.write)


def find_traces(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that look like traces by name, or by content where they are JSON."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.name.endswith(SUFFIXES) or is_kineto(path)):
            yield path


def is_kineto(path: Path) -> bool:
    """Return whether a file is JSON with the header of torch.profiler's traces."""
    if not path.name.endswith((".json", ".json.gz")):
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            head = stream.read(1 << 14)
    except (OSError, EOFError):
        return False
    return b'"traceEvents"' in head or b'"schemaVersion"' in head


def analyze_all(
    folder: Path, traces: Sequence[Path], work: Path, *, jobs: int = 1, limit_s: float = DEFAULT_LIMIT_S
) -> list[Verdict]:
    """Return what is said of each trace, in the given order.

    Each has a process of its own, so that a crash is an exit code. It is forked, so that modules are loaded once.
    """
    waiting = list(enumerate(traces))[::-1]
    running: list[Running] = []
    verdicts: dict[Path, Verdict] = {}
    while waiting or running:
        while waiting and len(running) < max(1, jobs):
            number, trace = waiting.pop()
            running.append(begin(trace, work / str(number)))
        wait([one.process.sentinel for one in running], timeout=1)
        for one in list(running):
            if one.process.is_alive() and time.monotonic() - one.started > limit_s:
                one.process.kill()
                one.process.join()
            if not one.process.is_alive():
                running.remove(one)
                verdicts[one.trace] = end(one, folder)
    return [verdicts[trace] for trace in traces]


def begin(trace: Path, folder: Path) -> Running:
    """Begin to analyse a trace in a process of its own, which writes into the folder."""
    folder.mkdir()
    process = multiprocessing.get_context("fork").Process(target=analyze, args=(trace, folder))
    process.start()
    return Running(trace, process, time.monotonic(), folder)


def analyze(trace: Path, folder: Path) -> None:
    """Run the command in this process, which must not go on afterwards."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, number)
    os.environ.update(COLUMNS="2000", NO_COLOR="1")
    sys.argv = ["nsysprof", "analyze", str(trace), "--out", str(folder / "out"), "--no-figures"]
    run_command()


def end(done: Running, folder: Path) -> Verdict:
    """Return what an analysis that has ended said. folder: the traces are named relative to it."""
    seconds = time.monotonic() - done.started
    done.process.join()
    code = done.process.exitcode
    printed = [(done.folder / name).read_text("utf-8", "replace").splitlines() for name in ("stderr", "stdout")]
    spoken = [line.strip() for line in (*(printed[0] if code else ()), *printed[1]) if line.strip() not in HEADINGS]
    spoken = [line.replace(str(done.trace), done.trace.name).replace(f"{done.folder}/", "") for line in spoken[:2]]
    lines = tuple(map(plain_line, spoken))
    name = plain_line(str(done.trace.relative_to(folder)))
    return Verdict(name, -1 if code is None else code, seconds, lines, tuple(read_findings(done.folder / "out")))


def read_findings(out: Path) -> Iterator[str]:
    """Yield each finding of an analysis as its code, range and saving."""
    path = out / "findings.csv"
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            saved = format_ns(int(row["saving_ns"])) if row.get("saving_ns") else "unknown"
            yield f"{row['code']}: {saved} in {row['range'] or '(no range)'}"


def judge(rendered: Sequence[str], expectation: Path, *, write: bool) -> int:
    """Return 0 where the traces say what the file has, else 1 with the differences on stderr."""
    text = "\n".join(rendered) + "\n"
    if write:
        expectation.write_text(text, encoding="utf-8")
        return 0
    expected = expectation.read_text(encoding="utf-8") if expectation.is_file() else ""
    if text == expected:
        return 0
    changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "said now", lineterm="", n=1)
    print("\n".join(changes), file=sys.stderr)
    print("corpus.py: where the new sentences are right, run it again with --write.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
