"""Read the inputs of a comparison: captures, traces and benches, one by one or in a folder."""

from __future__ import annotations

import hashlib
import lzma
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from nsysprof.analysis.comparison.range_facts import WHOLE
from nsysprof.analysis.traffic.roofline import is_bench_launch_bound, is_launch_bound
from nsysprof.app.progress import Say
from nsysprof.app.trace_analysis.assemble import JOINS, AnalysisOptions, assemble, read_results
from nsysprof.attention.range_name import format_range, varied_keys
from nsysprof.attention.shape import Case
from nsysprof.capture.manifest import MANIFEST, read_manifest
from nsysprof.capture.sampling.bench_run import SAMPLES, BenchRun, read_capture_samples, read_run
from nsysprof.errors import TraceError
from nsysprof.files.folder_state import require_whole
from nsysprof.files.plain_file import refuse_url, scratch_folder
from nsysprof.notes import Note, make_note
from nsysprof.results.analysis import StepTimes
from nsysprof.results.comparison import Input, Measured, RangeFacts, StepWalls
from nsysprof.results.findings import Findings
from nsysprof.results.samples import OK
from nsysprof.trace.inputs.resolve_input import PACKED, REPORTS, own_trace, resolve_input

_MOST_BYTES = 1 << 30  # the most bytes of unpacked samples
# Where the GPU's own work takes less of a step than this, the host or other ranks determine how long the step takes.
_GPU_BOUND_SHARE = 0.9


def find_inputs(source: Path) -> list[Path]:
    """Return the inputs that one argument names: itself, or each input in that folder. Raises TraceError."""
    refuse_url(source)
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if not source.is_dir() or is_input(source):
        return [source]
    if (source / "summary.json").exists():
        raise TraceError(
            f"{source} is an analysis, which contains neither samples nor a trace.",
            "Give the capture or trace that was analyzed.",
        )
    try:
        found = sorted(source.iterdir())
        inside = [path for path in found if path.is_dir() and is_input(path)]
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check its permissions.") from error
    inside += [path for path in found if path.is_file() and is_trace(path)]
    if not inside:
        raise TraceError(
            f"{source} holds no capture, no trace and no bench.",
            "Give a folder that nsysprof capture or bench wrote, or a file.",
        )
    return inside


def read_input(source: Path, nsys: Path | None, say: Say, *, launched_only: bool = False) -> Input:
    """Return one capture, bench or trace as an input. Raises TraceError or another error for anything else."""
    if source.is_dir():
        require_whole(source)
    if source.is_dir() and (source / MANIFEST).exists():
        return _read_capture(source, nsys, say, launched_only=launched_only)
    samples = _bench_samples(source)
    if samples is not None:
        return _read_bench(source, samples)
    return _read_trace(source, {}, nsys, say, launched_only=launched_only)


def case_names(inputs: Sequence[Input]) -> dict[Case, str]:
    """Return the name of each case, with every dimension in which any two of them differ."""
    cases = dict.fromkeys(case for each in inputs for case in each.cases)
    varied = varied_keys(cases)
    return {case: format_range(case, varied).removeprefix("RUN::") for case in cases}


def is_input(folder: Path) -> bool:
    """Return whether a folder is one capture, one bench, or one trace as analyze takes it."""
    if (folder / MANIFEST).exists() or _bench_samples(folder) is not None:
        return True
    parquet = (path for path in folder.iterdir() if path.is_file() and path.name.endswith(".parquet"))
    return own_trace(folder) is not None or any(parquet)


def is_trace(path: Path) -> bool:
    name = path.name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name.endswith((".sqlite", *REPORTS))


def _bench_samples(source: Path) -> Path | None:
    """Return the samples of a bench: the file in a folder, or the file itself."""
    names = (SAMPLES, f"{SAMPLES}.xz")
    if source.is_dir():
        return next((source / name for name in names if (source / name).is_file()), None)
    return source if source.name in names else None


def _read_bench(source: Path, path: Path) -> Input:
    with scratch_folder() as work:
        run = read_run(_unpack(path, work) if path.suffix == ".xz" else path)
    caches = "caches emptied before each call" if run.plan.flush else "caches warm"
    caches += ", after a sustained load" if run.plan.sustained else ""
    notes = () if run.complete else (_incomplete(source),)
    return Input(
        source.resolve().name,
        "bench",
        {**run.environment, "latency_method": f"bench, {caches}"},
        cases={case: _measured_by_bench(run, case) for case in run.plan.cases},
        notes=notes,
        digest=_digest(path),
        session=run.session,
        alpha=run.alpha,
    )


def _measured_by_bench(run: BenchRun, case: Case) -> Measured:
    """Return the blocks of each case by process. Cells that are copies of the same case are combined."""
    cells = {number for number, cell in enumerate(run.plan.cells) if cell == case}
    blocks = [block for block in run.blocks if block.cell in cells]
    failed = next((block for block in blocks if block.status != OK), None)
    good = [block for block in blocks if block.status == OK and block.values_ns]
    processes = dict.fromkeys(block.process for block in good)
    if failed is not None or not good:
        return Measured(failed.status, failed.reason) if failed else Measured("not_run")
    peaks = [block.peak_bytes for block in good if block.peak_bytes is not None]
    return Measured(
        OK,
        processes=tuple(tuple(block.values_ns for block in good if block.process == p) for p in processes),
        turns=tuple(processes),
        host_bound=run.plan.device == "cpu" or is_bench_launch_bound(good),
        peak_bytes=max(peaks, default=None),
        throttled=sum(len(block.throttled) for block in good) / sum(len(block.values_ns) for block in good),
    )


