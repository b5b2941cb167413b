"""Turn candidates into findings: keep those that save over one percent of a step, by the difference of two replays.

Say what to change in programs without torch, such as CUDA C++, OpenACC or Fortran: nothing of torch helps there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.intervals import measure, union_of_groups
from nsysprof.analysis.busy_time.operators import Operators
from nsysprof.analysis.findings.attention_alternative import find_attention_alternative
from nsysprof.analysis.findings.busy_candidates import list_busy_candidates
from nsysprof.analysis.findings.candidates import (
    Candidate,
    estimate_tracing_cost,
    list_candidates,
    on_other_host,
    without_tracing,
)
from nsysprof.analysis.findings.from_operators.redundant_copies import list_redundant_copies
from nsysprof.analysis.findings.host_candidates import list_host_candidates
from nsysprof.analysis.findings.kernel_candidates import find_rare_compiles, list_kernel_candidates
from nsysprof.analysis.findings.line_of_code import LayerFinder, LocatedLine, Locator
from nsysprof.analysis.findings.situation import Situation, describe_steps, look_at, threads_of_calls
from nsysprof.analysis.findings.waits import TAKE_OUT
from nsysprof.analysis.idle_time.blame import HOST
from nsysprof.analysis.idle_time.ledger import Ledger
from nsysprof.analysis.replay.replay import ExecutionGraph, ReplayChange, combine, count_periods, no_change, replay
from nsysprof.analysis.steps.find_steps import Steps, is_grid
from nsysprof.attention.policy_file import PolicyFile
from nsysprof.results.findings import LEAST_SHARE, Finding, Findings, StackSamples, UnrecordedSteps
from nsysprof.results.samples import time_interval
from nsysprof.trace.schema import Int64s, Tables
from nsysprof.units import format_ns

# Kernels of torch and of its compiler, and ranges and kernels of what is only used with it.
_TORCH = re.compile(r"\bat::|\bc10::|torch|aten::|triton_|flash_(fwd|bwd)|autograd|nn\.Module|FSDP::", re.IGNORECASE)
# How torch's functions appear in the texts, each with the words before it.
_ASIDES = (", as .item() does", " as .item() does", ", as after torch.cuda.empty_cache()")
_POOL = "Allocate once before the loop, or take memory from a pool (cudaMallocAsync)."
_STEPS = {
    "pageable-copy": "Allocate the host's memory with cudaMallocHost, or pin it with cudaHostRegister, and copy with "
    "cudaMemcpyAsync.",
    "sync": "Remove cudaDeviceSynchronize and copies to the host from the loop; order streams by events instead.",
    "alloc-in-loop": _POOL,
    "small-copies": "Compute the values on the device, or pack them and copy once.",
    "launch-bound": "Do more in a kernel, or capture the loop as a CUDA graph (cudaStreamBeginCapture) and replay it.",
    "host-bound": "Leave out what the host does there, or do it a step ahead in another thread.",
    "unfused-elementwise": "Do in one kernel what these do one after another: each reads and writes all of the data.",
    "no-tensor-cores": "Let the library use tensor cores, such as TF32 (CUBLAS_COMPUTE_32F_FAST_TF32).",
    "stream-dependency": "Wait only for an event of the work that is needed (cudaStreamWaitEvent).",
}
_NO_WAITS = (
    f"{TAKE_OUT} Leave out copies to the host and cudaDeviceSynchronize, or order streams by events. Then capture the "
    "loop as a CUDA graph (cudaStreamBeginCapture) and replay it."
)


def uses_torch(situation: Situation) -> bool:
    """Return whether kernels or ranges are those of torch; also where no kernel has a name, which tells nothing."""
    if situation.operators.calls:
        return True
    names = [str(name) for name in (*situation.names.texts, *set(situation.range_of.tolist()))]
    return not any(situation.names.texts) or any(_TORCH.search(name) for name in names)


def plain_step(code: str, next_step: str) -> str:
    """Return what to do about a finding in a program without torch."""
    return _NO_WAITS if next_step.startswith(TAKE_OUT) else _STEPS.get(code, next_step)


def plain_text(text: str) -> str:
    """Return the text of a finding without what torch's functions do."""
    for aside in _ASIDES:
        text = text.replace(aside, "")
    return text


