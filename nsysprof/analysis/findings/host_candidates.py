"""Find what could be changed in the host's time: compilation, work outside CUDA, and many small launches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.candidates import LEAST_REPEATS, LONG_GAP_NS, Candidate
from nsysprof.analysis.findings.kernel_candidates import find_compile_candidate
from nsysprof.analysis.findings.situation import Situation, counted, in_calls, in_work
from nsysprof.analysis.findings.waits import TAKE_OUT, what_is_read
from nsysprof.analysis.idle_time.call_classes import COPIES, LAUNCH, MEMORY, MODULE, SLOW_NS
from nsysprof.analysis.idle_time.host_holds import OF_DATA
from nsysprof.analysis.replay.replay import ReplayChange, no_change
from nsysprof.arrays import rows_by_key
from nsysprof.trace.schema import Bools
from nsysprof.units import format_ns

_LOADS = re.compile(r"Load|Link")
_OF_CUDNN_ATTENTION = re.compile(r"cudnn_generated.*sdpa")
_UNLESS = " Whether it works there or waits for requests, a recording with --trace=cuda,nvtx,osrt tells."
# Host work of a range that takes at least this share of a step is a finding of its own.
_LARGE_PART = 0.05
# Who issues nothing for so much of the time may be waiting for work, as a service does; and host work that lies in data
# loaders for so much of its time is loading.
_MOSTLY = 0.5
# The category of collectives' kernels.
_COLLECTIVE = "communication"
# At least this many launches of the same few kernels in a row are a loop over small pieces.
_STORM, _LONGEST_PATTERN = 100, 4
# So many ranges with most of these launches have a finding of their own; each takes the memory of many replays.
_MOST_STORMS = 20
# The share of the host's issuing time that a CUDA graph leaves: at best, typically, and at worst.
_GRAPH_LEAST, _GRAPH, _GRAPH_MOST = 0.01, 0.05, 0.25
# The share of the time of collections that is left at worst, where much is new in each step.
_GC_LEFT = 0.3
# From so many waits a step on, some lie between launches; one may stand at the step's end, outside of any graph.
_LEAST_WAITS = 2
_CELLS = re.compile(r"(lstm|gru)_cell_(forward|backward)")
_LEAST_CELLS = 8
_NO_CELLS = (
    'Replay the step as a CUDA graph: model = torch.compile(model, mode="reduce-overhead"). Better, where cells run '
    "over a sequence: give all of it to torch.nn.LSTM or GRU, which cuDNN computes in few kernels."
)
_GRAPH_OF_STEP = 'model = torch.compile(model, mode="reduce-overhead"), or torch.cuda.graph.'


def list_host_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the host's time of the graph."""
    compiled = _compiled(situation)
    loads = _module_loads(situation, compiled)
    if loads is not None:
        yield loads
    yield from filter(None, (_collections(situation), find_compile_candidate(situation)))
    yield from _host_work(situation, compiled)
    yield from _launches(situation)


def _compiled(situation: Situation) -> Bools:
    """Return which calls load a module that the host had compiled or built just before, by what is not recorded."""
    code, names = pd.factorize(situation.call_name)
    loads = np.array([bool(_LOADS.search(str(name))) for name in names], dtype=bool)[code]
    built: Bools = loads & (situation.call_class == MODULE) & situation.in_loop & (situation.compiled_ns == 0)
    return built & (situation.graph.gap_ns >= LONG_GAP_NS)


