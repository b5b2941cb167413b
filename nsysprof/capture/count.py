"""Run the counting pass: one call of each case under ncu, first for DRAM traffic and then in detail.

A failure affects only the cases concerned. The traffic run comes first. It replays nothing, so it is quick, and it
shows how many kernels each case launches, which limits the detail run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsysprof.capture.collect import NOT_RUN
from nsysprof.capture.counters_file import write_counters
from nsysprof.capture.measured_process import LOGS, supervisor_argv, tail
from nsysprof.capture.passes import CaptureRun, run_profiled_pass, write_job
from nsysprof.errors import TraceError
from nsysprof.notes import Note, make_note
from nsysprof.nsight.counters import count_kernels
from nsysprof.nsight.ncu import count_argv, explain_counters, read_report
from nsysprof.results.checks import MissingSource
from nsysprof.results.kernel_counters import CountedKernel, Run
from nsysprof.workload.job import COUNTED

# Kernel replay saves the memory that a kernel may write, and needs as much again.
_LARGEST_SHARE = 0.45
_PATIENCE = 4.0  # a multiple of the timeout of an untraced case


@dataclass(frozen=True)
class _Group:
    """Cases that one run of ncu counts."""

    cases: tuple[int, ...]
    replay: str = "kernel"
    # The most launches to count; None where all cases are known to be small enough.
    most: int | None = None


def run_counted(run: CaptureRun, memory_bytes: int | None) -> None:
    """Count every case that could be measured, and write counters.csv. A note says what could not be counted."""
    assert run.plan.counting is not None
    wanted = [index for index, outcome in enumerate(run.progress.outcomes) if outcome.status == "ok"]
    counted: list[CountedKernel] = []
    launches = _count_traffic(run, wanted, counted)
    for group in _groups(run, wanted, launches, memory_bytes):
        if run.interrupted:
            break
        counted += _count(run, Run.DETAIL, group)
        write_counters(run.folder, counted)
    reached = {kernel.range for kernel in counted}
    for index in wanted:
        name, outcome = run.plan.range_of(run.plan.cases[index]), run.progress.outcomes[index]
        if name not in reached and outcome.counted not in ("ok", "not_run"):
            run.manifest.notes.append(
                make_note("not-counted", range=name, status=outcome.counted, reason=outcome.counted_reason)
            )


def _count_traffic(run: CaptureRun, wanted: list[int], counted: list[CountedKernel]) -> dict[int, int]:
    """Return the launches of one call by case, and add the kernels of completely counted cases to `counted`.

    ncu limits the launches of all cases together. A case that uses up the limit for others ends the run; then the
    others are tried again.
    """
    assert run.plan.counting is not None
    limit, launches = run.plan.counting.kernels, dict[int, int]()
    left = list(wanted)
    while left and not run.interrupted:
        most = limit * len(left) + 1
        found = _count(run, Run.TRAFFIC, _Group(tuple(left), most=most))
        names = {run.plan.range_of(run.plan.cases[index]): index for index in left}
        by_case = Counter(names[kernel.range] for kernel in found)
        cut = list(by_case)[-1] if len(found) == most else None
        counted += [kernel for kernel in found if names[kernel.range] != cut]
        write_counters(run.folder, counted)
        launches |= {index: count for index, count in by_case.items() if index != cut}
        if cut is None:
            break
        left = left[left.index(cut) :]
        if by_case[cut] > limit:
            launches[cut] = by_case[cut]  # this is a lower bound
            run.manifest.notes.append(_too_many(run, cut))
            left = left[1:]
    return launches


def _too_many(run: CaptureRun, index: int) -> Note:
    assert run.plan.counting is not None
    name = run.plan.range_of(run.plan.cases[index])
    return make_note("counted-in-part", range=name, most=run.plan.counting.kernels)


def _groups(run: CaptureRun, wanted: list[int], launches: dict[int, int], memory_bytes: int | None) -> Iterator[_Group]:
    """Yield groups of cases: together where possible, alone where replay or number of kernels need special treatment.

    A case that the traffic run did not reach would fail again. Where it reached none, the detail run may still work.
    """
    assert run.plan.counting is not None
    limit = run.plan.counting.kernels
    if not launches:
        yield _Group(tuple(wanted), most=limit * len(wanted))
        return
    alike: list[int] = []
    for index in (index for index in wanted if index in launches):
        replay = _replay(run, index, memory_bytes)
        most = limit if launches[index] > limit else None
        if replay == "kernel" and most is None:
            alike.append(index)
        else:
            yield _Group((index,), replay, most)
    if alike:
        yield _Group(tuple(alike))


def _replay(run: CaptureRun, index: int, memory_bytes: int | None) -> str:
    assert run.plan.counting is not None
    if run.plan.counting.replay != "auto":
        return run.plan.counting.replay
    block = run.progress.outcomes[index].block
    peak = None if block is None else block.peak_reserved_bytes
    return "application" if peak and memory_bytes and peak > _LARGEST_SHARE * memory_bytes else "kernel"


def _count(run: CaptureRun, kind: Run, group: _Group) -> list[CountedKernel]:
    """Run one ncu over a group and return its launches. Launches from before a failure are kept."""
    plan, folder = run.plan, run.folder
    assert run.ncu is not None and plan.counting is not None
    skip = tuple(index for index in range(len(plan.cases)) if index not in group.cases)
    job = write_job(run, COUNTED, "ncu", skip, calls=1, patience=_PATIENCE)
    report, log = _free_name(folder, kind), f"{LOGS}/{_free_name(folder, kind).stem}.log"
    argv = count_argv(
        run.ncu, report, kind, supervisor_argv(job),
        more_metrics=plan.counting.metrics, sections=plan.counting.sections, replay=group.replay, most=group.most,
    )  # fmt: skip
    for index in group.cases:
        run.progress.outcomes[index].counted = NOT_RUN
    code = run_profiled_pass(run, COUNTED, argv, log, title=kind.value)
    ranges = [plan.range_of(plan.cases[index]) for index in group.cases]
    try:
        if not report.exists():
            why, fix = explain_counters(tail(folder / log))
            raise TraceError(f"ncu wrote no report ({why}, exit code {code}).", fix)
        pages = [read_report(run.ncu, report, names) for names in ("demangled", "mangled")]
    except TraceError as error:
        run.manifest.add_missing(MissingSource.COUNTERS, _nothing_of(kind, error))
        return []
    if any(page.refused for page in pages):
        run.manifest.notes.append(_refused(pages[0].refused))
    return count_kernels(kind, pages[0].kernels, pages[1].kernels, ranges, plan.counting.metrics)


def _free_name(folder: Path, kind: Run) -> Path:
    """Return a free path: ncu.ncu-rep for detail, ncu-traffic.ncu-rep for traffic, with a number where needed."""
    stem = "ncu" if kind is Run.DETAIL else "ncu-traffic"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(folder / f"{name}.ncu-rep" for name in names if not (folder / f"{name}.ncu-rep").exists())


def _nothing_of(kind: Run, error: TraceError) -> Note:
    what = "DRAM bytes by counter" if kind is Run.TRAFFIC else "counters of single kernels"
    return make_note("no-counters", "of-a-run", what=what, problem=error.text, next_step=error.next_step)


def _refused(refused: dict[str, int]) -> Note:
    names = ", ".join(list(refused)[:5])
    return make_note("ambiguous-numbers", names=names)
