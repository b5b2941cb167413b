"""Merge the findings of ranks into those of their job, and find what its communication costs.

A job is as fast as its slowest rank: the one that waits least for the others. What a rank saves while others are slower
only makes it wait longer. So the saving of a finding is how much sooner the slowest rank would be ready, with each rank
as it would be then. Ranks that do the same work are taken to save the same share of their own time as the slowest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.situation import counted
from nsysprof.errors import UsageError
from nsysprof.ranks.identity import some
from nsysprof.ranks.job_facts import CommunicationRow, JobFacts
from nsysprof.ranks.replay.changes import CommunicationChange, ReplayedJob, replay_change
from nsysprof.ranks.replay.joined_graph import RankGraph, share_collectives
from nsysprof.results.findings import LEAST_SHARE, MEAN_STEP, Finding, JobFinding
from nsysprof.units import format_bytes, format_ns

# So many ranks, in the order of the inputs, keep their last steps for a replay.
MOST_REPLAYED = 8
_NO_GRAPHS: Mapping[int, RankGraph] = {}
# Small messages are sent together up to the size of a bucket of DDP.
_BUCKET_BYTES = 25 << 20
# A link that is so many times as fast takes no time.
_INSTANT = 1e6
# What a rank alone says of waiting for others is said for the job by who is late, and by its communication.
_OF_ONE_RANK = frozenset({"collective-wait"})
# One switch of the program changes these everywhere. Their range is only where a rank has most of it.
_OF_PROGRAM = frozenset({"no-tensor-cores", "unfused-elementwise", "unfused-optimizer", "layout-conversion"})
# Messages below this size (bytes) are carried by latency, not by bandwidth. At least so many a step are worth merging.
_SMALL_BYTES, _LEAST_SMALL = 1 << 20, 16
# So many collectives a step are too many where they reach less than this share of the link.
_MANY, _LEAST_OF_LINK = 128, 0.25
# Collectives without a known size are small where the usual one takes less than this (ns).
_SMALL_NS = 60_000
# Merged, small messages take this part of their time: the estimate, and its bounds.
_MERGED = (0.4, 0.15, 0.8)
# What hidden communication costs by taking SMs from computation, as a share of its time at most.
_SLOWED = 0.3
# Order and prefetching hide this part of exposed communication: the estimate, and its bounds.
_HIDEABLE = (0.5, 0.0, 1.0)
_LEAST_EXPOSED = 0.05
# Uneven work is named from this share of a step on, where no rank is the last in more than this share of the steps.
_LEAST_UNEVEN, _MOST_LAST, _LEAST_STEPS = 0.05, 0.8, 8
# The bounds of what half of the bytes save, as shares of it: smaller messages use a link less well, and casts cost.
_HALVED = (0.6, 1.2)
# A pipeline exchanges at most so many messages for each micro-batch. What its stages compute explains its step within
# these bounds: else hosts set the pace.
_MOST_EXCHANGES, _EXPLAINED = 4, (0.75, 1.15)
# Whole layers rarely make stages quite even. The bounds of what even stages save, as shares of it: one of four blocks
# moved saved 0.32 of it on two H200, and two of six 0.62 (analysis/h200-jobs).
_EVENED = (0.32, 1.0)
# A batch in so many times as many micro-batches.
_MORE_PARTS = 4
_FRAMEWORKS_OVERLAP = (
    "DDP: bucket_cap_mb, gradient_as_bucket_view; FSDP2: reshard_after_forward=False, set_modules_to_forward_prefetch; "
    "DeepSpeed: overlap_comm, Megatron: --overlap-grad-reduce, --overlap-param-gather, --tp-comm-overlap"
)


@dataclass(frozen=True)
class _Job:
    """The ranks with known steps. step_ns and own_ns: the mean step, and the mean own time of each rank (ns).

    replayed: the last steps of the ranks, to replay them together; None where they are unknown.
    """

    facts: Mapping[int, JobFacts]
    step_ns: float
    own_ns: Mapping[int, float]
    replayed: ReplayedJob | None = None

    @property
    def slowest(self) -> int:
        return max(self.own_ns, key=lambda rank: (self.own_ns[rank], -rank))

    def gain(self, saving_ns: Mapping[int, float]) -> float:
        """Return how much sooner the job's step would end if ranks saved this much (ns)."""
        own = self.own_ns
        of_slowest = saving_ns.get(self.slowest, 0.0)
        left = []
        for rank, time in own.items():
            same_share = of_slowest * time / max(own[self.slowest], 1.0)
            saved = max(saving_ns[rank], same_share) if rank in saving_ns else 0.0
            left.append(time - saved)
        return max(0.0, max(own.values()) - max(left))

    def replay(self, change: CommunicationChange) -> tuple[float, float, float] | None:
        """Return what a step would save with another communication, and its bounds (ns); None where it is unknown."""
        if self.replayed is None:
            return None
        try:
            changed = replay_change(self.replayed, change)
        except UsageError:  # it changes nothing, or sizes are unknown
            return None
        base = self.replayed.replayed_ns
        return base - changed.step_ns, base - changed.high_ns, base - changed.low_ns