# This finding lets work run beside other work, so it can save more than the time during which nothing runs.
_SIDE_BY_SIDE = "stream-dependency"
# This finding is about time that other ranks determine.
_OF_OTHERS = "collective-wait"
# What is left of the step counts as at least this share of the whole step.
_LEAST_LEFT = 0.2
# Behind large problems, less than this (ns per step) is within the error of what a call or a launch takes by itself.
_LEAST_HIDDEN_NS = 20_000
# The difference of two steps that keep the GPU busy, each of a process of its own, is off by up to this share of them:
# processes of the same code differed by 0.7 to 1.1 % on an H200 (analysis/h200-same-code).
_PROCESS_NOISE = 0.01
# Recording each kernel of a CUDA graph makes these kernels and the pauses between them longer: steps that replay a
# decoder took 4 to 7 % longer with it on an H200 (analysis/h200-busy, decode).
_OF_NODES = 0.07
# A finding that saves less than this share of what it says is spent tells why, with the parts of at least this share.
_MUCH_LESS, _LEAST_PART = 0.5, 0.05
# Without a profiler, steps of host-bound trainings took 0.86 to 1.2 times as long as a replay on a fast host says
# (traces/h200-programs, h200-faults, h200-busy). It is said where that replay takes less than this share of the step.
_OF_FAST_HOST, _LEAST_DISTORTED = 0.85, 0.9
# A third of the steps tells whether something goes on from this number of steps.
_LEAST_THIRD = 3
# A recorded step takes so many times as long as one without the profiler; otherwise they are not the same.
_SAME_STEP = (0.7, 5.0)
# By what share the host of another run may be slower or faster than that of the run whose steps were measured, as that
# of any other process: eight programs that ran twice differed by 2 to 16 %. Processes that do little but launch differ
# by up to 2.4 times in 95 % of pairs (analysis/h200-same-code); bounds of that width would say nothing, so the page has
# it beside them.
_OF_MEASURED = 0.2
# The findings about what warm-up does once.
_OF_WARMUP = ("module-load", "jit-in-loop")
# The findings that apply to the cases of a grid, which share no step.
_OF_KERNELS = ("unfused-attention", "unfused-optimizer", "attention-backend")


@dataclass(frozen=True)
class _Saved:
    """A candidate and what it saves in the graph (ns): the estimate, after the candidates before it, and alone."""

    candidate: Candidate
    saving_ns: int
    after_ns: int
    alone_ns: int
    # What it adds to what the candidates before it save, so that a sum counts nothing twice.
    added_ns: int
    # How much of the estimate each of other candidates would save as well, and their codes.
    shared_ns: int = 0
    shared_with: tuple[str, ...] = ()

    @property
    def least_ns(self) -> int:
        """Return what it saves once the candidates that share with it have been mended."""
        return self.saving_ns - self.shared_ns

    def is_worth(self, least_ns: float) -> bool:
        """Return whether it saves at least this much, by itself and after others, so that it is a finding."""
        return self.saving_ns >= least_ns


