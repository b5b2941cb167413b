"""Time `nsysprof analyze` of many traces on 1 and 2 workers, against NVIDIA's own recipes with their Dask mode.

    scripts/bench.py ranks                              64 traces of 20 MB, ours alone
    scripts/bench.py ranks --recipe-python venv/bin/python --nsys .nsys/bin/nsys
    scripts/bench.py ranks --recipe-python venv/bin/python --nsys .nsys/bin/nsys --write
                          also write analysis/speed/ranks-64.json, of which scripts/generate_docs.py makes a table
                          (4 minutes)
    scripts/bench.py ranks --traces 8 --repeat 2 --json
    scripts/bench.py ranks --repeat 100 --peers all ...

The traces repeat the work of traces/ddp_rank0 and ddp_rank1, each repetition later and with correlation ids of its own.
N workers run on N cores, ours and the peers', so that a worker's threads do not borrow another's. What takes less than
half a minute has several turns, ours on 1 and on 2 workers one after the other, and the median counts.

The peers are the recipes that make what one of our runs makes, in mode dask-futures on Parquet and SQLite files that
lie ready. Those that are reports in SQL (cuda_gpu_kern_sum, cuda_api_sum, ...) need an SQLite library that not every
nsys package has; without it the report itself is timed, by nsys stats, as many at a time as workers: the recipe has to
start Dask and to merge as well.
The Python for recipes needs pandas<2.3, numpy<2, pyarrow<18, psutil, dask and distributed, as of nsys 2024.2.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from scripts.benches.large_traces import repeat_rows
from scripts.benches.machine import ROOT, SPEED, load_now, machine, time_command, write_measured

ONE, TWO = "ours, 1 worker", "ours, 2 workers"
TWICE = "ours, 1 worker, two such at once"
REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum")
RECIPES = ("nvtx_gpu_proj_sum", "nvtx_sum", "nccl_gpu_overlap_trace")
# Those that the comparison is named after; with the others, all tables that one of our runs writes.
NAMED = (REPORTS[0], RECIPES[0])
_REPEATED = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS",
)  # fmt: skip
_GRAPHS = ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
_RANGE_TYPES = (59, 60)
_SHORT_S = 30.0


def main() -> int:
    """Parse, make the traces, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=26, help="repetitions of 2,200 kernels and 13,000 calls in each")
    parser.add_argument("--turns", type=int, default=3, help="how often what is short is timed (default 3)")
    parser.add_argument("--nsys", type=Path, help="the nsys whose stats and recipes are the peer")
    parser.add_argument("--recipe-python", type=Path, help="a Python that has what nsys recipe needs")
    parser.add_argument("--peers", default=",".join(NAMED), help="which of nsys' recipes; all for the six")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write analysis/speed/ranks-TRACES.json")
    arguments = parser.parse_args()
    measured = {"machine": machine(), "load": load_now(), **measure(arguments)}
    print(json.dumps(measured, indent=1) if arguments.json else render_ranks(measured))
    if arguments.write:
        write_measured(SPEED / f"ranks-{arguments.traces}.json", measured)
    return 0


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how many traces of which size were read, and the seconds of each turn of each command."""
    with tempfile.TemporaryDirectory(prefix="bench-ranks-") as folder:
        scratch = Path(folder)
        traces = make_traces(scratch / "traces", arguments.traces, arguments.repeat)
        size = sum(path.stat().st_size for path in traces.iterdir() if path.suffix == ".sqlite")
        turns: dict[str, list[float]] = {ONE: [], TWO: []}
        for _ in range(arguments.turns):
            for workers, name in enumerate((ONE, TWO), 1):
                turns[name].append(run_ours(traces, scratch / f"out{workers}", workers))
        turns[TWICE] = in_turns(lambda: run_twice(traces, scratch), arguments.turns)
        if arguments.nsys is not None and arguments.recipe_python is not None:
            write_all_parquet(traces)
            for peer in REPORTS + RECIPES if arguments.peers == "all" else arguments.peers.split(","):
                name, run = peer_of(peer, traces, scratch, arguments.nsys, arguments.recipe_python)
                turns[name] = in_turns(run, arguments.turns)
    return {"traces": arguments.traces, "bytes": size, "turns": turns}


def in_turns(run: Callable[[], float], turns: int) -> list[float]:
    """Return the seconds of several runs, or of one that is long."""
    found = [run()]
    while len(found) < turns and found[0] < _SHORT_S:
        found.append(run())
    return found


def peer_of(peer: str, traces: Path, scratch: Path, nsys: Path, python: Path) -> tuple[str, Callable[[], float]]:
    """Return the name and the run of a recipe or, where the package lacks what it needs, of the report that it uses."""
    if run_recipe(peer, traces, scratch, nsys, python, inputs=2) is not None:
        return f"nsys recipe {peer}", lambda: run_recipe(peer, traces, scratch, nsys, python) or 0.0
    if peer in REPORTS:
        return f"nsys stats {peer}", lambda: run_stats(traces, nsys, peer, 2)
    raise SystemExit(f"bench ranks: the recipe {peer} failed; what it said is above")


def make_traces(folder: Path, count: int, repeat: int) -> Path:
    """rank0.sqlite, rank1.sqlite, ...: even ones as of rank 0, odd ones of rank 1."""
    folder.mkdir()
    for rank in range(count):
        target = folder / f"rank{rank}.sqlite"
        # nsys takes an export for valid that is younger than the report beside it.
        target.with_suffix(".nsys-rep").touch()
        if rank < 2:
            target.write_bytes(lzma.decompress((ROOT / f"traces/ddp_rank{rank}.sqlite.xz").read_bytes()))
            repeat_work(target, repeat)
        else:
            shutil.copyfile(folder / f"rank{rank % 2}.sqlite", target)
    os.sync()  # writing them to the disk is nobody's time
    return folder


def repeat_work(trace: Path, repeat: int) -> None:
    """Append copies of all work, each later by the length of the trace."""
    with closing(sqlite3.connect(trace)) as database:
        database.execute("DELETE FROM CUDA_GPU_MEMORY_USAGE_EVENTS")  # repeated, its frees would meet other allocations
        end = max(database.execute(f"SELECT max(end) FROM {table}").fetchone()[0] for table in _REPEATED)
        (ids,) = database.execute("SELECT max(correlationId) + 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
        moved = {
            "start": f"start + k * {end}",
            "end": f"end + k * {end}",
            "correlationId": f"correlationId + k * {ids}",
        }
        for table in _REPEATED:
            only = f"WHERE eventType IN {_RANGE_TYPES}" if table == "NVTX_EVENTS" else ""
            database.execute(f"CREATE TEMP TABLE work AS SELECT * FROM {table} {only}")
            repeat_rows(database, "temp.work AS one", table, range(1, repeat), moved)
            database.execute("DROP TABLE temp.work")
        database.commit()


def run_ours(traces: Path, out: Path, workers: int, processors: list[int] | None = None) -> float:
    """Seconds of the whole command on as many processors as workers."""
    argv = [sys.executable, "-m", "nsysprof", "analyze", str(traces), "--no-figures", "--force", "--out", str(out)]
    pinned = pin(processors or allowed_processors()[:workers])
    return time_command("nsysprof analyze", [*argv, "--workers", str(workers)], preexec_fn=pinned).wall_s


def run_twice(traces: Path, scratch: Path) -> float:
    """Seconds of two runs that share nothing but the machine, all traces each: what two workers could do at best."""
    with ThreadPoolExecutor(2) as pool:
        processors = allowed_processors()[:2]
        return max(pool.map(lambda each: run_ours(traces, scratch / f"twice{each}", 1, [each]), processors))


def allowed_processors() -> list[int]:
    """Those that this process may use, one of each core: two threads of a core are no two workers."""
    cores: dict[str, int] = {}
    for number in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else str(number), number)
    return sorted(cores.values())


def pin(processors: list[int]) -> Callable[[], None]:
    """For a child, before it runs."""
    return lambda: os.sched_setaffinity(0, processors)


def run_stats(traces: Path, nsys: Path, report: str, workers: int) -> float:
    """Seconds of the report for all traces, some at a time, on as many processors."""
    pinned = pin(allowed_processors()[:workers])

    def one(trace: Path) -> None:
        argv = [str(nsys), "stats", "-q", "-r", report, "-f", "csv", "-o", "-", str(trace)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pinned)

    begin = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, sorted(traces.glob("*.sqlite"))))
    return time.perf_counter() - begin


def write_all_parquet(traces: Path) -> None:
    """Prepare the recipes' input, before the clock runs."""
    for rank, trace in enumerate(sorted(traces.glob("*.sqlite"), key=lambda path: int(path.stem.removeprefix("rank")))):
        folder = trace.with_name(f"{trace.stem}_pqtdir")
        if rank < 2:
            write_parquet(trace, folder)
        else:
            shutil.copytree(traces / f"rank{rank % 2}_pqtdir", folder)
    os.sync()