def needs_replay(fact: JobFacts) -> bool:
    """Return whether a finding about communication may be made of this rank, so that its steps are worth a replay."""
    if not fact.has_steps:
        return False
    exposed = sum(row.exposed_ns for row in fact.communication)
    is_redundant = fact.rounds > fact.optimizer_steps > 0
    return is_redundant or exposed >= _LEAST_EXPOSED * fact.step_ns or _count_small(fact) >= _LEAST_SMALL


def _count_small(fact: JobFacts) -> float:
    return sum(row.calls for row in fact.communication if _is_small(row, fact.link_bytes_per_s))


def find_in_job(
    facts: Mapping[int, JobFacts], stragglers: pd.DataFrame, graphs: Mapping[int, RankGraph] = _NO_GRAPHS
) -> tuple[JobFinding, ...]:
    """Return the findings of a job, the largest saving first.

    facts: what the trace of each rank says.
    stragglers: the rows of stragglers.csv.
    graphs: the last steps of some ranks, for a replay of what communication costs.
    """
    known = {rank: fact for rank, fact in facts.items() if fact.has_steps}
    step = mean_step_ns(known)
    if len(known) < 2 or step is None:
        return ()
    job = _Job(known, step, {rank: float(np.mean(fact.own_ns)) for rank, fact in known.items()})
    job = replace(job, replayed=_join(graphs, job.slowest))
    redundant = _redundant(job)
    small = _small_messages(job)
    parts = _parts_of_pipeline(job)
    candidates = [
        *_of_ranks(job), *redundant, *small, *_exposed(job, parts, (*redundant, *small)), *_fp32_messages(job),
        *_of_pipeline(job, parts), *_uneven(job), *_stragglers(job, stragglers),
    ]  # fmt: skip
    worth = [item for item in candidates if item.saving_ns >= LEAST_SHARE * step]
    ordered = sorted(worth, key=lambda item: -item.saving_ns)
    return tuple(replace(item, rank=place) for place, item in enumerate(ordered, 1))


def _join(graphs: Mapping[int, RankGraph], slowest: int) -> ReplayedJob | None:
    """Return some ranks for a replay; None where they cannot stand for the job, because the slowest is not one."""
    if slowest not in graphs or len(graphs) < 2:
        return None
    ranks = [graphs[rank] for rank in sorted(graphs)]
    shared = share_collectives(ranks)
    return None if shared is None else ReplayedJob(ranks, shared)


def mean_step_ns(facts: Mapping[int, JobFacts]) -> float | None:
    """Return how long a step takes, as a mean over the ranks that have steps; None where none has any."""
    steps = [fact.step_ns for fact in facts.values() if fact.has_steps]
    return sum(steps) / len(steps) if steps else None


