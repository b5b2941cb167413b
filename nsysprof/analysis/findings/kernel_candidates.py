"""Find what could be changed in the GPU's work: unfused attention, unfused optimizers, and waits for others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from nsysprof.analysis.findings.candidates import LONG_GAP_NS, Candidate, without_work
from nsysprof.analysis.findings.fused_attention import attention_candidate
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.findings.step_amounts import counted, in_calls, in_work, number_text
from nsysprof.analysis.replay.replay import ReplayChange, no_change
from nsysprof.trace.schema import Bools
from nsysprof.units import format_ns

# At least this many elementwise kernels in a row are an optimizer that updates parameters one by one.
_STORM = 48
_OPTIMIZER = re.compile(
    r"addcmul|addcdiv|lerp|sqrt|BinaryFunctor|MulFunctor|AUnaryFunctor|elementwise|foreach|FillFunctor|pointwise", re.I
)
_PARTICULAR = re.compile(r"addcmul|addcdiv|lerp|sqrt", re.I)
_MULTI_TENSOR = re.compile(r"multi_tensor|FusedAdam|FusedOptimizer|fused_adam", re.I)
# A fused Adam step reads and writes each parameter and its state once; separate operations do so three times.
_FUSED_PART, _FUSED_PART_MOST, _FUSED_PART_LEAST = 0.33, 0.5, 0.2
# The time of a kernel that has nothing to do (ns).
_EMPTY_KERNEL_NS = 1_500
_MUCH_LONGER = 10
# Ranks never take exactly the same time. Waiting below this share of a step is not a problem.
_LEAST_COLLECTIVE = 0.05


def list_kernel_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the kernels of the graph."""
    searches: tuple[Callable[[Situation], Candidate | None], ...] = (
        attention_candidate, _optimizer, _collectives, _streams,
    )  # fmt: skip
    for search in searches:
        found = search(situation)
        if found is not None:
            yield found


def _optimizer(situation: Situation) -> Candidate | None:
    storm, runs = _storms(situation)
    if runs == 0:
        return None
    graph = situation.graph
    first = storm & ~np.concatenate((np.zeros(1, dtype=np.bool_), storm[:-1]))
    useful = np.where(storm, np.maximum(graph.duration_ns - _EMPTY_KERNEL_NS, 0), 0)
    run = np.cumsum(first)
    total = np.bincount(run, weights=useful * storm, minlength=int(run[-1]) + 1)
    inside = _calls_inside(situation, storm)

    def at(part: float) -> ReplayChange:
        fused = np.where(first, (total[run] * part).astype(np.int64) + 2 * _EMPTY_KERNEL_NS, graph.duration_ns)
        change = _without_host_time(situation, without_work(situation, storm & ~first, graph.duration_ns), inside)
        return replace(change, duration_ns=np.where(first, fused, change.duration_ns))

    issuing = in_calls(situation, inside, np.maximum(graph.gap_ns, 0) + graph.cost_ns)
    text = (
        f"The optimizer goes through the parameters one by one: {number_text(in_work(situation, storm))} elementwise "
        f"kernels in a row take the host {format_ns(int(issuing))} to issue and the GPU "
        f"{format_ns(int(in_work(situation, storm, graph.duration_ns)))} to run; none is a multi-tensor kernel."
    )
    step = "torch.optim.AdamW(model.parameters(), fused=True), or foreach=True."
    return Candidate(
        "unfused-optimizer", at(_FUSED_PART), at(_FUSED_PART_MOST), at(_FUSED_PART_LEAST), situation.calls_of(storm),
        int(storm.sum()), text, step,
    )  # fmt: skip


def _without_host_time(situation: Situation, change: ReplayChange, inside: Bools) -> ReplayChange:
    """Return the change without the host's short times between the launches of each optimizer run.

    inside: the calls of these runs.
    """
    return replace(
        change,
        gap_ns=np.where(inside, np.minimum(change.gap_ns, 0), change.gap_ns),
        cost_ns=np.where(inside, 0, change.cost_ns),
    )


def _calls_inside(situation: Situation, storm: Bools) -> Bools:
    """Return the calls from the first to the last launch of each optimizer run, but for waits and long host work.

    storm: which work belongs to long runs of elementwise kernels.
    """
    graph = situation.graph
    calls = situation.calls_of(storm)
    # Host time between two calls of a run belongs to that run, whichever call it precedes.
    positions = np.flatnonzero(calls)
    breaks = np.flatnonzero(np.diff(positions) > _STORM)
    inside = np.zeros(len(calls) + 1, dtype=np.int64)
    np.add.at(inside, np.append(positions[0], positions[breaks + 1]) + 1, 1)
    np.add.at(inside, np.append(positions[breaks], positions[-1]) + 1, -1)
    found: Bools = (np.cumsum(inside)[:-1] > 0) & (graph.gap_ns < LONG_GAP_NS) & (graph.waits_for < 0)
    return found