def list_findings(
    tables: Tables,
    ranges: pd.DataFrame,
    ledger: Ledger,
    steps: Steps,
    graph: ExecutionGraph,
    policy: PolicyFile | None = None,
    stacks: StackSamples | None = None,
    places: Collection[str] | None = None,
    operators: Operators | None = None,
    unrecorded: UnrecordedSteps | None = None,
) -> Findings:
    """Return the findings of a trace, or those inside a part of it.

    ledger: at least the pieces of the graph, which within_graph leaves.
    graph: the steps to replay.
    policy: the attention backends that were measured to be the fastest; None where there are none.
    stacks: samples of the threads' stacks, which give findings their lines of code.
    places: the names of the ranges of the part; None for all findings.
    operators: what launched the kernels; None where that is not known.
    unrecorded: the steps of the same program without a profiler; None where they were not measured.
    """
    situation = look_at(tables, graph, ledger.classes, ranges, steps, operators)
    listed = [
        *list_candidates(situation), *list_host_candidates(situation), *list_kernel_candidates(situation),
        *list_busy_candidates(situation), *list_redundant_copies(situation),
        *_alternatives(tables, situation, ranges, policy),
    ]  # fmt: skip
    candidates = [
        candidate
        for candidate in listed
        if _can_be_judged(candidate, steps, ranges) and _goes_on(candidate, situation, steps)
    ]
    measured = _measured_step(unrecorded, steps)
    share = None if measured is None else measured[0] / steps.step_ns
    usual_ns = steps.step_ns * situation.periods if steps.are_known else float(graph.recorded_ns)
    scale = _Scale(situation, estimate_tracing_cost(situation), usual_ns, share)
    unchanged = scale.replay(no_change(graph))
    saved = [
        saving
        for saving in _replay_all(scale, candidates, unchanged)
        if saving.saving_ns >= saving.candidate.least_share * unchanged
    ]
    # A large problem hides a small one. What counts is the step that is left without the large ones.
    left = scale.replay(_all_of(graph, [saving for saving in saved if saving.is_worth(LEAST_SHARE * unchanged)]))
    least = LEAST_SHARE * max(left, int(_LEAST_LEFT * unchanged))
    least = max(least, min(LEAST_SHARE * unchanged, _LEAST_HIDDEN_NS * situation.periods))
    kept = [saving for saving in saved if saving.is_worth(least)]
    together = scale.replay(_all_of(graph, kept))
    held = _within(scale, kept, unchanged, together)
    if places is not None:
        held = [saving for saving in held if _range_of(situation, saving.candidate) in places]
        own = {id(saving.candidate) for saving in held}
        kept = [saving for saving in kept if id(saving.candidate) in own]
        together = scale.replay(_all_of(graph, kept))
    facts = describe_steps(situation, steps)
    worth = sorted((saving for saving in held if saving.is_worth(least)), key=lambda saving: -saving.saving_ns)
    items = _findings(scale, ledger, facts["per"], worth, unchanged)
    items = _with_lines(
        items,
        worth,
        None if stacks is None else Locator(stacks, tables, ledger.classes, situation, ranges),
        None if tables.layers is None else LayerFinder(tables.layers, tables, situation),
    )
    found = Findings(
        items=items if places is not None else _with_rare(items, tables, steps),
        **facts,
        busy_ns=int(graph.busy_ns / situation.periods),
        together_ns=int(min(unchanged - together, _most(scale, kept, unchanged)) / situation.periods),
        has_stacks=stacks is not None,
    )
    if measured is not None:
        bare, low, high = measured
        return replace(found, unrecorded_ns=bare, unrecorded_low_ns=low, unrecorded_high_ns=high)
    # What a range for each operator costs is not known.
    return (
        found
        if tables.operators is not None
        else replace(found, unrecorded_low_ns=_least_unrecorded(scale, found.step_ns))
    )


def _measured_step(unrecorded: UnrecordedSteps | None, steps: Steps) -> tuple[int, int, int] | None:
    """Return the median of a step without the profiler (ns), and its interval; None where those are other steps."""
    own = unrecorded.steps_of(len(steps.all_starts_ns) - 1) if unrecorded is not None and steps.are_known else None
    if own is None:
        return None
    middle, (least, most) = round(median(own)), _SAME_STEP
    if not least * middle <= steps.step_ns <= most * middle:
        return None
    return middle, *(time_interval(own) or (min(own), max(own)))


def _least_unrecorded(scale: _Scale, step_ns: int) -> int | None:
    """Return how long a step takes at least without the profiler (ns); None where that is hardly less than recorded."""
    share = scale.fast_ns / max(scale.traced_ns, 1)
    return round(_OF_FAST_HOST * share * step_ns) if share < _LEAST_DISTORTED else None


