"""Run the use case `whatif`: replay the steps of a trace with changes that the user names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.findings.what_if import ask
from nsysprof.analysis.overview.summarize import why_not_explained
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.app.analyze import is_many, resolve
from nsysprof.app.inputs.reading_requests import (
    LEAST_MB,
    LEAST_SCALE,
    MOST_FACTOR,
    MOST_MB,
    MOST_RANKS,
    MOST_SCALE,
    Change,
    WhatIfRequest,
)
from nsysprof.app.progress import SILENT, Progress
from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import NotComparableError, TraceError, UsageError
from nsysprof.files.plain_file import scratch_folder
from nsysprof.nsight.run_tool import NSYS, find_tool
from nsysprof.ranks.collective_waits.collectives import Arrivals, arrivals, fit_clocks
from nsysprof.ranks.collective_waits.stragglers import replay_like_peers
from nsysprof.ranks.engine import Progress as RankProgress
from nsysprof.ranks.engine import plan_tasks, prepare_parts, renumber, run_serially
from nsysprof.ranks.identity import RankSource, find_sources, number_ranks
from nsysprof.ranks.replay.changes import MIB, CommunicationChange, ReplayedJob, Saving, replay_change
from nsysprof.ranks.replay.joined_graph import RankGraph, read_rank_graph, share_collectives
from nsysprof.ranks.summarize import read_detail
from nsysprof.results.findings import JOB, WhatIf, WhatIfAnswer, WhatIfQuestion
from nsysprof.results.rank_results import RankRow
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

# The code of the finding that each change would fix.
_FIXED = {
    Change.PIN_COPIES: "pageable-copy", Change.NO_ALLOC: "alloc-in-loop", Change.NO_HOST_WORK: "host-bound",
    Change.GRAPH_LAUNCHES: "launch-bound", Change.FUSE_ATTENTION: "unfused-attention",
    Change.FUSE_OPTIMIZER: "unfused-optimizer", Change.NO_STREAM_WAITS: "stream-dependency",
}  # fmt: skip
_EVERYWHERE = "all"


def what_if(request: WhatIfRequest, progress: Progress = SILENT) -> WhatIfResult:
    """Return how long the steps would take with each change alone, and with all of them."""
    _refuse_factors(request)
    questions = _questions(request)
    if request.like_peers is not None:
        return WhatIfResult(_with_a_rank_like_its_peers(request, questions, progress))
    communication = _communication(request)
    if communication:
        return WhatIfResult(_with_other_communication(request, communication, progress))
    if not questions and not request.ranges:
        raise UsageError("No change was given.", "Give a change, such as --pin-copies or --no-sync all.")
    policy = None if request.policy is None else read_policy(request.policy)
    with scratch_folder() as scratch:
        path = resolve(request.source, request.nsys, scratch, progress.say)
        with open_trace(path, identity_of(request.source, path)) as trace:
            tables = read_tables(trace, progress=progress.say)
            found = attribute(tables)
            reason = why_not_explained(tables, found)
            if reason:
                raise UsageError(
                    f"The trace cannot be replayed, because {reason}.", "nsysprof analyze says what it lacks."
                )
            ranges = found.attributed.ranges
            names = [str(name) for name in ranges["name"].unique()]
            # Counted ranges are known by the name of their family, step#.
            names = list(dict.fromkeys((*names, *name_families(names))))
            questions = (*questions, *(_of_ranges(names, text, factor) for text, factor in request.ranges))
            return WhatIfResult(ask(tables, ranges, questions, policy))


def _refuse_factors(request: WhatIfRequest) -> None:
    """Raise UsageError for a text that all names contain, and for a factor or number that no change can have."""
    for option, value, least, most in (
        ("--bucket-mb", request.bucket_mb, LEAST_MB, MOST_MB),
        ("--link-scale", request.link_scale, LEAST_SCALE, MOST_SCALE),
        ("--ranks", request.ranks_count, 2, MOST_RANKS),
    ):
        if value is not None and not least <= value <= most:  # also where it is not a number
            raise UsageError(f"{option} {value:g} is not a change.", f"Give a number from {least:g} to {most:g}.")
    for option, pairs in (("--kernel", request.kernels), ("--launched-in", request.ranges)):
        for text, factor in pairs:
            if not text or not 0 <= factor <= MOST_FACTOR:  # also where it is not a number
                raise UsageError(
                    f"{option} {text[:100]!r} with the factor {factor:g} is not a change.",
                    f"Give a text and a factor between 0 and {MOST_FACTOR}.",
                )


def _with_a_rank_like_its_peers(
    request: WhatIfRequest, questions: tuple[WhatIfQuestion, ...], progress: Progress
) -> WhatIf:
    """Return how long a job of several ranks would take if one rank were like the typical other rank."""
    rank = request.like_peers
    if questions or request.ranges or request.changes_communication:
        raise UsageError(
            "--like-peers applies to a whole job, and the other changes apply to one trace or to its communication.",
            "Run whatif once for each.",
        )
    sources = _sources_of_job(request)
    with scratch_folder() as work, progress.traces(len(sources)) as advance:
        arrived, rows = read_arrivals(sources, work, advance)
    if rank not in {row.rank for row in rows}:
        known = ", ".join(str(row.rank) for row in rows[:12])
        raise UsageError(f"The job has no rank {rank}.", f"Its ranks: {known}.")
    found = None
    if arrived is not None and rank in arrived.ranks:
        found = replay_like_peers(arrived, arrived.ranks.index(rank))
    if found is None:
        raise UsageError(
            "The job cannot be replayed: its ranks share too few collectives on one clock.",
            "nsysprof analyze of the folder says what is known of each rank.",
        )
    if not found.has_whole_steps:
        raise UsageError(
            "What a rank costs is unknown: stretches of this long job are looked at, and no steps were found in them.",
            "Record fewer steps: of up to 1024 collectives, each is looked at.",
        )
    answer = WhatIfAnswer(f"--like-peers {rank}", found.job_ns, found.low_ns, found.high_ns)
    return WhatIf(
        per=JOB, step_ns=found.recorded_ns, usual_steps=1, warmup=0, steps=1, first_step=0, last_step=0,
        recorded_ns=found.recorded_ns, replayed_ns=found.replayed_ns, answers=(answer,), together=answer,
    )  # fmt: skip


def _sources_of_job(request: WhatIfRequest) -> list[RankSource]:
    """Return the traces of the ranks. Raises UsageError where the source is not several traces."""
    if not request.source.exists() or not is_many([request.source]):
        raise UsageError(
            f"{request.source} does not contain the traces of several ranks.", "Record with capture --per-rank."
        )
    return find_sources([request.source], find_tool(NSYS, request.nsys))


def _communication(request: WhatIfRequest) -> dict[str, CommunicationChange]:
    """Return the changes of a job's communication by their options; none where the request is about one trace.

    Raises UsageError for changes of a job together with those of one trace.
    """
    is_of_job = request.no_sync and request.source.is_dir() and is_many([request.source])
    if not request.changes_communication and not is_of_job:
        return {}
    if request.changes or request.kernels or request.ranges or request.policy is not None:
        raise UsageError(
            "Changes of a job's communication and of one trace cannot be replayed together.",
            "Run whatif once for the folder and once for a trace in it.",
        )
    changes: dict[str, CommunicationChange] = {}
    for name in request.no_sync:
        if name != _EVERYWHERE:
            raise UsageError(f"--no-sync {name[:100]} names a range, and a job has no such change.", "Give --no-sync.")
        changes["--no-sync"] = CommunicationChange(no_sync=True)
    if request.bucket_mb is not None:
        size = request.bucket_mb
        changes[f"--bucket-mb {size:g}"] = CommunicationChange(bucket_bytes=round(size * MIB))
    if request.link_scale is not None:
        changes[f"--link-scale {request.link_scale:g}"] = CommunicationChange(link_scale=request.link_scale)
    if request.ranks_count is not None:
        changes[f"--ranks {request.ranks_count}"] = CommunicationChange(ranks=request.ranks_count)
    return changes


def _with_other_communication(
    request: WhatIfRequest, changes: Mapping[str, CommunicationChange], progress: Progress
) -> WhatIf:
    """Return how long a step of a job would take with each change of its communication, and with all of them."""
    sources = _sources_of_job(request)
    with progress.traces(len(sources)) as advance:
        job = read_replayed_job(sources, advance)
    together = CommunicationChange(
        no_sync=any(change.no_sync for change in changes.values()),
        bucket_bytes=max(change.bucket_bytes for change in changes.values()),
        link_scale=math.prod(change.link_scale for change in changes.values()),
        ranks=max(change.ranks for change in changes.values()),
    )
    answers = [_answer(option, replay_change(job, change)) for option, change in changes.items()]
    steps = job.ranks[0].steps
    last = steps.warmup + steps.count - 1
    return WhatIf(
        per=steps.per, step_ns=round(steps.step_ns), usual_steps=int((~steps.is_slow).sum()), warmup=steps.warmup,
        steps=job.count + 1, first_step=last - job.count + 1, last_step=last, recorded_ns=round(job.recorded_ns),
        replayed_ns=round(job.replayed_ns), answers=tuple(answers),
        together=_answer("all", replay_change(job, together)), assumptions=_assumptions(changes),
    )  # fmt: skip


def _answer(option: str, saving: Saving) -> WhatIfAnswer:
    return WhatIfAnswer(option, round(saving.step_ns), round(saving.low_ns), round(saving.high_ns))


def _assumptions(changes: Mapping[str, CommunicationChange]) -> tuple[str, ...]:
    """Return what the answers take for granted."""
    said = ["All ranks are replayed together: a rank that saves time before a collective waits there for the others."]
    if any(change.bucket_bytes for change in changes.values()):
        said.append("Messages are sent together within a forward and backward pass; the memory for it is not counted.")
    if any(change.ranks for change in changes.values()):
        said.append(
            "--ranks is a projection, not a measurement: each rank does the same work, all links are as fast as the "
            "slowest of this job, and a rank sends (n - 1) / n of each message once or twice, as in a ring."
        )
    return tuple(said)


def _questions(request: WhatIfRequest) -> tuple[WhatIfQuestion, ...]:
    questions = [WhatIfQuestion(f"--{change}", _FIXED[change]) for change in request.changes]
    if request.policy is not None:
        questions.append(WhatIfQuestion(f"--policy {request.policy.name}", "attention-backend"))
    for name in request.no_sync:
        questions.append(WhatIfQuestion(f"--no-sync {name}", "sync", range="" if name == _EVERYWHERE else name))
    for text, factor in request.kernels:
        questions.append(WhatIfQuestion(f"--kernel {text}={factor:g}", "", kernel=text, factor=factor))
    return tuple(questions)


def _of_ranges(names: list[str], text: str, factor: float) -> WhatIfQuestion:
    """Return the question about work that is launched in ranges whose names contain a text."""
    chosen = tuple((name, (factor,) * 3) for name in names if text in name)
    if not chosen:
        raise UsageError(f"No range has {text!r} in its name.", "See ranges.csv for names.")
    return WhatIfQuestion(f"--launched-in {text}={factor:g}", "", range_factors=chosen)


@dataclass(frozen=True)
class WhatIfResult:
    """How long the steps would take."""

    found: WhatIf


def read_replayed_job(sources: Sequence[RankSource], advance: RankProgress = lambda _more, _name: None) -> ReplayedJob:
    """Return the last steps of all ranks.

    Raises UsageError where a rank has no steps, no host calls or no collectives, NotComparableError where the ranks do
    not share their collectives, and TraceError for a trace that cannot be read.
    """
    ranks: list[RankGraph] = []
    for source in sources:
        rank = _read(source, len(ranks[0].step_calls) - 1 if ranks else 0)
        if rank is None:
            _refuse(sources, f"{source.path.name} has no two steps with their calls and collectives")
            raise UsageError(
                f"The job cannot be replayed: {source.path.name} has no two steps with their calls and collectives.",
                "Record several steps of all ranks with nsysprof capture --per-rank.",
            )
        ranks.append(rank)
        advance(1, source.path.name)
    shared = share_collectives(ranks)
    if shared is None:
        _refuse(sources, "they do not share their collectives")
        raise UsageError(
            "The job cannot be replayed: its ranks do not share their collectives.",
            "Record the same steps of all ranks, to their end, with nsysprof capture --per-rank.",
        )
    return ReplayedJob(ranks, shared)


def _read(source: RankSource, last_steps: int) -> RankGraph | None:
    with scratch_folder() as scratch:
        path = resolve_input(source.path, source.nsys, scratch)
        with open_trace(path, identity_of(source.path, path), one_thread=source.one_thread) as trace:
            tables = read_tables(trace)
            return read_rank_graph(tables, attribute(tables).attributed.ranges, last_steps)


def _refuse(sources: Sequence[RankSource], reason: str) -> None:
    """Raise NotComparableError for traces that no manifest calls the ranks of a job."""
    if all(source.rank is not None for source in sources):
        return
    names = [str(source.path) for source in sources]
    raise NotComparableError(
        f"These {len(sources)} traces are not the ranks of one job that can be replayed: {reason}.",
        f"Compare two of them: nsysprof compare {names[0]} {names[1]}. Look at one: nsysprof view {names[0]}.",
    )


def read_arrivals(
    sources: Sequence[RankSource], work: Path, advance: RankProgress = lambda _more, _name: None
) -> tuple[Arrivals | None, list[RankRow]]:
    """Return the arrivals of all ranks on one clock, and their rows; no arrivals where the traces share no clock.

    Raises TraceError for a trace that cannot be read.

    work: a folder for the partial result of each trace.
    """
    tasks = plan_tasks(list(sources), work)
    prepare_parts(work, tasks, fresh=True)
    merged = run_serially(tasks, advance).merged
    failed = next((row for row in merged.rows if not row.is_read), None)
    if failed is not None:
        raise TraceError(failed.reason, failed.next_step)
    ranks = number_ranks(merged.rows, {source.position: source.path for source in sources}, by_order=False)
    details = [stored for task in tasks if (stored := read_detail(task.part)) is not None]
    rows = sorted(renumber(merged, ranks).rows, key=lambda row: row.rank or 0)
    collectives = {row.position: detail.collectives for row, detail, _ in details}
    return arrivals(rows, fit_clocks(rows, collectives), collectives), rows
