"""Try out options of nsys with a program that does a known amount of work, and see which ones lose data."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.files.plain_file import VERSION, FileHeader, encode_json, read_json, write_whole
from nsysprof.notes import Note, make_note
from nsysprof.nsight.nsys import (
    explain_profile_failure,
    gpu_metrics_options,
    knows_software_trace,
    profile_argv,
    run_export,
)
from nsysprof.nsight.run_tool import run_tool
from nsysprof.results.checks import ProbeResult, ProbeVerdict

_PROGRAM = Path(__file__).parents[2] / "workload" / "probe_program.py"
_TRY_S = 120.0
_METRICS_HZ = 10_000
_PID_SHIFT, _PID_BITS = 24, 0xFFFFFF
_KERNELS, _GRAPHS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_WITHOUT_FORKS, _ALL = ("main", "spawned"), ("main", "spawned", "forked")


@dataclass(frozen=True)
class Variant:
    """A set of options to try."""

    name: str
    # These replace the options of the same name that capture gives.
    options: tuple[str, ...]
    # Which processes of the program must be recorded.
    processes: tuple[str, ...] = _WITHOUT_FORKS
    # Whether graphs are recorded as wholes.
    whole_graphs: bool = False


USUAL = Variant("usual", ())
# From the most to the least complete. capture uses the first that loses nothing.
LADDER = (
    USUAL,
    Variant("without-memory", ("--cuda-memory-usage=false",)),
    Variant("software", ("--trace=cuda-sw,nvtx",)),
    Variant("software-without-memory", ("--trace=cuda-sw,nvtx", "--cuda-memory-usage=false")),
    Variant("whole-graphs", ("--cuda-memory-usage=false", "--cuda-graph-trace=graph"), whole_graphs=True),
    Variant(
        "least", ("--cuda-memory-usage=false", "--cuda-graph-trace=graph", "--cuda-flush-interval=0"), whole_graphs=True
    ),
)
# Options that a user may request.
ON_REQUEST = (
    Variant("graphs-as-wholes", ("--cuda-graph-trace=graph",), whole_graphs=True),
    Variant("forks", ("--trace-fork-before-exec=true",), _ALL),
    Variant("backtraces", ("--sample=process-tree", "--cudabacktrace=kernel:0")),
)
METRICS = "gpu-metrics"


def has_driver() -> bool:
    """Return whether there is a CUDA driver. It is loaded but not used."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def variants_of(nsys: Path, *, everything: bool) -> tuple[Variant, ...]:
    """Return what to try with this nsys.

    everything: whether to include what is only recorded on request.
    """
    software = knows_software_trace(nsys)
    tried = [variant for variant in LADDER if software or not variant.name.startswith("software")]
    if everything:
        tried += ON_REQUEST
        options, _ = gpu_metrics_options(nsys, _METRICS_HZ)
        tried += [Variant(METRICS, options)] if options else []
    return tuple(tried)


def run_probe(nsys: Path, variant: Variant) -> ProbeResult:
    """Record the program with these options, and return what was recorded."""
    began = time.monotonic()

    def result(verdict: ProbeVerdict, text: str, expected: int = 0, recorded: int = 0) -> ProbeResult:
        return ProbeResult(
            variant.name, variant.options, verdict, text, expected, recorded, round(time.monotonic() - began, 2)
        )

    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        counts, report, trace = (Path(scratch) / name for name in ("counts", "try.nsys-rep", "try.sqlite"))
        program = [sys.executable, str(_PROGRAM), str(counts)]
        try:
            done = run_tool(profile_argv(nsys, report.with_suffix(""), program, variant.options), timeout_s=_TRY_S)
        except ToolFailedError as error:
            return result(ProbeVerdict.FAILED, error.text)
        did = _read_counts(counts)
        if "main" not in did:
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("no CUDA")]
            if said:
                return result(ProbeVerdict.UNKNOWN, said[-1])
            return result(ProbeVerdict.FAILED, explain_profile_failure(done.returncode, done.stdout + done.stderr).text)
        if not report.exists():
            return result(ProbeVerdict.FAILED, explain_profile_failure(done.returncode, done.stdout + done.stderr).text)
        _, failure = run_export(nsys, report, trace, timeout_s=_TRY_S)
        if failure is not None:
            return result(ProbeVerdict.FAILED, failure.text)
        return result(*_compare(did, trace, variant))


def run_ladder(nsys: Path, say: Callable[[str], None]) -> tuple[ProbeResult, ...]:
    """Try options from the most to the least complete until some lose nothing, and return every result."""
    results: list[ProbeResult] = []
    for variant in variants_of(nsys, everything=False):
        say(f"trying nsys once on this machine: {variant.name}")
        results.append(run_probe(nsys, variant))
        if results[-1].verdict in (ProbeVerdict.COMPLETE, ProbeVerdict.UNKNOWN):
            break
    return tuple(results)


def choose_options(results: Sequence[ProbeResult]) -> tuple[tuple[str, ...], ProbeResult | None]:
    """Return the options of the most complete recording that lost nothing, and the usual options' result.

    The result is None where the usual options lost nothing. Where every recording lost data there are no options,
    because nothing is known to be better.
    """
    by_name = {result.name: result for result in results}
    usual = by_name.get(USUAL.name)
    if usual is None or usual.verdict in (ProbeVerdict.COMPLETE, ProbeVerdict.UNKNOWN):
        return (), None
    by_rank = (by_name[result.name] for result in LADDER if result.name in by_name)
    best = next((result for result in by_rank if result.verdict is ProbeVerdict.COMPLETE), None)
    return (best.options if best else ()), usual