def _storms(situation: Situation) -> tuple[Bools, int]:
    """Return the work in long runs of elementwise kernels that contain an optimizer's, and the number of these runs."""
    storm = np.zeros(len(situation.kernel_name), dtype=np.bool_)
    code = situation.kernel_number
    # The last entry is for work that is not a kernel.
    kinds = [*map(str, situation.names.texts), ""]
    plain = [bool(_OPTIMIZER.search(name)) and not _MULTI_TENSOR.search(name) for name in kinds]
    simple = np.array(plain, dtype=bool)[code]
    simple &= ~np.isin(situation.category, ("gemm", "attention", "fft", "softmax", "nccl", "wait"))
    particular = np.array([bool(_PARTICULAR.search(name)) for name in kinds], dtype=bool)[code]
    runs = 0
    for number in np.unique(situation.graph.stream).tolist():
        mine = np.flatnonzero(situation.graph.stream == number)
        if len(mine) < _STORM:
            continue
        edges = np.flatnonzero(np.diff(simple[mine].astype(np.int8))) + 1
        for part in np.split(mine, edges):
            if len(part) >= _STORM and simple[part[0]] and particular[part].mean() > 0.1:
                storm[part] = True
                runs += 1
    return storm, runs


def _collectives(situation: Situation) -> Candidate | None:
    collective = situation.category == "nccl"
    if not collective.any():
        return None
    graph, base = situation.graph, no_change(situation.graph)
    least = graph.duration_ns.copy()
    for name in np.unique(situation.kernel_name[collective].astype(str)).tolist():
        mine = np.flatnonzero(collective & (situation.kernel_name == name))
        # The same kernel moves data of many sizes. Those at the same position of each step are comparable.
        if len(mine) % graph.steps == 0 and graph.steps > 1:
            shaped = graph.duration_ns[mine].reshape(graph.steps, -1)
            least[mine] = np.tile(shaped.min(axis=0), graph.steps)
        # A kernel that takes ten times as long as most of its kind in every step waits in every step.
        typical = int(np.median(graph.duration_ns[mine]))
        least[mine] = np.where(least[mine] > _MUCH_LONGER * typical, typical, least[mine])
    change = replace(base, duration_ns=np.where(collective, least, graph.duration_ns))
    # A rank that waits every time never shows how long a collective takes without waiting: it could be almost nothing.
    most = replace(base, duration_ns=np.where(collective, np.minimum(graph.duration_ns, 1), graph.duration_ns))
    waited = int(in_work(situation, collective, graph.duration_ns - least))
    if waited == 0:
        return None
    text = (
        "Collectives wait for other ranks: "
        f"{format_ns(int(in_work(situation, collective, graph.duration_ns)))} in "
        f"{counted(in_work(situation, collective), 'collective')}, "
        f"{format_ns(waited)} more than in the best step of each, or than most of their kind."
    )
    step = "Analyse all ranks together (nsysprof analyze RANK0 RANK1 ...): that says which one comes late, and where."
    calls = situation.calls_of(collective)
    count = int(collective.sum())
    return Candidate(
        "collective-wait", change, base, most, calls, count, text, step, least_share=_LEAST_COLLECTIVE,
        spent_ns=waited,
    )  # fmt: skip


def _of_collectives(situation: Situation, collective: Bools) -> Bools:
    """Return which work is in a stream that waits for collectives, or for which they wait: a library orders these."""
    graph = situation.graph
    other = np.maximum(graph.other, 0)
    linked = (graph.other >= 0) & (collective | collective[other])
    streams = np.unique(np.concatenate((graph.stream[linked], graph.stream[other[linked]], graph.stream[collective])))
    found: Bools = np.isin(graph.stream, streams)
    return found


def _streams(situation: Situation) -> Candidate | None:
    graph, base = situation.graph, no_change(situation.graph)
    collective = situation.category == "nccl"
    waits = (graph.other >= 0) & ~_of_collectives(situation, collective)
    # The first step may begin after its wait.
    if int(waits.sum()) < max(1, graph.steps - 1):
        return None
    change = replace(base, needs_other=base.needs_other & ~waits)
    pairs = Counter(zip(graph.stream[waits].tolist(), graph.stream[graph.other[waits]].tolist(), strict=True))
    text = (
        f"Work waits in {counted(in_work(situation, waits), 'place')} until another stream is done "
        f"({len(pairs)} pair{'s' if len(pairs) > 1 else ''} of streams): they run one after another, not side by side."
    )
    step = "Wait only for an event of the work that is needed (stream.wait_event(event)), not for the whole stream."
    calls = situation.calls_of(waits)
    # If streams wait for each other in turn, the wait that holds up most work is the one to look at.
    took = np.bincount(graph.stream, weights=graph.duration_ns)
    busiest = max(np.unique(graph.stream[waits]).tolist(), key=lambda number: float(took[number]))
    return Candidate(
        "stream-dependency", change, base, change, calls, int(waits.sum()), text, step, weight=1.1,
        named_by=situation.calls_of(waits & (graph.stream == busiest)), is_named_by_waits=True,
    )  # fmt: skip
