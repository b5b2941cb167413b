"""From what the user names to the inputs of a comparison: captures, traces and benches, alone or many in a folder."""

from __future__ import annotations

import hashlib
import json
import lzma
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.block import LAUNCH_BOUND, OK, Block
from nsysprof.capture.bench import SAMPLES as BENCH_SAMPLES
from nsysprof.capture.bench import BenchRun, read_run
from nsysprof.capture.manifest import MANIFEST, SAMPLES, read_manifest
from nsysprof.case import Case
from nsysprof.comparison import Input, Measured
from nsysprof.errors import TraceError
from nsysprof.notes import Note, Severity
from nsysprof.range_name import format_range, varied_keys
from nsysprof.samples import Samples
from nsysprof.trace.locate import PACKED, REPORTS, own_trace

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.comparison import RangeFacts

Say = Callable[[str], None]
_SCATTER = 0.1
_MOST_BYTES = 1 << 30  # of samples, unpacked


def find_inputs(source: Path) -> list[Path]:
    """The inputs that one argument names: itself, or each of those in it. Raises TraceError."""
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if not source.is_dir() or _is_input(source):
        return [source]
    if (source / "summary.json").exists():
        raise TraceError(
            f"{source} is an analysis, which holds no samples and no trace.", "Give the capture or trace it is of."
        )
    try:
        found = sorted(source.iterdir())
        inside = [path for path in found if path.is_dir() and _is_input(path)]
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check its permissions.") from error
    inside += [path for path in found if path.is_file() and _is_trace(path)]
    if not inside:
        raise TraceError(
            f"{source} holds no capture, no trace and no bench.",
            "Give a folder that nsysprof capture or bench wrote, or a file.",
        )
    return inside


def read_input(source: Path, nsys: Path | None, say: Say) -> Input:
    """One capture, bench or trace. Raises TraceError and its like for what is none."""
    if source.is_dir() and (source / MANIFEST).exists():
        return _read_capture(source, nsys, say)
    samples = _bench_samples(source)
    if samples is not None:
        return _read_bench(source, samples)
    ranges, environment, notes, digest = _read_trace(source, {}, nsys, say)
    return Input(source.resolve().name, "trace", environment, ranges=ranges, notes=notes, digest=digest)


def case_names(inputs: Sequence[Input]) -> dict[str, str]:
    """By key the name of each case, with every dimension that any two of them differ in."""
    cases = {key: Case.from_json(json.loads(key)) for each in inputs for key in each.cases}
    varied = varied_keys(cases.values())
    return {key: format_range(case, varied).removeprefix("RUN::") for key, case in cases.items()}


def _is_input(folder: Path) -> bool:
    """Whether a folder is one capture, one bench, or one trace as analyze takes it."""
    if (folder / MANIFEST).exists() or _bench_samples(folder) is not None:
        return True
    parquet = (path for path in folder.iterdir() if path.is_file() and path.name.endswith(".parquet"))
    return own_trace(folder) is not None or any(parquet)


def _is_trace(path: Path) -> bool:
    name = path.name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name.endswith((".sqlite", *REPORTS))


def _bench_samples(source: Path) -> Path | None:
    """A bench's file of samples: of a folder, or the file itself."""
    names = (BENCH_SAMPLES, f"{BENCH_SAMPLES}.xz")
    if source.is_dir():
        return next((source / name for name in names if (source / name).is_file()), None)
    return source if source.name in names else None


def _read_bench(source: Path, path: Path) -> Input:
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as work:
        run = read_run(_unpack(path, Path(work)) if path.suffix == ".xz" else path)
    values = [value for block in run.blocks for value in block.values_ns]
    if not all(isinstance(value, int) and value > 0 for value in values):
        raise TraceError(f"{source} holds a duration that is none.", "Measure it again.")
    caches = "caches emptied before each call" if run.plan.flush else "caches warm"
    notes = () if run.complete else (_incomplete(source),)
    return Input(
        source.resolve().name,
        "bench",
        {**run.environment, "latency_method": f"bench, {caches}"},
        cases={_key(case): _measured_by_bench(run, case) for case in run.plan.cases},
        notes=notes,
        digest=_digest(path),
    )


def _measured_by_bench(run: BenchRun, case: Case) -> Measured:
    """The blocks of all cells of a case, by process; several cells are several copies of the same code."""
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
        host_bound=run.plan.device == "cpu" or _is_launch_bound(good),
        peak_bytes=max(peaks, default=None),
    )


def _is_launch_bound(blocks: Sequence[Block]) -> bool:
    """Whether launching takes most of a call and shows: samples scatter, where a flushed L2 does not hide it."""
    shares = [block.launch_share for block in blocks if block.launch_share is not None]
    values = [value for block in blocks for value in block.values_ns]
    scatter = statistics.pstdev(values) / statistics.fmean(values)
    return bool(shares) and statistics.median(shares) >= LAUNCH_BOUND and scatter > _SCATTER