def _read_counts(path: Path) -> dict[str, dict[str, int]]:
    counts = {}
    for name in _ALL:
        with contextlib.suppress(OSError, ValueError):
            counts[name] = json.loads(Path(f"{path}.{name}").read_text(encoding="utf-8"))
    return counts


def _compare(did: Mapping[str, Mapping[str, int]], trace: Path, variant: Variant) -> tuple[ProbeVerdict, str, int, int]:
    """Return the verdict, its reason, and how many kernels and graphs should have been and were recorded."""
    expected_all, recorded_all, gone = 0, 0, []
    launched, nodes, graphs = _count(trace)
    for name in variant.processes:
        if name not in did:
            continue
        facts, pid = did[name], did[name]["pid"]
        wanted = {"kernels": (facts["launches"], launched.get(pid, 0))}
        if variant.whole_graphs and not nodes.get(pid):
            wanted["replays of graphs"] = (facts["replays"], graphs.get(pid, 0))
        else:
            wanted["kernels of graphs"] = (facts["nodes"], nodes.get(pid, 0))
        for what, (expected, recorded) in wanted.items():
            expected_all, recorded_all = expected_all + expected, recorded_all + recorded
            if recorded != expected:
                gone.append(f"{recorded} of {expected} {what} of the {name} process")
    if gone:
        return ProbeVerdict.LOST, f"recorded {'; '.join(gone)}", expected_all, recorded_all
    return ProbeVerdict.COMPLETE, f"{recorded_all} of {expected_all} recorded", expected_all, recorded_all


def _count(trace: Path) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Return for each process how many launched kernels, kernels of graphs and whole graphs were recorded."""
    pid = f"(globalPid >> {_PID_SHIFT}) & {_PID_BITS}"
    queries = (
        f"SELECT {pid}, count(*) FROM {_KERNELS} WHERE graphNodeId IS NULL OR graphNodeId = 0 GROUP BY 1",
        f"SELECT {pid}, count(*) FROM {_KERNELS} WHERE graphNodeId > 0 GROUP BY 1",
        f"SELECT {pid}, count(*) FROM {_GRAPHS} GROUP BY 1",
    )
    counts: list[dict[int, int]] = []
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        for query in queries:
            try:
                counts.append({int(key): int(count) for key, count in database.execute(query)})
            except sqlite3.Error:  # a table without rows is absent
                counts.append({})
    return counts[0], counts[1], counts[2]


_FORMAT = 1


class _Cached(FileHeader, kw_only=True):
    """The content of a file of the cache."""

    key: str
    results: tuple[ProbeResult, ...]


def cache_folder() -> Path | None:
    """Return the folder for stored results; None where the user has no home folder."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "nsysprof" / "probes"
    try:
        return Path.home() / ".cache" / "nsysprof" / "probes"
    except RuntimeError:  # neither HOME nor an entry for this user
        return None


def probe_key(nsys: str | None, driver: str | None, gpus: tuple[str, ...]) -> str:
    """Return the key of the results: what they are valid for.

    gpus: the names of the GPUs.
    """
    return "\n".join([nsys or "?", driver or "?", *sorted(set(gpus))])


def read_probes(key: str) -> tuple[ProbeResult, ...]:
    """Return the results for this machine; none where none can be read, or another version of nsysprof wrote them."""
    path = _path(key)
    if path is None:
        return ()
    try:
        cached = read_json(path, _Cached, kind="a cached probe", advice="Remove it.", newest=_FORMAT)
    except (NsysprofError, OSError):
        return ()
    return cached.results if (cached.nsysprof_version, cached.key) == (VERSION, key) else ()


def write_probes(key: str, results: tuple[ProbeResult, ...]) -> bool:
    """Store the results beside those of other options, and return whether that was possible."""
    path = _path(key)
    if path is None:
        return False
    merged = {result.name: result for result in (*read_probes(key), *results)}
    content = _Cached(format_version=_FORMAT, nsysprof_version=VERSION, key=key, results=tuple(merged.values()))
    with contextlib.suppress(OSError, NsysprofError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, encode_json(content))
        return True
    return False


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def settle_options(
    nsys: Path, environment: Mapping[str, Any], say: Callable[[str], None], *, may_try: bool
) -> tuple[tuple[str, ...], list[Note]]:
    """Return the options that replace the usual ones on this machine (often none), and notes about them.

    environment: the manifest's, with the GPUs and the versions of nsys and the driver.
    may_try: whether to try the options now where nothing is known about this machine.
    """
    if not environment.get("gpu_count"):
        return (), []
    results = known_probes(nsys, environment, say, may_try=may_try)
    options, usual = choose_options(results)
    if usual is None:
        return (), []
    if not options:
        return (), [make_note("probe-lost", "always", found=usual.text)]
    return options, [make_note("probe-lost", found=usual.text, options=" ".join(options))]


def known_probes(
    nsys: Path, environment: Mapping[str, Any], say: Callable[[str], None], *, may_try: bool
) -> tuple[ProbeResult, ...]:
    """Return the results for this machine: the stored ones, or else those of new trials, which are then stored."""
    key = key_of(environment)
    results = read_probes(key)
    if results or not may_try:
        return results
    results = run_ladder(nsys, say)
    if all(result.verdict is not ProbeVerdict.UNKNOWN for result in results):
        write_probes(key, results)
    return results


def key_of(environment: Mapping[str, Any]) -> str:
    """Return the key of results from a manifest's environment."""
    names = str(environment.get("gpu_name") or "").split(", ")
    return probe_key(environment.get("nsys_version"), environment.get("driver_version"), tuple(names))
