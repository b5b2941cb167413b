"""Time `nsysprof analyze` against `nsys stats` and a bare SQLite scan on a large trace made from a real one.

    scripts/bench.py analyze                          10 million kernels, everything, in a temporary folder
    scripts/bench.py analyze --kernels 100000 --keep big.sqlite --no-nsys
    scripts/bench.py analyze --shape deep --phases    a training whose ranges nest four deep, and every phase of analyze
    scripts/bench.py analyze --shape all --no-nsys    ranges nested 0, 1, 4 and 12 deep, with 10, 300 and 30,000 names
    scripts/bench.py analyze --commands --no-nsys     also analyze with figures, both exports, compare and bundle

The shallow trace repeats the measured ranges of traces/h200-sdpa with their kernels, fills and API calls, each
repetition later and with correlation ids of its own; large_traces.py makes the others. Every command runs in a process
of its own; wall time and peak memory are the operating system's. Prints a Markdown table; --json prints the figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.benches.large_traces import made_from, make_deep_trace, repeat_rows
from scripts.benches.machine import BENCH, ROOT, Timing, load_now, machine, time_command
from scripts.benches.phases import render_phases

SOURCE = ROOT / "traces" / "h200-sdpa" / "nsys.sqlite.xz"
REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_gpu_proj_sum", "nvtx_kern_sum")
SCAN = (
    "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME",
)
# How many ranges enclose a kernel, and how many names the ranges have. The shallow trace is made otherwise.
SHAPES = {"shallow": (0, 0), "flat": (1, 10), "deep": (4, 300), "deepest": (12, 30_000)}
_REPEATED = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS")


def main() -> int:
    """Parse, make the trace, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=10_000_000, help="least number of kernels (default 10 million)")
    parser.add_argument("--keep", type=Path, help="make the trace here and keep it; one that is there is used")
    parser.add_argument("--nsys", type=Path, default=_default_nsys(), help="the nsys to compare with")
    parser.add_argument("--no-nsys", action="store_true", help="leave nsys stats out")
    parser.add_argument("--runs", type=int, default=3, help="runs of analyze and of the scan; the median counts")
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="shallow", help="how the ranges nest")
    parser.add_argument("--phases", action="store_true", help="print the time of every phase of one more analyze")
    parser.add_argument("--commands", action="store_true", help="also time figures, exports, compare and bundle, once")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    load = load_now()
    with tempfile.TemporaryDirectory(prefix="bench-analyze-") as scratch:
        nsys = None if arguments.no_nsys else arguments.nsys
        if nsys is None:
            print("nsys stats is left out: no nsys was found or wanted", file=sys.stderr)
        found = []
        for shape in SHAPES if arguments.shape == "all" else [arguments.shape]:
            trace = arguments.keep or Path(scratch) / f"{shape}.sqlite"
            if not trace.exists():
                make_shape(shape, trace, arguments.kernels)
            timings = measure(trace, nsys, Path(scratch), arguments.runs)
            timings += measure_commands(trace, Path(scratch)) if arguments.commands else []
            phases = time_phases(trace, Path(scratch)) if arguments.phases else None
            size = describe(trace)
            told = {"shape": shape, "trace": size, "timings": [asdict(t) for t in timings], "phases": phases}
            found.append({**told, "agreed": agree(trace, Path(scratch) / "out")})
            if not arguments.json:
                print(f"## {shape}\n\n{render(size, timings)}\n", flush=True)
                if phases is not None:
                    print(render_phases(f"Phases of analyze, {shape}", phases), "\n", flush=True)
            if arguments.keep is None:
                trace.unlink()
    if arguments.json:
        told = {"machine": machine(), "load": load, "runs": arguments.runs, "shapes": found}
        print(json.dumps(told, indent=1))
    return 0