def _with_rare(items: tuple[Finding, ...], tables: Tables, steps: Steps) -> tuple[Finding, ...]:
    """Return the findings with what only slow steps lose, where it is as much as a finding saves."""
    rare = find_rare_compiles(tables, steps, [item.code for item in items])
    if rare is None or rare.saving_ns < LEAST_SHARE * steps.step_ns:
        return items
    ordered = sorted((*items, rare), key=lambda item: -item.saving_ns)
    return tuple(replace(item, rank=rank) for rank, item in enumerate(ordered, start=1))


def within_graph(ledger: Ledger, graph: ExecutionGraph) -> Ledger:
    """Return the ledger with the pieces alone that findings look at: few, where the graph is a part of the trace."""
    return ledger.cut_out(graph.begin_ns, _end_of(graph))


def _end_of(graph: ExecutionGraph) -> int:
    """Return about when the graph ended (ns on the trace's clock), with its first step."""
    return graph.begin_ns + int(graph.recorded_ns * graph.steps / count_periods(graph))


def _alternatives(
    tables: Tables, situation: Situation, ranges: pd.DataFrame, policy: PolicyFile | None
) -> Iterator[Candidate]:
    yield from find_attention_alternative(situation, threads_of_calls(tables, situation.graph), ranges, policy)


def _with_lines(
    items: tuple[Finding, ...], held: Sequence[_Saved], locator: Locator | None, layers: LayerFinder | None
) -> tuple[Finding, ...]:
    """Return the findings with their layers, and the lines that most samples show or the candidate itself names.

    held: the findings' candidates, in the same order.
    """
    located = []
    for item, saving in zip(items, held, strict=True):
        line = LocatedLine("", None) if locator is None else locator.locate(saving.candidate)
        place, layer = line.text or saving.candidate.place, "" if layers is None else layers.find(saving.candidate)
        text = item.text + _where_it_waits(saving.candidate, locator)
        located.append(replace(item, text=text, location=place, location_share_pct=line.share_pct, layer=layer))
    return tuple(located)


def _where_it_waits(candidate: Candidate, locator: Locator | None) -> str:
    """Return a sentence on the line of the waits that a candidate's text counts; "" where it is not known."""
    if candidate.waits is None:
        return ""
    waits = replace(candidate, calls=candidate.waits, gaps=None, named_by=None, is_named_by_waits=False)
    line = ("" if locator is None else locator.locate(waits).text) or candidate.waits_at
    return f" Most of these waits are at {line}." if line else ""