def _of_ranks(job: _Job) -> Iterator[JobFinding]:
    """Yield the findings that ranks have by themselves, each once."""
    several = {code for fact in job.facts.values() for code, times in _count_codes(fact).items() if times > 1}
    of_program = _OF_PROGRAM - several
    by_place: dict[tuple[str, str, str], dict[int, Finding]] = {}
    for rank, fact in job.facts.items():
        for item in fact.findings:
            if item.code not in _OF_ONE_RANK and item.per != MEAN_STEP:
                place = ("", "") if item.code in of_program else (item.range, item.location)
                by_place.setdefault((item.code, *place), {}).setdefault(rank, item)
    for of_rank in by_place.values():
        first = max(of_rank.values(), key=lambda item: item.saving_ns)
        saved, low, high = (
            job.gain({rank: float(getattr(item, name)) for rank, item in of_rank.items()})
            for name in ("saving_ns", "saving_low_ns", "saving_high_ns")
        )
        yield _finding(job, sorted(of_rank), first.code, (saved, low, high), first.text, first.next_step, like=first)


def _count_codes(fact: JobFacts) -> Counter[str]:
    return Counter(item.code for item in fact.findings)


def _redundant(job: _Job) -> list[JobFinding]:
    """Return that gradients are reduced more often than the optimizer steps."""
    ranks = [rank for rank, fact in job.facts.items() if fact.optimizer_steps and fact.rounds]
    times = {round(job.facts[rank].rounds / job.facts[rank].optimizer_steps) for rank in ranks}
    if len(ranks) < len(job.facts) or len(times) != 1 or (count := times.pop()) < 2:
        return []
    least = min((job.facts[rank].reduced_ns for rank in ranks), key=sum)
    share = (count - 1) / count
    exposed, hidden = least
    saving = job.replay(CommunicationChange(no_sync=True)) or (
        share * exposed, 0.5 * share * exposed, share * (exposed + _SLOWED * hidden)
    )  # fmt: skip
    text = (
        f"Gradients are reduced {count} times for each step of the optimizer: {format_ns(exposed)} exposed and "
        f"{format_ns(hidden)} hidden communication a step, of which one time in {count} is needed."
    )
    advice = (
        "Reduce after the last micro-step only: DDP: with model.no_sync(); FSDP2: set_requires_gradient_sync(False) "
        "(it keeps whole gradients); Accelerate: accumulate(); DeepSpeed: gradient_accumulation_steps; Megatron: "
        "--global-batch-size with its own micro-batches."
    )
    return [_finding(job, ranks, "redundant-communication", saving, text, advice)]


def _small_messages(job: _Job) -> list[JobFinding]:
    """Return that many collectives are too small to use the link well."""
    least: tuple[float, float] | None = None
    for fact in job.facts.values():
        small = [row for row in fact.communication if _is_small(row, fact.link_bytes_per_s)]
        exposed, calls = float(sum(row.exposed_ns for row in small)), _count_small(fact)
        if calls < _LEAST_SMALL:
            return []
        least = min(least or (exposed, calls), (exposed, calls))
    if least is None:
        return []
    exposed, calls = least
    estimate, fastest, slowest = _MERGED
    of_slowest = job.facts[job.slowest]
    sizes = [
        row.message_bytes / row.calls
        for row in of_slowest.communication
        if row.message_bytes is not None and _is_small(row, of_slowest.link_bytes_per_s)
    ]
    of_size = f" of {format_bytes(float(np.mean(sizes)))} on average" if sizes else ""
    text = (
        f"{calls:.0f} collectives a step{of_size} are too small for the link's bandwidth: {format_ns(exposed)} of "
        "their time is exposed."
    )
    advice = (
        "Send fewer and larger messages: DDP: a larger bucket_cap_mb; FSDP2: shard larger modules; DeepSpeed: "
        "reduce_bucket_size, allgather_bucket_size; else flat parameters, or coalesce them (dist._coalescing_manager)."
    )
    saving = job.replay(CommunicationChange(bucket_bytes=_BUCKET_BYTES)) or (
        (1 - estimate) * exposed, (1 - slowest) * exposed, (1 - fastest) * exposed
    )  # fmt: skip
    return [_finding(job, list(job.facts), "small-messages", saving, text, advice)]