def make_shape(shape: str, target: Path, kernels: int) -> None:
    """Write the trace of a shape."""
    nesting, names = SHAPES[shape]
    if nesting:
        make_deep_trace(target, kernels, nesting, names)
    else:
        make_trace(target, kernels)


def time_phases(trace: Path, scratch: Path) -> dict[str, Any]:
    """Return the phases of one analyze in a process of its own, as scripts/benches/phases.py prints them."""
    argv = [sys.executable, BENCH, "phases", *analyze_command(trace, scratch / "out")[3:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench analyze: the phases failed:\n{done.stderr}")
    phases: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return phases


def make_trace(target: Path, kernels: int) -> None:
    """Write a trace with at least `kernels` kernels to `target`."""
    ours = (
        "eventType IN (59, 60) AND coalesce(text, (SELECT value FROM source.StringIds WHERE id = textId)) GLOB 'RUN::*'"
    )
    kernel, inside = "source.CUPTI_ACTIVITY_KIND_KERNEL", "correlationId IN (SELECT id FROM temp.inside)"
    with made_from(SOURCE, target, emptied=_REPEATED) as database:
        database.execute("DELETE FROM CUDA_GPU_MEMORY_USAGE_EVENTS")  # repeated, its frees would meet other allocations
        database.execute(
            "CREATE TEMP TABLE inside AS SELECT correlationId AS id FROM source.CUPTI_ACTIVITY_KIND_RUNTIME AS call "
            f"WHERE EXISTS (SELECT 1 FROM source.NVTX_EVENTS AS n WHERE {ours} AND n.start <= call.start AND "
            "call.end <= n.end)"
        )
        first, last_range = database.execute(
            f"SELECT min(start), max(end) FROM source.NVTX_EVENTS WHERE {ours}"
        ).fetchone()
        one, last_kernel = database.execute(f"SELECT count(*), max(end) FROM {kernel} WHERE {inside}").fetchone()
        (ids,) = database.execute("SELECT max(id) - min(id) + 1 FROM temp.inside").fetchone()
        shift = max(last_kernel, last_range) - first + 1000
        moved = {column: f"{column} + k * {shift}" for column in ("start", "end")}
        moved["correlationId"] = f"correlationId + k * {ids}"
        for table in _REPEATED:
            where = ours if table == "NVTX_EVENTS" else inside
            rows = f"source.{table} AS one WHERE {where}"
            repeat_rows(database, rows, table, range(-(-kernels // one)), moved)


def measure(trace: Path, nsys: Path | None, scratch: Path, runs: int) -> list[Timing]:
    """Time the bare scan and analyze in turn, so that both see the same machine, and then each nsys report once.

    With more than one run, one more scan before them brings the file into the page cache.
    """
    code = f"import sqlite3; c = sqlite3.connect({str(trace)!r})\nfor scan in {SCAN!r}: c.execute(scan).fetchall()"
    commands = {
        "bare scan": [sys.executable, "-c", code],
        "nsysprof analyze --no-figures": analyze_command(trace, scratch / "out"),
    }
    if runs > 1:
        time_command("bare scan, not counted", commands["bare scan"])
    turns = [[time_command(name, argv) for name, argv in commands.items()] for _ in range(runs)]
    timings = [_middle(each) for each in zip(*turns, strict=True)]
    for report in REPORTS if nsys else ():
        out = scratch / report
        argv = [str(nsys), "stats", "-r", report, "-f", "csv", "-o", str(out), "--force-overwrite=true", str(trace)]
        timings.append(time_command(f"nsys stats {report}", argv))
    return timings


def measure_commands(trace: Path, scratch: Path) -> list[Timing]:
    """Time the other commands that read a whole trace, once each; what they write is deleted."""
    source, out = str(trace), scratch / "commands"
    commands = {
        "nsysprof analyze": ["analyze", source, "--out", str(out)],
        "nsysprof export --perfetto": ["export", source, "--perfetto", str(out)],
        "nsysprof export --parquet": ["export", source, "--parquet", str(out)],
        "nsysprof compare": ["compare", source, source, "--out", str(out)],
        "nsysprof bundle": ["bundle", source, "--max-size", "4000", "--out", f"{out}.zip"],
    }
    found = []
    for name, argv in commands.items():
        out = Path(argv[-1])
        found.append(time_command(name, [sys.executable, "-m", "nsysprof", *argv]))
        if out.is_dir():
            shutil.rmtree(out)
        else:
            out.unlink()
    return found


def analyze_command(trace: Path, out: Path) -> list[str]:
    """Return the command line of ours that is timed."""
    return [sys.executable, "-m", "nsysprof", "analyze", str(trace), "--no-figures", "--force", "--out", str(out)]


def _middle(turns: Sequence[Timing]) -> Timing:
    done = sorted(turns, key=lambda timing: timing.wall_s)
    return done[len(done) // 2]


def describe(trace: Path) -> dict[str, int]:
    """Rows and bytes of the trace."""
    database = sqlite3.connect(trace.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)
    count = {
        name: int(database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0)
        for name, table in zip(("kernels", "api_calls", "fills", "ranges"), _REPEATED, strict=True)
    }
    database.close()
    return {**count, "bytes": trace.stat().st_size}


def render(size: dict[str, int], timings: list[Timing]) -> str:
    """Return the Markdown table with ratios to ours."""
    ours = next(t for t in timings if t.name.startswith("nsysprof"))
    scan = timings[0]
    peers = [t for t in timings if t.name.startswith("nsys stats")]
    lines = [
        f"{size['kernels']:,} kernels, {size['api_calls']:,} API calls, {size['ranges']:,} ranges, "
        f"{size['bytes'] / 1e9:.2f} GB; {machine()}",
        "",
        "| command | wall (s) | processor (s) | peak memory (GiB) | wall / ours |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {t.name} | {t.wall_s:.2f} | {t.cpu_s:.2f} | {t.peak_bytes / 2**30:.2f} | {t.wall_s / ours.wall_s:.1f} |"
        for t in timings
    ]
    if peers:
        total = sum(t.wall_s for t in peers)
        lines.append(
            f"| nsys stats, all {len(peers)} | {total:.2f} | {sum(t.cpu_s for t in peers):.2f} | "
            f"{max(t.peak_bytes for t in peers) / 2**30:.2f} | {total / ours.wall_s:.1f} |"
        )
    wall, cpu = ours.wall_s / scan.wall_s, ours.cpu_s / scan.cpu_s
    lines += ["", f"analyze takes {wall:.1f} times the bare scan, and {cpu:.1f} times its processor time."]
    return "\n".join(lines)


def agree(trace: Path, out: Path) -> dict[str, int]:
    """Return kernels and times (ns) as an analysis has them, after comparing them with what SQLite adds up."""
    with closing(sqlite3.connect(trace)) as database:
        (kernel_ns,), (call_ns,) = (database.execute(scan).fetchone() for scan in SCAN)
        (kernels,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    wanted = {"kernels": kernels, "kernel_ns": kernel_ns, "call_ns": call_ns}
    with (out / "kernels.csv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    with (out / "api.csv").open(encoding="utf-8") as table:
        calls = [int(row["total_ns"]) for row in csv.DictReader(table)]
    ours = {"kernels": sum(int(row["instances"]) for row in rows)}
    ours |= {"kernel_ns": sum(int(row["total_ns"]) for row in rows), "call_ns": sum(calls)}
    if ours != wanted:
        raise SystemExit(f"bench analyze: the analysis has {ours}, and SQLite {wanted}")
    return ours


def _default_nsys() -> Path | None:
    found = os.environ.get("NSYSPROF_NSYS") or shutil.which("nsys")
    local = ROOT / ".nsys" / "bin" / "nsys"
    return Path(found) if found else local if local.exists() else None