@dataclass(frozen=True)
class _Scale:
    """Replays of a graph with the cost of tracing removed: how long the program takes when nobody traces it."""

    situation: Situation
    tracing_ns: int
    # How long as many usual steps took as are replayed (ns).
    usual_ns: float
    # How long a step takes without the profiler, as a share of a recorded one; None where it was not measured.
    measured: float | None = None

    @cached_property
    def traced_ns(self) -> int:
        """Return how long the unchanged steps take on the slowest host that is possible (ns)."""
        return self.replay_traced(no_change(self.situation.graph))

    @cached_property
    def fast_ns(self) -> int:
        """Return how long the unchanged steps take on a host that is as fast as possible (ns)."""
        return self.replay_fast(no_change(self.situation.graph))

    def replay(self, change: ReplayChange) -> int:
        """Return how long the steps take with a change and without the profiler (ns)."""
        return self._bare(change) if self.measured is None else self._as_measured(change, 1.0)

    @cached_property
    def slow_ns(self) -> int:
        """Return how long the unchanged steps take on a host that is as slow as possible (ns)."""
        return self.replay_slow(no_change(self.situation.graph))

    def replay_fast(self, change: ReplayChange) -> int:
        """Return how long the steps take with a change on a host that is as fast as possible (ns).

        That is one as fast as the trace leaves possible, or a little faster than was measured.
        """
        return self._fast(change) if self.measured is None else self._as_measured(change, 1 - _OF_MEASURED)

    def replay_slow(self, change: ReplayChange) -> int:
        """Return how long the steps take with a change on a host that is as slow as possible (ns)."""
        if self.measured is not None:
            return self.replay_traced(change)
        return replay(self.situation.graph, on_other_host(self.situation, change, self.tracing_ns, is_fast=False))

    def replay_traced(self, change: ReplayChange) -> int:
        """Return how long the steps take with a change under the profiler, or a little longer than measured (ns)."""
        return self._traced(change) if self.measured is None else self._as_measured(change, 1 + _OF_MEASURED)

    def _traced(self, change: ReplayChange) -> int:
        return replay(self.situation.graph, change)

    def _bare(self, change: ReplayChange) -> int:
        return replay(self.situation.graph, without_tracing(self.situation, change, self.tracing_ns))

    def _fast(self, change: ReplayChange) -> int:
        return replay(self.situation.graph, on_other_host(self.situation, change, self.tracing_ns, is_fast=True))

    @cached_property
    def _unchanged(self) -> tuple[int, int, int]:
        change = no_change(self.situation.graph)
        return self._traced(change), self._bare(change), self._fast(change)

    @property
    def longer_ns(self) -> float:
        """Return how much longer the replayed steps take than as many usual ones (ns)."""
        return (self._unchanged[0] - self.usual_ns) * (1.0 if self.measured is None else self.measured)

    def _as_measured(self, change: ReplayChange, times: float) -> int:
        """Return how long the steps take with a change on a host on which unchanged ones take what was measured (ns).

        It lies between two of three replays: under the profiler, without its cost, and on a fast host. times: how many
        times what was measured the unchanged steps take.
        """
        assert self.measured is not None
        traced, bare, fast = self._unchanged
        wanted = self.measured * times * traced
        slow, quick, ends = (
            (self._traced, self._bare, (traced, bare)) if wanted > bare else (self._bare, self._fast, (bare, fast))
        )
        share = min(1.0, max(0.0, (wanted - ends[1]) / max(1, ends[0] - ends[1])))
        return round(share * slow(change) + (1 - share) * quick(change))


def _can_be_judged(candidate: Candidate, steps: Steps, ranges: pd.DataFrame) -> bool:
    """Return whether a candidate can be judged where the trace has no step range.

    Without steps, nothing tells where warm-up ends, so what was loaded or compiled does not count. A grid of cases is
    set up and synchronised between its cases on purpose, so only its choice of kernels can be judged.
    """
    if steps.name:
        return True
    if is_grid(ranges):
        return candidate.code in _OF_KERNELS
    return steps.are_known or candidate.code not in _OF_WARMUP


def _goes_on(candidate: Candidate, situation: Situation, steps: Steps) -> bool:
    """Return whether a candidate still occurs in the last third of the steps, where there are enough to tell.

    What a library does in the first iterations only, as DDP measures ten of them, is not what a step costs.
    """
    graph, third = situation.graph, situation.graph.steps // 3
    calls = candidate.calls if candidate.gaps is None else candidate.calls | candidate.gaps
    if third < _LEAST_THIRD or not calls.any():
        return True
    since = steps.starts_ns[graph.first_step + graph.steps - third]
    return bool(situation.call_start_ns[calls].max() >= since)


def _replay_all(scale: _Scale, candidates: list[Candidate], unchanged: int) -> list[_Saved]:
    """Return what each candidate saves alone, and what it saves after those before it.

    Particular changes go first, ordered by what they save alone, and general ones last: reducing launches saves only
    what is left once nothing waits any more.
    """
    alone = {id(candidate): _alone(scale, candidate, candidate.change, unchanged) for candidate in candidates}
    # What else a candidate slows is no reason to go before others.
    weight = {
        id(candidate): candidate.weight
        * (
            alone[id(candidate)]
            if candidate.still_slowed is None
            else _alone(scale, candidate, candidate.still_slowed, unchanged)
        )
        for candidate in candidates
    }
    order = sorted(candidates, key=lambda candidate: (candidate.order, -weight[id(candidate)]))
    return _share(scale, _replay_in_order(scale, order, alone, unchanged), unchanged)


def _alone(scale: _Scale, candidate: Candidate, change: ReplayChange, unchanged: int) -> int:
    """Return what one change of a candidate saves alone (ns)."""
    return min(unchanged - scale.replay(change), _limit(scale, candidate, change, unchanged))