def _is_small(row: CommunicationRow, link: float | None) -> bool:
    if row.calls <= 0 or row.kind == "SendRecv":
        return False
    if row.calls >= _MANY and row.bus_bytes_per_s is not None and link is not None:
        return row.bus_bytes_per_s < _LEAST_OF_LINK * link
    if row.message_bytes is not None:
        return row.message_bytes < _SMALL_BYTES * row.calls
    return row.hidden_ns + row.exposed_ns < _SMALL_NS * row.calls


def _exposed(job: _Job, parts: int, known: tuple[JobFinding, ...]) -> list[JobFinding]:
    """Return what of the exposed communication could hide behind computation, beside what other findings save.

    parts: how many micro-batches a pipeline has, whose sends and receives have findings of their own; 0 without one.
    """
    rows = {
        rank: [row for row in fact.communication if not (parts and row.kind == "SendRecv")]
        for rank, fact in job.facts.items()
    }
    exposed = {rank: sum(row.exposed_ns for row in rows[rank]) for rank in job.facts}
    rank = min(exposed, key=lambda number: exposed[number])
    fact = job.facts[rank]
    hidden = sum(row.hidden_ns for row in rows[rank])
    left = exposed[rank] - sum(item.saving_ns for item in known)
    computed = sum(fact.computed_ns) / len(fact.computed_ns)
    room = min(left, max(0.0, computed - hidden))
    # Without any transfer, ranks still wait for each other and for their hosts.
    if (instant := job.replay(CommunicationChange(link_scale=_INSTANT))) is not None:
        room = min(room, instant[0])
    if room < _LEAST_EXPOSED * job.step_ns:
        return []
    at_end = fact.at_end_ns / exposed[rank]
    why = (
        f"{100 * at_end:.0f} % of it is the last collective of a step, behind which nothing computes"
        if at_end > 0.5
        else "it runs while the computation of its own step waits for it"
    )
    text = (
        f"On the rank that waits least, {format_ns(exposed[rank])} of {format_ns(exposed[rank] + hidden)} of "
        f"communication a step is exposed: {why}. It computes for {format_ns(computed)} a step."
    )
    estimate, least, most = (share * room for share in _HIDEABLE)
    advice = f"Let communication begin earlier, in more and smaller parts: {_FRAMEWORKS_OVERLAP}."
    return [_finding(job, list(job.facts), "exposed-communication", (estimate, least, most), text, advice)]


def _fp32_messages(job: _Job) -> list[JobFinding]:
    """Return that ranks add up fp32, where half of the bytes may do."""
    saving = job.replay(CommunicationChange(halves_fp32=True))
    if saving is None or job.replayed is None:
        return []
    transfers = job.replayed.transfers
    kinds = transfers.loc[transfers["is_fp32"], "kind"].unique().tolist()
    text = (
        f"An option, not a fault: ranks add up fp32 ({', '.join(kinds)}), and in bf16 they would send half of it. That "
        "rounds what each rank adds to 8 bits: compare the losses."
    )
    advice = (
        "DDP: register_comm_hook(None, bf16_compress_hook); FSDP2: MixedPrecisionPolicy(reduce_dtype=torch.bfloat16); "
        "DeepSpeed: communication_data_type; Megatron: --grad-reduce-in-bf16; tensor parallelism: all_reduce of bf16."
    )
    best, low, high = saving
    saving = (best, min(low, _HALVED[0] * best), max(high, _HALVED[1] * best))
    return [_finding(job, list(job.facts), "fp32-messages", saving, text, advice)]


