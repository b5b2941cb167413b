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
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
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
    with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        verdicts = list(pool.map(lambda trace: analyze(trace, arguments.folder, arguments.limit), traces))
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


def analyze(trace: Path, folder: Path, limit_s: float) -> Verdict:
    """Return what is said of a trace, by a process of its own. folder: the trace is named relative to it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nsysprof-corpus-") as work:
        command = [sys.executable, "-m", "nsysprof", "analyze", str(trace), "--out", f"{work}/out", "--no-figures"]
        environment = {**os.environ, "COLUMNS": "2000", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, errors="replace", timeout=limit_s, check=False
            )
            code, texts = done.returncode, (done.stderr if done.returncode else "", done.stdout)
        except subprocess.TimeoutExpired:
            code, texts = -9, ("", "")
        spoken = [line.strip() for text in texts for line in text.splitlines() if line.strip() not in HEADINGS]
        spoken = [line.replace(str(trace), trace.name).replace(f"{work}/", "") for line in spoken[:2]]
        name, found = plain_line(str(trace.relative_to(folder))), tuple(read_findings(Path(work) / "out"))
    return Verdict(name, code, time.monotonic() - began, tuple(map(plain_line, spoken)), found)


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