def _share(scale: _Scale, savings: list[_Saved], unchanged: int) -> list[_Saved]:
    """Return the savings with the time of slowed copies in each of the candidates that would save it.

    Each of them is replayed after the others as they are while nothing makes these copies faster: this is what it saves
    if nobody does what the others say. How much less it saves after them is what they share.
    """
    slowed = scale.situation.is_slowed
    if not slowed.any():
        return savings
    graph, least = scale.situation.graph, LEAST_SHARE * unchanged
    sharing = [
        saving
        for saving in savings
        if (saving.candidate.change.duration_ns < graph.duration_ns)[slowed].any() and saving.alone_ns >= least
    ]
    return [_shared(scale, savings, saving, sharing, unchanged) if saving in sharing else saving for saving in savings]


def _shared(scale: _Scale, savings: list[_Saved], saved: _Saved, sharing: list[_Saved], unchanged: int) -> _Saved:
    """Return what one candidate saves while those that share with it make no copy faster.

    savings: all candidates in the order in which they are replayed.
    sharing: those that make slowed copies faster.
    """
    graph = scale.situation.graph
    others = [other for other in sharing if other is not saved]
    kept = [
        earlier.candidate for earlier in savings[: savings.index(saved)] if earlier.is_worth(LEAST_SHARE * unchanged)
    ]
    without = [other.candidate for other in others]
    before = no_change(graph)
    for candidate in kept:
        if candidate not in without:
            before = combine(before, candidate.change)
        elif candidate.still_slowed is not None:
            before = combine(before, candidate.still_slowed)
    after_others = before
    for candidate in without:
        after_others = combine(after_others, candidate.change)

    def saved_after(change: ReplayChange) -> int:
        saving = scale.replay(change) - scale.replay(combine(change, saved.candidate.change))
        return max(0, min(saving, saved.alone_ns))

    saving, least = saved_after(before), saved_after(after_others)
    if saving - least < LEAST_SHARE * unchanged:
        return saved
    return replace(
        saved,
        saving_ns=saving,
        after_ns=max(saved.after_ns, saving),
        shared_ns=saving - least,
        shared_with=tuple(other.candidate.code for other in others),
    )


def _replay_in_order(scale: _Scale, order: list[Candidate], alone: dict[int, int], unchanged: int) -> list[_Saved]:
    """Return what each candidate saves after those before it.

    alone: what each saves alone (ns), by the id of the candidate.
    """
    graph = scale.situation.graph
    savings: list[_Saved] = []
    before, change = unchanged, no_change(graph)
    for candidate in order:
        change = combine(change, candidate.change)
        after = scale.replay(change)
        saving = max(0, min(before - after, alone[id(candidate)]))
        savings.append(_Saved(candidate, saving, before - after, alone[id(candidate)], saving))
        if savings[-1].is_worth(LEAST_SHARE * unchanged):
            before = after
        else:
            change = _all_of(graph, [one for one in savings if one.is_worth(LEAST_SHARE * unchanged)])
    return savings


def _limit(scale: _Scale, candidate: Candidate, change: ReplayChange, unchanged: int) -> int:
    """Return the most that a candidate can save (ns): the GPU's idle time plus the time of the work that it replaces.

    Only work that no longer waits for another stream can run beside other work.

    change: the candidate's estimate, or one of its bounds.
    """
    if candidate.code == _SIDE_BY_SIDE:
        return unchanged
    return _idle(scale, unchanged) + _replaced(scale.situation.graph, change)


def _idle(scale: _Scale, unchanged: int) -> int:
    return max(0, unchanged - scale.situation.graph.busy_ns)


def _replaced(graph: ExecutionGraph, change: ReplayChange) -> int:
    return int((graph.duration_ns - change.duration_ns).sum())


def _all_of(graph: ExecutionGraph, kept: list[_Saved]) -> ReplayChange:
    change = no_change(graph)
    for saving in kept:
        change = combine(change, saving.candidate.change)
    return change