def _parts_of_pipeline(job: _Job) -> int:
    """Return the number of micro-batches where the ranks are the stages of one pipeline; 0 where they are not.

    Each micro-batch is one pass with a few sends and receives, and ranks have nothing else in common so often.
    """
    parts = {round(fact.passes / fact.optimizer_steps) if fact.optimizer_steps else 0 for fact in job.facts.values()}
    count = parts.pop()
    if parts or count < 1:
        return 0
    for fact in job.facts.values():
        others = sum(row.calls for row in fact.communication if row.kind != "SendRecv")
        exchanges = 0.0 if fact.exchanges is None else fact.exchanges.calls
        if others >= count or not count <= exchanges <= _MOST_EXCHANGES * count + 2:
            return 0
    return count


def _of_pipeline(job: _Job, parts: int) -> list[JobFinding]:
    """Return that stages of a pipeline are uneven, and that it fills and empties.

    The slowest stage computes all micro-batches one after another, and one of each other stage comes before and after.

    parts: the number of micro-batches; 0 where the ranks are no pipeline.
    """
    ranks = list(job.facts)
    work = np.array([np.mean(fact.computed_ns) for fact in job.facts.values()], dtype=np.float64)
    others = float(work.sum() - work.max())
    if not parts or not _EXPLAINED[0] <= (work.max() + others / parts) / job.step_ns <= _EXPLAINED[1]:
        return []
    even = float(work.max() - work.mean()) * (1 - 1 / parts)
    slowest, quickest = ranks[int(work.argmax())], ranks[int(work.argmin())]
    text = (
        "Stages of the pipeline compute for different times a step: "
        f"rank {slowest} for {format_ns(float(work.max()))}, rank {quickest} for {format_ns(float(work.min()))}, on "
        f"average {format_ns(float(work.mean()))}. The slowest one sets the pace."
    )
    advice = (
        f"Move layers from rank {slowest} to the others. torch.distributed.pipelining: other split points; Megatron: "
        "--pipeline-model-parallel-layout; DeepSpeed: PipelineModule(partition_method=...)."
    )
    saving = (even, _EVENED[0] * even, _EVENED[1] * even)
    uneven = _finding(job, ranks, "uneven-work", saving, text, advice)
    bubble = others / parts
    text = (
        f"The pipeline of {len(ranks)} stages cuts a step into {counted(parts, 'micro-batch', 'micro-batches')}: while "
        f"it fills and empties, its slowest stage waits {format_ns(bubble)} a step."
    )
    advice = (
        "Cut the step into more micro-batches, as long as their kernels fill the GPU, or interleave stages "
        "(ScheduleInterleaved1F1B, zero-bubble schedules; Megatron: --num-layers-per-virtual-pipeline-stage)."
    )
    saving = ((1 - 1 / _MORE_PARTS) * bubble, 0.0, bubble)
    return [uneven, _finding(job, ranks, "exposed-communication", saving, text, advice)]


def _stragglers(job: _Job, stragglers: pd.DataFrame) -> Iterator[JobFinding]:
    """Yield a finding for each rank that holds up the others, with what a replay says that it costs a step."""
    for line in stragglers.drop_duplicates("rank").to_dict("records"):
        share = line["cost_pct"]
        if pd.isna(share) or not line["cost_ns"]:
            continue
        saved = float(share) / 100 * job.step_ns
        low, high = (saved * float(line[f"cost_{end}_ns"]) / float(line["cost_ns"]) for end in ("low", "high"))
        place = "" if line["range"] == "(no range)" else str(line["range"])
        text = f"Rank {line['rank']} comes last in {line['last_in']} of {line['collectives']} collectives."
        if not pd.isna(line["excess_ns"]):
            text += (
                f" It takes {format_ns(float(line['excess_ns']))} longer than is usual on the {line['where']} there."
            )
        advice = (
            "Compare its own time by range with the other ranks' in rank_ranges.csv: data, clocks, or what else runs."
        )
        found = _finding(job, [int(line["rank"])], "straggler", (saved, low, high), text, advice)
        yield replace(found, range=place)