def _read_capture(source: Path, nsys: Path | None, say: Say, *, launched_only: bool) -> Input:
    manifest, results = read_manifest(source), read_results(source)
    samples = read_capture_samples(source)
    cases = {}
    for case in manifest.cases:
        name = format_range(case, manifest.range_keys)
        cases[case] = _measured_by_capture(
            results[results["range"] == name], samples.get(name), on_cpu=manifest.environment.get("device") == "cpu"
        )
    environment = {**manifest.environment, "latency_method": f"capture, {manifest.method}"}
    notes = (*manifest.notes, *(() if manifest.complete else (_incomplete(source),)))
    found = Input(source.resolve().name, "capture", environment, cases, notes=notes, digest=_digest(source / SAMPLES))
    if manifest.profiler != "none":
        calls = {
            str(row["range"]): int(row["traced_calls"])
            for row in results[results["traced_calls"].notna()].to_dict("records")
        }
        trace = _read_trace(source, calls, nsys, say, launched_only=launched_only)
        environment = {**trace.environment, **{key: fact for key, fact in environment.items() if fact is not None}}
        found = replace(
            found,
            ranges=trace.ranges,
            notes=(*notes, *trace.notes),
            losses=trace.losses,
            savings=trace.savings,
            memory=trace.memory,
            digest=f"{found.digest} {trace.digest}",
        )
    environment["nsys_version"] = _short_version(environment.get("nsys_version"))
    return replace(found, environment=environment)


def _measured_by_capture(rows: pd.DataFrame, samples: tuple[int, ...] | None, *, on_cpu: bool) -> Measured:
    row = rows.to_dict("records")[0] if len(rows) else {"status": "not_run", "reason": ""}
    if row["status"] != OK or samples is None:
        return Measured(str(row["status"]) if row["status"] != OK else "not_run", str(row["reason"]))
    peak = row["peak_allocated_bytes"]
    known = peak if isinstance(peak, int) else None
    total, calls = row.get("kernel_total_ns"), row.get("traced_calls")
    kernel_ns = None if pd.isna(total) or pd.isna(calls) or not calls else float(total) / float(calls)
    over_graph = row.get("event_over_graph")
    ratio = None if pd.isna(over_graph) else float(over_graph)
    waits = is_launch_bound(kernel_ns, statistics.median(samples), ratio)
    return Measured(OK, processes=((samples,),), in_order=True, host_bound=on_cpu or waits, peak_bytes=known)


def _read_trace(source: Path, calls: Mapping[str, int], nsys: Path | None, say: Say, *, launched_only: bool) -> Input:
    """Return a trace, or the trace of a capture, as an input.

    calls: how many calls each range name of the capture stands for.
    """
    say(f"read {source.name}")
    with scratch_folder() as work:
        path = resolve_input(source, nsys, work)
        options = AnalysisOptions(launched_only=launched_only, calls_by_range=calls, parts=frozenset(JOINS))
        assembled = assemble(source, path, options)
    analysis, ranges = assembled.analysis, assembled.range_facts
    if (source / MANIFEST).exists():
        del ranges[WHOLE]  # warm-up and allocation, which are not measured
    if any(loss.anywhere for loss in analysis.losses):
        ranges = {key: _without_numbers(facts) for key, facts in ranges.items()}
    info = analysis.trace
    environment = {
        "gpu_name": ", ".join(sorted({device.name for device in analysis.devices})) or None,
        "nsys_version": _short_version(info.nsys_version),
        "trace_tool": info.tool,
        "work_kind": info.work_kind,
        "memory_kind": info.memory_kind,
    }
    found = analysis.findings
    return Input(
        source.resolve().name,
        "trace",
        environment,
        ranges=ranges,
        notes=analysis.notes,
        losses=analysis.losses,
        digest=info.sha256,
        savings=None if found is None else _savings(found),
        memory=analysis.allocator,
        steps=None if info.work_kind == "operator" else _step_walls(analysis.step_times),
    )


def _without_numbers(facts: RangeFacts) -> RangeFacts:
    """Return a range of a trace that lost data anywhere: nothing of it can be compared."""
    return replace(
        facts, metrics=dict.fromkeys(facts.metrics), parts=None, kernels={}, dram_error_bytes=0, family=None,
        walls_ns=(),
    )  # fmt: skip


def _step_walls(times: StepTimes | None) -> StepWalls | None:
    if times is None or not times.are_steps:
        return None
    walls = tuple(times.steady_walls_ns().tolist())
    is_host_bound, is_marked = times.own_share < _GPU_BOUND_SHARE, times.found_pct is None
    return StepWalls(times.per, times.step_ns, walls, host_bound=is_host_bound, is_marked=is_marked)


def _savings(found: Findings) -> dict[tuple[str, str], int]:
    """Return what the findings of each code and range save together, because two findings can have both in common."""
    savings: dict[tuple[str, str], int] = {}
    for each in found.items:
        key = (each.code, each.range)
        savings[key] = savings.get(key, 0) + each.saving_ns
    return savings


def _short_version(version: object) -> str | None:
    """Return the first three numbers of a version. The fourth number of nsys' version is its build."""
    return None if version is None else ".".join(str(version).split(".")[:3])


def _incomplete(source: Path) -> Note:
    return make_note("incomplete", input=source.name)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _unpack(path: Path, work: Path) -> Path:
    target = work / SAMPLES
    try:
        with lzma.open(path) as packed, target.open("wb") as plain:
            left = _MOST_BYTES
            while chunk := packed.read(min(1 << 20, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise TraceError(
                        f"{path} unpacks to more than 1 GiB.",
                        "No bench is that large; give the samples.json.xz of a bench.",
                    )
                plain.write(chunk)
    except (EOFError, lzma.LZMAError, OSError) as error:
        raise TraceError(f"{path} is damaged or truncated: {error}.", "Fetch it again.") from error
    return target
