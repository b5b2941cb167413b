"""The counted pass: one call of each case under ncu, for traffic and then in detail; a failure costs its cases alone.

The traffic run comes first. It replays nothing, so that it is quick, and tells how many kernels each case launches,
which bounds the detail run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsysprof.capture.folder import LOGS
from nsysprof.capture.ncu import count_argv, explain_counters, read_report
from nsysprof.capture.passes import CaptureRun, run_pass, supervisor_argv, tail, write_job
from nsysprof.counters import CountedKernel, Run, count_kernels, write_counters
from nsysprof.errors import TraceError
from nsysprof.notes import Note, Severity

# Kernel replay saves what a kernel may write, and needs as much again.
_LARGEST_SHARE = 0.45
_PATIENCE = 4.0  # times the timeout of an untraced case
NO_COUNTERS = "no-counters"


@dataclass(frozen=True)
class _Group:
    """Cases that one ncu counts. most: launches, None where all are known to be few enough."""

    cases: tuple[int, ...]
    replay: str = "kernel"
    most: int | None = None


def run_counted(run: CaptureRun, memory_bytes: int | None) -> None:
    """Count every case that could be measured into counters.csv; adds a note for what could not be."""
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
            text = f"{name} was not counted ({outcome.counted}): {outcome.counted_reason}"
            run.manifest.notes.append(Note("not-counted", Severity.WARNING, text, "See the logs of the capture."))


def _count_traffic(run: CaptureRun, wanted: list[int], counted: list[CountedKernel]) -> dict[int, int]:
    """Launches of one call by case, into `counted` those of cases that were counted whole.

    ncu bounds launches over all cases together: one that uses the others' share up ends the run, and those that it
    kept out are tried again.
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
            launches[cut] = by_case[cut]  # at least
            run.manifest.notes.append(_too_many(run, cut))
            left = left[1:]
    return launches


def _too_many(run: CaptureRun, index: int) -> Note:
    assert run.plan.counting is not None
    return Note(
        "counted-in-part",
        Severity.WARNING,
        f"{run.plan.range_of(run.plan.cases[index])} launches more kernels a call than are counted "
        f"({run.plan.counting.kernels}): its traffic is unknown, and its counters are those of the first kernels.",
        "Raise --count-kernels.",
    )


def _groups(run: CaptureRun, wanted: list[int], launches: dict[int, int], memory_bytes: int | None) -> Iterator[_Group]:
    """Cases together where they can be; alone where replay or the number of kernels is their own.

    One that the traffic run did not reach would fail again; where it reached none, the detail run may still.
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
    peak = (run.progress.outcomes[index].measured or {}).get("peak_reserved_bytes")
    return "application" if peak and memory_bytes and peak > _LARGEST_SHARE * memory_bytes else "kernel"


def _count(run: CaptureRun, kind: Run, group: _Group) -> list[CountedKernel]:
    """One ncu over a group; what it gave before a failure is kept."""
    plan, folder = run.plan, run.folder
    assert run.ncu is not None and plan.counting is not None
    skip = tuple(index for index in range(len(plan.cases)) if index not in group.cases)
    job = write_job(run, "counted", "ncu", skip, calls=1, patience=_PATIENCE)
    report, log = _free_name(folder, kind), f"{LOGS}/{_free_name(folder, kind).stem}.log"
    argv = count_argv(
        run.ncu, report, kind, supervisor_argv(job),
        more_metrics=plan.counting.metrics, sections=plan.counting.sections, replay=group.replay, most=group.most,
    )  # fmt: skip
    for index in group.cases:
        run.progress.outcomes[index].counted = "not_run"
    code = run_pass(run, "counted", argv, log, title=kind.value)
    ranges = [plan.range_of(plan.cases[index]) for index in group.cases]
    try:
        if not report.exists():
            why, fix = explain_counters(tail(folder / log))
            raise TraceError(f"ncu wrote no report ({why}, exit code {code}).", fix)
        pages = [read_report(run.ncu, report, names) for names in ("demangled", "mangled")]
    except TraceError as error:
        run.manifest.notes.append(_nothing_of(kind, error))
        return []
    if any(page.refused for page in pages):
        run.manifest.notes.append(_refused(pages[0].refused))
    return count_kernels(kind, pages[0].kernels, pages[1].kernels, ranges, plan.counting.metrics)


def _free_name(folder: Path, kind: Run) -> Path:
    """ncu.ncu-rep for the detail, ncu-traffic.ncu-rep for the traffic, with a number where there are several."""
    stem = "ncu" if kind is Run.DETAIL else "ncu-traffic"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(folder / f"{name}.ncu-rep" for name in names if not (folder / f"{name}.ncu-rep").exists())


def _nothing_of(kind: Run, error: TraceError) -> Note:
    what = "DRAM bytes by counter" if kind is Run.TRAFFIC else "counters of single kernels"
    return Note(NO_COUNTERS, Severity.WARNING, f"No {what}: {error.text}", error.next_step)


def _refused(refused: dict[str, int]) -> Note:
    names = ", ".join(list(refused)[:5])
    text = f"Numbers of ncu that could be read in two ways are left out: {names}."
    return Note("ambiguous-numbers", Severity.WARNING, text, "Export the report with ncu in the locale C.")
