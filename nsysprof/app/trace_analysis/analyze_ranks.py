"""Analyze several traces: choose the engine, continue an interrupted analysis, and write the folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nsysprof.app.inputs.options import parse_size
from nsysprof.app.inputs.reading_requests import AnalyzeRequest
from nsysprof.app.progress import Progress
from nsysprof.errors import InterruptedCaptureError, MissingToolError, UsageError
from nsysprof.files.folder_state import RANKS
from nsysprof.files.plain_file import name_after
from nsysprof.files.result_folder import ClaimedFolder, claim_folder
from nsysprof.nsight.run_tool import NSYS, find_tool
from nsysprof.ranks.engine import plan_tasks, prepare_parts
from nsysprof.ranks.identity import RankSource, drop_copies, find_sources, refuse_unrelated
from nsysprof.ranks.overview import conclude, run_tasks
from nsysprof.ranks.pool import LocalWorkers
from nsysprof.ranks.summarize import PARTS
from nsysprof.report.document import Report
from nsysprof.report.pages.ranks import ranks_report, whole_ranks_json, write_ranks
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.trace.inputs.resolve_input import FILES, PACKED

# Starting workers takes a processor a second. In that time, one process reads most of this many bytes of traces.
_SMALL_BYTES = 192 << 20
_WORTH_A_WORKER = 64 << 20
_PACKED_TIMES = 8  # how many times larger a trace is than its archive, at least


def analyze_ranks(request: AnalyzeRequest, progress: Progress) -> RanksResult:
    """Analyze several traces as the ranks of one job, and write their analysis folder."""
    if request.workers is not None and request.workers < 1:
        raise UsageError(f"--workers {request.workers} is not a valid number of workers.", "Give 1 or more.")
    folder = (request.out or Path("analysis") / _default_name(request.inputs)).absolute()
    with claim_folder(folder, RANKS, force=request.force) as claimed:
        found, files = _analyze_into(claimed, request, progress)
        claimed.commit()
    return RanksResult(found, folder, claimed.final(files))


def _analyze_into(
    claimed: ClaimedFolder, request: AnalyzeRequest, progress: Progress
) -> tuple[RanksAnalysis, Sequence[Path]]:
    folder = claimed.path
    is_report = any(path.suffix in (".nsys-rep", ".qdrep") or path.is_dir() for path in request.inputs)
    sources, copies = drop_copies(
        find_sources(request.inputs, find_tool(NSYS, request.nsys) if is_report else None), by_order=request.by_order
    )
    with _keep_going(folder, len(sources)), _processes(sources, request) as processes:
        tasks = plan_tasks(sources, folder)
        there = prepare_parts(folder, tasks, fresh=not claimed.goes_on)
        if there:
            progress.tell(
                f"{there} of {len(tasks)} traces were already read by a run that did not finish; the others are read "
                "now"
            )
        with progress.traces(len(tasks)) as advance:
            done = run_tasks(tasks, processes, advance, request.scheduler, request.tls)
    engine = {"ran on": done.where, "seconds": round(done.seconds, 2), **done.tasks}
    found = conclude(done, tasks, copies, engine, by_order=request.by_order)
    if not request.by_order:
        refuse_unrelated(found.rows, found.kernels, {task.source.position: task.source.path for task in tasks})
    if request.unfold:
        found = replace(found, range_families=found.ranges)
    return found, write_ranks(found, folder, figures=request.figures, svg=request.svg, progress=progress.say)


def worthwhile_workers(traces: Sequence[Path], processors: int) -> int:
    """Return how many processes read these traces fastest.

    A report that nsys must export, and a folder, each occupy one worker.
    """
    work = 0
    for path in traces:
        size = path.stat().st_size if path.is_file() else 0
        times = _PACKED_TIMES if path.suffix in PACKED else 1
        work += size * times if path.name.endswith(FILES) else max(size, _WORTH_A_WORKER)
    return 1 if work < _SMALL_BYTES else max(1, min(processors, work // _WORTH_A_WORKER))


def _processes(sources: Sequence[RankSource], request: AnalyzeRequest) -> AbstractContextManager[LocalWorkers | None]:
    """Start the worker processes, or none where this process or Dask does the work.

    A limit of their memory holds for workers alone, so there is one even if one process is enough.
    """
    limit = None if request.worker_memory == "auto" else parse_size(request.worker_memory)
    if limit is not None and sys.platform != "linux":
        raise UsageError("--worker-memory needs Linux.", "Leave it out.")
    if find_spec("pyarrow") is None:
        raise MissingToolError(
            "Analyzing several traces at once needs pyarrow, which is not installed.", "pip install 'nsysprof[ranks]'"
        )
    if request.scheduler is not None:
        return nullcontext()
    workers = request.workers
    if workers is None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = worthwhile_workers([source.path for source in sources], processors)
    workers = min(workers, len(sources))
    return nullcontext() if workers == 1 and limit is None else LocalWorkers(workers, limit)


@contextmanager
def _keep_going(folder: Path, traces: int) -> Iterator[None]:
    """Turn an interrupt into an error that says what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        kept = sum(1 for _ in (folder / PARTS).glob("*.parquet"))
        raise InterruptedCaptureError(
            f"Interrupted: {kept} of {traces} traces are done and kept.",
            "Run the same command again to continue.",
        ) from None


def _default_name(inputs: Sequence[Path]) -> str:
    paths = [path.resolve() for path in inputs]
    common = paths[0] if len(paths) == 1 else Path(os.path.commonpath(paths))
    return f"{name_after(common, 'traces')}-ranks"


@dataclass(frozen=True)
class RanksResult:
    """The analysis of all ranks, and the files that were written."""

    analysis: RanksAnalysis
    folder: Path
    files: tuple[Path, ...]

    @property
    def report(self) -> Report:
        """Return what `analyze` prints."""
        return ranks_report(self.analysis)

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints, without the folder."""
        return whole_ranks_json(self.analysis)