def _module_loads(situation: Situation, compiled: Bools) -> Candidate | None:
    calls = (situation.call_class == MODULE) & situation.in_loop & (situation.call_ns >= SLOW_NS)
    # Lazy loading is hidden in the first launch of a kernel, which takes a hundred times as long as usual.
    launches = (situation.call_class == LAUNCH) & situation.in_loop & (situation.graph.waits_for < 0)
    typical = int(np.median(situation.call_ns[launches])) if launches.any() else 0
    lazy = launches & (situation.call_ns > max(20 * typical, 10 * SLOW_NS))
    all_of = calls | lazy | compiled
    if not all_of.any():
        return None
    graph, base = situation.graph, no_change(situation.graph)

    def left(part: float) -> ReplayChange:
        return replace(
            base,
            cost_ns=np.where(all_of, np.minimum(graph.cost_ns, max(typical, 1)), graph.cost_ns),
            gap_ns=np.where(compiled, (graph.gap_ns * part).astype(np.int64), graph.gap_ns),
        )

    before = in_calls(situation, compiled, graph.gap_ns)
    spent = int(in_calls(situation, all_of, situation.call_ns) + before)
    count = in_calls(situation, all_of)
    text = f"Kernels are compiled or loaded after warm-up: {format_ns(spent)} in {counted(count, 'call')}"
    text += f" and in the {format_ns(int(before))} before {'it' if count == 1 else 'them'}." if before else "."
    used = situation.names.texts[np.unique(situation.kernel_number[situation.kernel_number >= 0])]
    if before and any(_OF_CUDNN_ATTENTION.search(str(name)) for name in used):
        step = (
            "cuDNN builds a plan for each new shape of attention: with torch.nn.attention.sdpa_kernel("
            "SDPBackend.FLASH_ATTENTION): ..., or pad the lengths to a few."
        )
    else:
        step = (
            "Run each shape once before the loop, and pad to a few shapes; CUDA_MODULE_LOADING=EAGER loads kernels at "
            "the start."
        )
    change, low = left(0.0), left(0.25)
    return Candidate("module-load", change, low, change, all_of, int(all_of.sum()), text, step, gaps=compiled)


def _collections(situation: Situation) -> Candidate | None:
    """Return what the program gains where Python collects no garbage between the calls of a step."""
    calls = (situation.collected_ns > 0) & situation.in_loop
    if not calls.any():
        return None
    spent = int(in_calls(situation, calls, situation.collected_ns))
    text = (
        f"Python collects garbage for {format_ns(spent)}, before {counted(in_calls(situation, calls), 'call')}, while "
        "the host issues nothing."
    )
    step = (
        "After warm-up, gc.collect() and gc.freeze() take what lives on out of every later collection; gc.disable() "
        "with a gc.collect() every some hundred steps moves the rest to where you choose."
    )
    change, low = (situation.hold_less(calls, situation.collected_ns, left) for left in (0.0, _GC_LEFT))
    return Candidate("python-gc", change, low, change, calls, int(calls.sum()), text, step, gaps=calls, spent_ns=spent)


def _host_work(situation: Situation, compiled: Bools) -> Iterator[Candidate]:
    """Yield long stretches of host time: one candidate for each range that has many, and one for all others."""
    graph = situation.graph
    calls = (situation.own_ns >= LONG_GAP_NS) & situation.in_loop & ~compiled
    if not situation.is_looped:
        calls &= _repeated(situation, calls)
    others = calls.copy()
    least = int(_LARGE_PART * graph.recorded_ns)
    number, names = pd.factorize(situation.range_before)
    gap_ns = np.bincount(number[calls], graph.gap_ns[calls], len(names))
    for large in pd.unique(number[calls & (gap_ns[number] >= least)]).tolist():
        mine = calls & (number == large)
        others &= ~mine
        yield _stretches(situation, mine, str(names[large]))
    if others.any():
        longest = int(np.argmax(np.where(others, graph.gap_ns, -1)))
        yield _stretches(situation, others, str(situation.range_before[longest]))