def _uneven(job: _Job) -> list[JobFinding]:
    """Return that ranks take turns in being last."""
    steps = min(len(fact.own_ns) for fact in job.facts.values())
    if steps < _LEAST_STEPS:
        return []
    own = np.array([fact.own_ns[:steps] for fact in job.facts.values()], dtype=np.float64)
    lost = own.max(axis=0) - own.mean(axis=0)
    last = np.bincount(own.argmax(axis=0), minlength=len(own)) / steps
    # What a rank has more in all steps is a straggler's.
    by_turns = lost.mean() - (own.mean(axis=1).max() - own.mean())
    computed = np.array([fact.computed_ns[:steps] for fact in job.facts.values()], dtype=np.float64)
    by_work = (computed.max(axis=0) - computed.mean(axis=0)).mean()
    # Where hosts are late by chance, the work is even: they issue too little ahead, which other findings say.
    if last.max() > _MOST_LAST or min(by_turns, by_work) < _LEAST_UNEVEN * job.step_ns or by_work < by_turns / 2:
        return []
    error = 2 * float(lost.std(ddof=1)) / np.sqrt(steps)
    ranks = list(job.facts)
    text = (
        f"Ranks take turns in coming last (rank {ranks[int(last.argmax())]} in {100 * last.max():.0f} % of {steps} "
        f"steps): in each step the others wait {format_ns(float(lost.mean()))} on average for the last one."
    )
    advice = (
        "Give ranks equal work in each step: batches by length (a sampler with buckets, packing), the same number of "
        "tokens or pixels, no preprocessing on some ranks only; compare the own time of ranks by range in "
        "rank_ranges.csv."
    )
    saving = (by_turns, max(0.0, by_turns - error), by_turns + error)
    return [_finding(job, ranks, "uneven-work", saving, text, advice)]


def _finding(
    job: _Job,
    ranks: list[int],
    code: str,
    saving: tuple[float, float, float],
    text: str,
    next_step: str,
    like: Finding | None = None,
) -> JobFinding:
    """Return a finding of the job. like: a rank's own finding, which it merges."""
    best, low, high = (max(0, round(part)) for part in saving)
    per = job.facts[job.slowest].per
    return JobFinding(
        rank=0, code=code, range="" if like is None else like.range, location="" if like is None else like.location,
        count=1 if like is None else like.count, idle_ns=0 if like is None else like.idle_ns, saving_ns=best,
        saving_low_ns=min(low, best), saving_high_ns=max(high, best), per=per, text=text, next_step=next_step,
        ranks=some(ranks), layer="" if like is None else like.layer,
        other_ranges=0 if like is None else like.other_ranges,
    )  # fmt: skip


def pipeline_bubbles(facts: Mapping[int, JobFacts]) -> dict[int, int]:
    """Return how long each rank waits for sends and receives of its neighbours in a step, with nothing to compute (ns).

    Beyond the time that the quickest exchanges of any rank take, an exchange waits. A rank without any has no entry.
    """
    exchanges = {rank: fact.exchanges for rank, fact in facts.items() if fact.exchanges is not None}
    quick = min((exchange.quick_ns for exchange in exchanges.values()), default=0)
    return {rank: max(0, round(exchange.exposed_ns - exchange.calls * quick)) for rank, exchange in exchanges.items()}


def communication_rows(facts: Mapping[int, JobFacts], *, one_host: bool) -> list[dict[str, Any]]:
    """Return the rows of communication.csv. one_host: whether all ranks are known to run on one host."""
    rows: list[dict[str, Any]] = []
    for rank, fact in facts.items():
        link = fact.link_bytes_per_s if one_host else None
        for row in fact.communication:
            rate = row.bus_bytes_per_s
            rows.append({
                "rank": rank, "range": row.range or None, "kind": row.kind, "library": row.library or None,
                "calls": row.calls, "message_bytes": row.message_bytes, "bus_bytes_per_s": rate,
                "share_of_link_pct": None if rate is None or link is None else 100 * rate / link,
                "hidden_ns": row.hidden_ns, "exposed_ns": row.exposed_ns,
            })  # fmt: skip
    return rows