def _within(scale: _Scale, saved: list[_Saved], unchanged: int, together: int) -> list[_Saved]:
    """Return the savings, limited to the graph's idle time plus the time of the work that they replace."""
    most = min(unchanged - together, _most(scale, saved, unchanged))
    total = sum(saving.added_ns for saving in saved)
    if total <= most:
        return saved
    part = most / total
    return [
        replace(saving, saving_ns=int(saving.saving_ns * part), shared_ns=int(saving.shared_ns * part))
        for saving in saved
    ]


def _most(scale: _Scale, saved: list[_Saved], unchanged: int) -> int:
    """Return the graph's idle time plus the time of the work that is replaced (ns)."""
    graph = scale.situation.graph
    side_by_side = sum(saving.alone_ns for saving in saved if saving.candidate.code == _SIDE_BY_SIDE)
    return _idle(scale, unchanged) + _replaced(graph, _all_of(graph, saved)) + side_by_side


def _bounds(scale: _Scale, saved: _Saved, unchanged: int) -> tuple[int, int]:
    """Return the least and the most (ns) that a candidate may save, by its two bounds, alone and after others."""
    candidate, alone = saved.candidate, saved.alone_ns

    def limited(saving: int, change: ReplayChange) -> int:
        return min(saving, _limit(scale, candidate, change, unchanged))

    def saved_alone(change: ReplayChange) -> int:
        return alone if change is candidate.change else limited(unchanged - scale.replay(change), change)

    def saved_traced(change: ReplayChange) -> int:
        return limited(scale.traced_ns - scale.replay_traced(change), change)

    def saved_fast(change: ReplayChange) -> int:
        return limited(scale.fast_ns - scale.replay_fast(change), change)

    # The least estimate is without what is shared, and so is the lower bound.
    usual = candidate.change if candidate.still_slowed is None or not saved.shared_ns else candidate.still_slowed
    after = [saved_alone(candidate.low), saved_traced(usual), saved_fast(usual)]
    below = float(saved_alone(usual) - min(saved_alone(usual), *after))
    most = [saved_alone(candidate.high), saved_traced(candidate.change), saved_fast(candidate.change)]
    most += [saved_fast(candidate.high), scale.slow_ns - scale.replay_slow(candidate.high)]
    above = max(alone, *most) - alone
    # What differs by itself between two processes adds to all this as independent errors do.
    noise = _PROCESS_NOISE * scale.situation.graph.busy_ns
    # What the replayed steps take longer than a usual one may be this candidate's.
    longer = scale.longer_ns
    if usual is candidate.change and saved.saving_ns:
        below *= saved.least_ns / saved.saving_ns  # what is shared is not in the least estimate, nor what it varies by
    of_nodes = _OF_NODES * _replaced_nodes(scale.situation.graph, usual)
    least = saved.least_ns - math.hypot(below, noise, max(0, longer)) - of_nodes
    return max(0, int(least)), max(saved.after_ns, int(alone + math.hypot(above, noise, max(0, -longer))))


def _replaced_nodes(graph: ExecutionGraph, change: ReplayChange) -> int:
    """Return the time of kernels that replayed CUDA graphs launch and that a change replaces (ns)."""
    owner = np.repeat(np.arange(len(graph.row)), np.diff(graph.first_work))
    is_node = (np.diff(graph.first_work) > 1)[owner]
    return int((graph.duration_ns - change.duration_ns)[is_node].sum())