def _read_capture(source: Path, nsys: Path | None, say: Say) -> Input:
    from nsysprof.cli.record import read_results

    manifest, results = read_manifest(source), read_results(source)
    samples = _read_samples(source)
    cases = {}
    for case in manifest.cases:
        name = format_range(case, manifest.range_keys)
        cases[_key(case)] = _measured_by_capture(
            results[results["range"] == name], samples.get(name), on_cpu=manifest.environment.get("device") == "cpu"
        )
    environment = {**manifest.environment, "latency_method": f"capture, {manifest.method}"}
    notes = () if manifest.complete else (_incomplete(source),)
    ranges, digest = None, _digest(source / SAMPLES)
    if manifest.profiler != "none":
        calls = {
            str(row["range"]): int(row["traced_calls"])
            for row in results[results["traced_calls"].notna()].to_dict("records")
        }
        ranges, of_trace, trace_notes, trace_digest = _read_trace(source, calls, nsys, say)
        environment = {**of_trace, **{key: fact for key, fact in environment.items() if fact is not None}}
        notes, digest = (*notes, *trace_notes), f"{digest} {trace_digest}"
    environment["nsys_version"] = _short_version(environment.get("nsys_version"))
    return Input(source.resolve().name, "capture", environment, cases, ranges, (*manifest.notes, *notes), digest)


def _measured_by_capture(rows: pd.DataFrame, samples: Samples | None, *, on_cpu: bool) -> Measured:
    row = rows.to_dict("records")[0] if len(rows) else {"status": "not_run", "reason": ""}
    if row["status"] != OK or samples is None:
        return Measured(str(row["status"]) if row["status"] != OK else "not_run", str(row["reason"]))
    peak = row["peak_allocated_bytes"]
    known = peak if isinstance(peak, int) else None
    return Measured(OK, processes=((samples.values_ns,),), in_order=True, host_bound=on_cpu, peak_bytes=known)


def _read_samples(folder: Path) -> dict[str, Samples]:
    path = folder / SAMPLES
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = {str(name): Samples.from_json(each) for name, each in data["samples"].items()}
        if not all(isinstance(value, int) and value > 0 for each in found.values() for value in each.values_ns):
            raise ValueError("a duration that is none")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"{path} is not a capture's samples: {error}.", "Give the trace inside the folder.") from error
    return found


def _read_trace(
    source: Path, calls: Mapping[str, int], nsys: Path | None, say: Say
) -> tuple[dict[tuple[str, str], RangeFacts], dict[str, Any], tuple[Note, ...], str]:
    from nsysprof.capture.find_nsys import find_nsys
    from nsysprof.trace.locate import identity_of, resolve_input
    from nsysprof.trace.open import open_trace

    say(f"read {source.name}")
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as work:
        path = resolve_input(source, find_nsys(nsys) if source.suffix in REPORTS else None, Path(work))
        with open_trace(path, identity_of(source, path)) as trace:
            from nsysprof.analysis.range_facts import WHOLE, collect_range_facts
            from nsysprof.analysis.summarize import summarize
            from nsysprof.trace.tables import read_tables

            tables = read_tables(trace)
            analysis = summarize(tables)
            ranges, notes = collect_range_facts(tables, analysis, calls)
    if (source / MANIFEST).exists():
        del ranges[WHOLE]  # warm-up and allocation, which are not what was asked to be measured
    info = analysis.trace
    environment = {
        "gpu_name": ", ".join(sorted({device.name for device in analysis.devices})) or None,
        "nsys_version": _short_version(info.nsys_version),
        "trace_tool": info.tool,
        "work_kind": info.work_kind,
        "memory_kind": info.memory_kind,
    }
    return ranges, environment, (*notes, *analysis.notes), info.sha256


def _short_version(version: object) -> str | None:
    """Three numbers: the fourth of nsys' is its build."""
    return None if version is None else ".".join(str(version).split(".")[:3])


def _key(case: Case) -> str:
    return json.dumps(case.to_json(), sort_keys=True)


def _incomplete(source: Path) -> Note:
    text = f"{source.name} was interrupted: what it holds is compared."
    return Note("incomplete", Severity.WARNING, text, "Measure it again.")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _unpack(path: Path, work: Path) -> Path:
    target = work / BENCH_SAMPLES
    try:
        with lzma.open(path) as packed, target.open("wb") as plain:
            left = _MOST_BYTES
            while chunk := packed.read(min(1 << 20, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise TraceError(f"{path} unpacks to more than 1 GiB.", "No bench is that large.")
                plain.write(chunk)
    except (EOFError, lzma.LZMAError, OSError) as error:
        raise TraceError(f"{path} is damaged or truncated: {error}.", "Fetch it again.") from error
    return target