def run_recipe(
    recipe: str, traces: Path, scratch: Path, nsys: Path, python: Path, inputs: int | None = None
) -> float | None:
    """Seconds of a recipe with two workers, None where it fails or writes nothing.

    inputs: how many of the traces; None for all.
    """
    root = recipe_root(scratch / "nsys", nsys)
    environment = {
        **os.environ, "NSYS_DIR": str(root), "NSYS_DASK_N_WORKERS": "2", "NSYS_DASK_THREADS_PER_WORKER": "1",
        "PYTHONPATH": str(root / "target-linux-x64/python/packages"),
    }  # fmt: skip
    source = traces
    if inputs is not None:
        source = scratch / f"some-{recipe}"
        source.mkdir()
        for rank in range(inputs):
            for path in traces.glob(f"rank{rank}[._]*"):
                (source / path.name).symlink_to(path)
    argv = [str(python), "-m", "nsys_recipe", recipe, "--input", str(source), "--mode", "dask-futures", "--csv"]
    out = scratch / recipe
    shutil.rmtree(out, ignore_errors=True)
    begin = time.perf_counter()
    done = subprocess.run(
        [*argv, "--output", str(out)], env=environment, capture_output=True, text=True, check=False,
        preexec_fn=pin(allowed_processors()[:2]),
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    if done.returncode:
        print(f"bench ranks: {recipe} failed:\n{done.stdout[-500:]}{done.stderr[-1000:]}", file=sys.stderr)
    wrote = out.is_dir() and any(path.suffix == ".csv" and path.name != "files.csv" for path in out.iterdir())
    return seconds if wrote else None


def write_parquet(trace: Path, folder: Path) -> None:
    """Write the Parquet files of nsys export, with the graph tables that the recipe needs and the trace lacks."""
    import pyarrow as pa
    from pyarrow import parquet

    from tests.builders.generations import schema
    from tests.trace.parquet_writer import write_parquet_folder

    write_parquet_folder(trace, folder)
    for table in _GRAPHS:
        unsigned = {"globalPid", "globalTid", "graphNodeId"}
        columns = {
            name: pa.array([], pa.uint64() if name in unsigned else pa.int64()) for name in schema("2024.2")[table]
        }
        parquet.write_table(pa.table(columns), folder / f"{table}.parquet")


def recipe_root(folder: Path, nsys: Path) -> Path:
    """Return an nsys directory with all that recipes need; what a package without third_party lacks is replaced."""
    if folder.exists():
        return folder
    real = next(path for path in nsys.resolve().parents if (path / "target-linux-x64").is_dir())
    target = folder / "target-linux-x64"
    shutil.copytree(real / "target-linux-x64" / "python", target / "python")
    (target / "python/packages/nsys_recipe/third_party").mkdir(exist_ok=True)
    for path in (real / "target-linux-x64").iterdir():
        if path.name != "python":
            (target / path.name).symlink_to(path)
    if not (target / "libsqlite3.so.0").exists():
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        library = next(line.split()[-1] for line in listed.splitlines() if "libsqlite3.so.0" in line)
        (target / "libsqlite3.so.0").symlink_to(library)
    return folder


def render_ranks(measured: dict[str, Any]) -> str:
    """Return what was measured as Markdown: a table, and how much two workers gain."""
    seconds = {name: statistics.median(turns) for name, turns in measured["turns"].items()}
    two = seconds[TWO]
    lines = [
        f"{measured['traces']} traces, {measured['bytes'] / 1e9:.2f} GB; {measured['machine']}, load "
        f"{measured['load']} at the start:",
        "",
        "| command | seconds | times ours, 2 workers |",
        "|---|---:|---:|",
    ]
    peers = {name: each for name, each in seconds.items() if name.startswith("nsys")}
    for name, each in seconds.items():
        if name != TWICE:
            lines.append(f"| {name} | {each:.1f} | {each / two:.1f} |")
    named = [each for name, each in peers.items() if name.endswith(NAMED)]
    if len(named) == len(NAMED):
        lines.append(f"| {' and '.join(NAMED)} | {sum(named):.1f} | {sum(named) / two:.1f} |")
    if len(peers) == len(REPORTS) + len(RECIPES):
        lines.append(f"| all of nsys | {sum(peers.values()):.1f} | {sum(peers.values()) / two:.1f} |")
    efficiency, bound = seconds[ONE] / two / 2, seconds[ONE] / seconds[TWICE]
    said = f"The efficiency of 2 workers is {efficiency:.2f}; two runs of 1 worker at once, which share nothing, reach "
    return "\n".join([*lines, "", f"{said}{bound:.2f} here."]) + "\n"