def _stretches(situation: Situation, calls: Bools, where: str) -> Candidate:
    graph, base = situation.graph, no_change(situation.graph)
    own_ns = situation.own_ns
    spent = int(in_calls(situation, calls, own_ns))
    text = (
        f"The host is outside CUDA for {format_ns(spent)}, in "
        f"{counted(in_calls(situation, calls), 'stretch', 'stretches')} of at least 200 us, and issues nothing "
        "meanwhile."
    )
    loaded = int(in_calls(situation, calls, np.minimum(situation.loaded_ns, own_ns)))
    is_of_data = OF_DATA.search(where) is not None or loaded >= _MOSTLY * spent
    if loaded >= _MOSTLY * spent:
        text += f" For {format_ns(loaded)} of it, it takes a batch from the data loader."
    is_most = int(own_ns[calls].sum()) >= _MOSTLY * graph.recorded_ns
    if is_most and not situation.knows_waits and not is_of_data:
        text += _UNLESS
    if is_of_data:
        step = (
            "Do it in the background, a step ahead: DataLoader(..., num_workers=4, prefetch_factor=2) where it is "
            "data; py-spy record shows what it is."
        )
    elif not where:
        step = (
            "py-spy record shows what it does there: leave it out, or do it a step ahead in another thread "
            "(DataLoader(..., num_workers=4, prefetch_factor=2) where it is data)."
        )
    else:
        step = "py-spy record shows which code runs there: leave it out, or do it a step ahead in another thread."
    held = np.minimum(situation.held_ns, graph.gap_ns)
    change = replace(base, gap_ns=np.where(calls, held, graph.gap_ns))
    low = replace(base, gap_ns=np.where(calls, np.maximum(held, graph.gap_ns // 4), graph.gap_ns))
    count = int(calls.sum())
    return Candidate(
        "host-bound", change, low, change, calls, count, text, step, order=1, gaps=calls, most_range=where,
        spent_ns=spent,
    )  # fmt: skip


def _repeated(situation: Situation, calls: Bools) -> Bools:
    """Return which calls begin work that a long stretch of host time precedes repeatedly.

    This is the only sign of a loop where there are no steps. The stretch must come before every second launch of the
    same kernel or more, and at least eight times. Stretches ten times as long as the median are left out.
    """
    graph = situation.graph
    following = np.minimum(graph.first_work[:-1], len(graph.work_row) - 1)
    code = situation.kernel_number + 1
    often = np.bincount(code, minlength=1)
    chosen = np.flatnonzero(calls)
    before = pd.Series(graph.gap_ns[chosen]).groupby(code[following[chosen]])
    count, typical = before.transform("size").to_numpy(), before.transform("median").to_numpy()
    is_repeated = np.zeros(len(calls), dtype=np.bool_)
    regular = (count >= LEAST_REPEATS) & (2 * count >= often[code[following[chosen]]])
    is_repeated[chosen] = regular & (graph.gap_ns[chosen] <= 10 * typical)
    return is_repeated


def _launches(situation: Situation) -> Iterator[Candidate]:
    """Yield candidates about issuing short work: one for each range that loops over small pieces, one for the rest."""
    graph = situation.graph
    quick = situation.in_loop & (situation.call_ns < SLOW_NS) & ~situation.is_wait & ~situation.is_blocking_copy
    quick &= (situation.call_class != MEMORY) & (situation.call_class != COPIES)
    issuing = quick & (np.diff(graph.first_work) > 0)
    rest = quick.copy()
    in_storm = situation.calls_of(_small_pieces(situation)) & issuing
    number, names = pd.factorize(situation.range_of)
    launches = np.bincount(number[in_storm], minlength=len(names))
    launches[np.argsort(-launches, kind="stable")[_MOST_STORMS:]] = 0
    for large in pd.unique(number[in_storm & (launches[number] >= _STORM * graph.steps)]).tolist():
        issued = in_storm & (number == large)
        calls = situation.leading_to(issued) & quick
        rest &= ~calls
        yield _storm(situation, calls, issued, str(names[large]))
    if int((rest & issuing).sum()) >= 10 * graph.steps:
        yield _all_launches(situation, rest, rest & issuing)


def _small_pieces(situation: Situation) -> Bools:
    """Return which kernels are in a long row of the same few kernels in one stream."""
    graph = situation.graph
    code = situation.kernel_number
    is_piece = np.zeros(len(code), dtype=np.bool_)
    for _, mine in rows_by_key(pd.Series(graph.stream)):
        for length in range(1, min(_LONGEST_PATTERN, len(mine) - _STORM) + 1):
            same = np.zeros(len(mine), dtype=np.bool_)
            same[length:] = code[mine[length:]] == code[mine[:-length]]
            edges = np.flatnonzero(np.diff(same.astype(np.int8))) + 1
            for part in np.split(np.arange(len(mine)), edges):
                if len(part) >= _STORM and same[part[0]]:
                    is_piece[mine[part[0] - length : part[-1] + 1]] = True
    is_piece &= code >= 0
    return is_piece


def _issued_faster(situation: Situation, calls: Bools, part: float) -> ReplayChange:
    """Return the change that leaves only `part` of the host's issuing time for these calls."""
    graph = situation.graph
    short = calls & (graph.gap_ns < LONG_GAP_NS)
    return replace(
        no_change(graph),
        gap_ns=np.where(short, (graph.gap_ns * part).astype(np.int64), graph.gap_ns),
        cost_ns=np.where(calls, (graph.cost_ns * part).astype(np.int64), graph.cost_ns),
    )


def _issuing_times(situation: Situation, calls: Bools, issuing: Bools) -> tuple[int, int]:
    """Return how long issuing takes the host and how long the work takes the GPU (ns per step).

    Collectives do not count as work of the GPU, because part of their time they wait for other ranks.
    """
    graph = situation.graph
    spent = in_calls(situation, calls & (graph.gap_ns < LONG_GAP_NS), graph.gap_ns)
    spent += in_calls(situation, calls, graph.cost_ns)
    kernels = situation.work_of(issuing) & (situation.category != _COLLECTIVE)
    return int(spent), int(in_work(situation, kernels, graph.duration_ns))


def _storm(situation: Situation, calls: Bools, issued: Bools, where: str) -> Candidate:
    host, device = _issuing_times(situation, calls, issued)
    text = (
        f"{counted(in_calls(situation, issued), 'launch', 'launches')} of the same few kernels follow each other: "
        f"issuing them takes the host {format_ns(host)}, running them takes the GPU {format_ns(device)}"
    )
    step = (
        "Do it at once on one larger tensor, or with torch._foreach_add_ and the like, or capture the loop as a graph."
    )
    return _of_launches(situation, calls, issued, text, step, order=2, where=where)


def _all_launches(situation: Situation, calls: Bools, issuing: Bools) -> Candidate:
    host, device = _issuing_times(situation, calls, issuing)
    count = counted(in_calls(situation, issuing), "launch", "launches")
    has_collectives = bool((situation.category[situation.work_of(issuing)] == _COLLECTIVE).any())
    without = " without the collectives" if has_collectives else ""
    text = f"{count} take the host {format_ns(host)} to issue and the GPU {format_ns(device)} to run{without}"
    if host < device:
        text += "; where they are short, the GPU waits for the next launch"
    step = _fewer_launches(situation, issuing, has_collectives=has_collectives)
    return _of_launches(situation, calls, issuing, text, step, order=3, where=None)


def _fewer_launches(situation: Situation, issuing: Bools, *, has_collectives: bool) -> str:
    """Return how to issue less, which depends on whether the steps replay graphs and exchange data with other ranks."""
    code, names = pd.factorize(situation.call_name)
    replays = np.array(["GraphLaunch" in str(name) for name in names], dtype=bool)[code]
    graphs = in_calls(situation, issuing & replays)
    if graphs:
        return (
            f"It replays {counted(graphs, 'CUDA graph')} already: let them hold what is launched beside them "
            "too. TORCH_LOGS=graph_breaks,cudagraphs says what torch.compile left out."
        )
    if has_collectives:
        return (
            "Issue less: torch.compile(model) fuses kernels, and a larger batch for each rank makes them longer. A "
            "CUDA graph of the step must hold its collectives too (NCCL 2.9.6 and later)."
        )
    cells = situation.kernels_named(lambda name: _CELLS.search(name) is not None)
    if in_work(situation, cells & situation.work_of(issuing)) >= _LEAST_CELLS:
        return _NO_CELLS
    return f"Replay the step as a CUDA graph: {_GRAPH_OF_STEP}"


def _waits_between(situation: Situation, issuing: Bools) -> Bools:
    """Return which calls wait for the GPU in the ranges of these launches."""
    ranges = set(situation.range_of[issuing].tolist())
    inside = np.array([range_ in ranges for range_ in situation.range_of.tolist()], dtype=np.bool_)
    waits: Bools = situation.is_wait & situation.in_loop & ~situation.is_of_nccl & inside
    return waits


def _of_launches(
    situation: Situation, calls: Bools, issuing: Bools, text: str, step: str, *, order: int, where: str | None
) -> Candidate:
    waits = _waits_between(situation, issuing)
    reads, times = what_is_read(situation, waits), in_calls(situation, waits)
    if times:
        often = "once" if times == 1 else counted(times, "time")
        to_read = (" a step" if situation.is_looped else "") + (f" to read {reads.text}" if reads.text else "")
        text += f", and the host waits for the GPU there {often}{to_read}"
        if times >= _LEAST_WAITS:
            text += "; no CUDA graph can hold that"
            step = f"{TAKE_OUT} {reads.next_step} Then replay the step as a CUDA graph: {_GRAPH_OF_STEP}"
        else:
            text += "; that must stay outside of a CUDA graph"
            step += f" Instead of the wait: {reads.next_step}"
    change, low, high = (_issued_faster(situation, calls, part) for part in (_GRAPH, _GRAPH_MOST, _GRAPH_LEAST))
    count = int(issuing.sum())
    short = calls & (situation.graph.gap_ns < LONG_GAP_NS)
    return Candidate(
        "launch-bound", change, low, high, calls, count, f"{text}.", step, order=order, gaps=short, most_range=where,
        waits=waits if times else None, waits_at=reads.place,
    )  # fmt: skip