def _findings(scale: _Scale, ledger: Ledger, per: str, saved: list[_Saved], unchanged: int) -> tuple[Finding, ...]:
    situation = scale.situation
    share, periods = situation.share, situation.periods
    bounds = {id(saving): _bounds(scale, saving, unchanged) for saving in saved}
    # A rank that waits for others may only wait longer for them by what it saves of its own time.
    waited = sum(saving.saving_ns for saving in saved if saving.candidate.code == _OF_OTHERS)
    is_torch = uses_torch(situation)
    return tuple(
        Finding(
            rank=rank,
            code=saving.candidate.code,
            range=_range_of(situation, saving.candidate),
            location="",
            other_ranges=_other_ranges(situation, saving.candidate),
            count=math.ceil(saving.candidate.count / share),
            idle_ns=int(_idle_of(situation, ledger, saving.candidate) / share),
            saving_ns=int(saving.saving_ns / periods),
            saving_low_ns=int(max(0, bounds[id(saving)][0] - waited) / periods),
            saving_high_ns=int(bounds[id(saving)][1] / periods),
            per=per,
            text=_text_of(saving, periods) if is_torch else plain_text(_text_of(saving, periods)),
            next_step=saving.candidate.next_step
            if is_torch
            else plain_step(saving.candidate.code, saving.candidate.next_step),
        )
        for rank, saving in enumerate(saved, start=1)
    )


def _text_of(saved: _Saved, periods: float) -> str:
    """Return the text of a finding, with what limits its saving."""
    return _text_of_spent(saved, periods) + _text_of_shared(saved, periods)


def _text_of_shared(saved: _Saved, periods: float) -> str:
    """Return how much of its saving other findings would save as well; nothing where none would."""
    if not saved.shared_ns:
        return ""
    names = " or ".join(saved.shared_with)
    return f" Up to {format_ns(int(saved.shared_ns / periods))} of this would be saved by {names}, too."


def _text_of_spent(saved: _Saved, periods: float) -> str:
    """Return the text of a candidate. If much less is saved than it says is spent, it also says where the rest is."""
    candidate, spent = saved.candidate, saved.candidate.spent_ns
    saving, alone = int(saved.saving_ns / periods), int(saved.alone_ns / periods)
    if saving >= _MUCH_LESS * spent:
        return candidate.text
    alone = min(alone, spent)
    parts = ((spent - alone, candidate.meanwhile), (alone - saving, "saved by other findings"))
    reasons = [f"{format_ns(part)} {why}" for part, why in parts if part >= _LEAST_PART * spent]
    amount = format_ns(spent)
    return candidate.text.replace(amount, f"{amount} ({', '.join(reasons)})", 1) if reasons else candidate.text


def _range_of(situation: Situation, candidate: Candidate) -> str:
    return situation.range_most(candidate.calls) if candidate.most_range is None else candidate.most_range


def _other_ranges(situation: Situation, candidate: Candidate) -> int:
    """Return how many ranges beside its own a candidate is in. Host work has a candidate for each range."""
    if candidate.gaps is not None:
        return 0
    return situation.other_ranges(candidate.calls, _range_of(situation, candidate))


def _idle_of(situation: Situation, ledger: Ledger, candidate: Candidate) -> int:
    """Return the idle time (ns) that the ledger gives to a candidate's calls and to the host time that it concerns."""
    graph, total = situation.graph, 0
    begin, end = graph.begin_ns, _end_of(graph)
    rows = np.sort(graph.row[candidate.calls])
    low, high = _host_times(situation, candidate)
    for pieces in ledger.pieces:
        inside = pieces.within(begin, end)
        its_start, its_ns = pieces.start_ns[inside], pieces.duration_ns[inside]
        called, its_call = pieces.calls_within(inside)
        if len(rows) and len(called):
            at = np.minimum(np.searchsorted(rows, its_call), len(rows) - 1)
            total += int(its_ns[called[rows[at] == its_call]].sum(dtype=np.int64))
        own = pieces.cause[inside] == HOST
        if len(low) and own.any():
            total += int(measure(its_start[own], its_start[own] + its_ns[own], low, high)[0].sum())
    return total


def _host_times(situation: Situation, candidate: Candidate) -> tuple[Int64s, Int64s]:
    """Return when the host did what a candidate concerns, before its calls and in them, as disjoint times in order."""
    if candidate.gaps is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none
    calls = candidate.gaps
    start = situation.call_start_ns[calls] - np.maximum(situation.graph.gap_ns[calls], 0)
    end = situation.call_start_ns[calls] + situation.call_ns[calls]
    _, low, high = union_of_groups(np.zeros(len(start), dtype=np.int64), start, end)
    return low, high
