"""Compose the page of `optimize`: the answer first, then what ran, what was tried, and how long each step took."""

from __future__ import annotations

from nsysprof.attention.shape import Shape
from nsysprof.report.document import (
    Cell,
    Code,
    Column,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    make_table,
)
from nsysprof.report.reports.program_report import comparison_line, detail_lines
from nsysprof.report.sections.wording import count_of
from nsysprof.results.comparison import LatencyVerdict
from nsysprof.results.programs.optimization import (
    UNDECIDED,
    Attempt,
    AttentionUse,
    Optimization,
    OptimizationAnswer,
    OptimizeStep,
    Prediction,
    TunedUse,
)
from nsysprof.results.programs.program_runs import MemoryKind
from nsysprof.units import format_bytes

_JSON = "optimize.json"
# Torch's own choice took at least so many times as long as a backend that is told although it is undecided.
WORTH_TELLING = 1.1
# From this part of launching on, a time says little about the GPU.
_MOSTLY_LAUNCHING = 0.8
_MET = {
    Prediction.NOT_MEASURED: "nothing was measured to compare it with",
    Prediction.MET: "the measured interval meets that",
    Prediction.GAINED_MORE: "the measured gain is more than that",
    Prediction.GAINED_LESS: "the measured gain is less than that",
}


def optimize_report(found: Optimization) -> Report:
    """Return the page of an optimization."""
    sections = [
        Section("", (Paragraph(" ".join(found.program)), Lines(answer_lines(found), is_verdict=True))),
        *_what_to_paste(found),
    ]
    if found.uses or found.answer is not OptimizationAnswer.FAILED:  # which tells nothing of its calls
        sections.append(Section("What ran", (Lines((*_attention_lines(found), *found.remarks)), _use_table(found))))
    if found.attempts:
        sections.append(Section("What was tried", (_attempt_table(found), *_attempt_parts(found))))
    if found.suggestions:
        sections.append(
            Section(
                "What could not be tried without changing the program",
                (Lines(tuple(each.text for each in found.suggestions)),),
            )
        )
    return Report(
        "nsysprof optimize",
        (
            *sections,
            Section("Where the time went", (_step_table(found),)),
            Section("Notes", (Notes(found.notes),)),
        ),
    )


def answer_lines(found: Optimization) -> tuple[str, ...]:
    """Return what is faster or needs less memory, and by how much, or that nothing does, with attention's share."""
    memory = tuple(_memory_line(attempt) for attempt in found.attempts if attempt.saves_memory)
    if found.answer is OptimizationAnswer.FASTER:
        return (*(_gain_line(attempt) for attempt in found.attempts if attempt.is_better), *memory)
    if found.answer is OptimizationAnswer.FAILED:
        return (found.failure, *memory)
    undecided = _undecided_lines(found)
    if found.answer is OptimizationAnswer.LESS_MEMORY:
        return (*memory, *(undecided or (_answer_without_a_gain(found),)), *_promising(found))
    if found.answer is OptimizationAnswer.UNDECIDED_ATTEMPTS:
        return (*undecided, *_promising(found))
    return (_answer_without_a_gain(found), *_promising(found))


def _undecided_lines(found: Optimization) -> tuple[str, ...]:
    """Return which attempts are undecided, and how many turns would decide them."""
    open_ones = [each for each in found.attempts if each.comparison.change.verdict is LatencyVerdict.INCONCLUSIVE]
    if not open_ones:
        return ()
    names = ", ".join(attempt.name for attempt in open_ones)
    needed = open_ones[0].comparison.change.next_step if len(open_ones) == 1 else ""
    text = f"Nothing is certainly faster. Undecided: {names}; more turns would decide."
    return (f"{text} {needed}".strip(),)


def _memory_line(attempt: Attempt) -> str:
    """Return how much less memory an attempt needs in every run, and what is known of its time."""
    kinds = {each.kind: each for each in attempt.comparison.memory}
    most = kinds.get(MemoryKind.RESERVED) or kinds[MemoryKind.PEAK]
    what = "it reserves" if most.kind is MemoryKind.RESERVED else "it needs"
    old, new = min(most.baseline_bytes), max(most.candidate_bytes)
    runs = f"in all {len(most.baseline_bytes)} runs of each side"
    if len(most.baseline_bytes) != len(most.candidate_bytes):
        runs = f"in all {len(most.baseline_bytes)} and {len(most.candidate_bytes)} runs"
    change = attempt.comparison.change
    ratio, low, high = (f"{100 * (each or 0):.1f} %" for each in (change.ratio, change.low, change.high))
    time = f" Its time is undecided, and not shown to be worse: a step takes {ratio} [{low}, {high}] of the time."
    if change.verdict is LatencyVerdict.SAME:
        time = f" A step takes the same time: {ratio} [{low}, {high}]."
    if change.verdict is LatencyVerdict.FASTER:
        time = ""
    return (
        f"With {attempt.name}, {what} {format_bytes(old - new)} ({100 * (1 - new / old):.0f} %) less memory: at most "
        f"{format_bytes(new)} instead of at least {format_bytes(old)}, {runs}.{time}"
    )


def _promising(found: Optimization) -> tuple[str, ...]:
    """Return a sentence about the undecided shape that could save the most by what was measured so far."""
    faster = [(lead, use) for use in found.tuned if (lead := _lead(use)) is not None]
    if not faster:
        return ()
    lead, first = max(faster, key=lambda each: (1 - 1 / each[0]) * (each[1].share_pct or 0.0))
    share = "" if first.share_pct is None else f" ({first.share_pct:.1f} % of the kernels' time)"
    if first.search_ended:
        why = ""
        if first.launch_share is not None and first.launch_share >= _MOSTLY_LAUNCHING:
            why = f", and {100 * first.launch_share:.0f} % of it is launching"
        return (
            f"For {_name_shape(first.shape)}{share}, torch's own choice took {lead:.2f} times as long as another "
            f"backend; its time varies too much to be certain{why}. `nsysprof tune --from capture --blocks 48` in this "
            "folder takes more samples.",
        )
    return (
        f"Worth a larger --budget: for {_name_shape(first.shape)}{share}, torch's own choice took {lead:.2f} times as "
        "long as another backend, too few times to be certain.",
    )


def _lead(use: TunedUse) -> float | None:
    """Return how many times as long torch's own choice took, where that is undecided but considerable."""
    over = use.over_auto
    return over if use.why == UNDECIDED and over is not None and over >= WORTH_TELLING else None


def _gain_line(attempt: Attempt) -> str:
    change = attempt.comparison.change
    low, high = _shorter(change.high), _shorter(change.low)
    return f"With {attempt.name}, a step is {_shorter(change.ratio)} shorter [{low}, {high}]."


def _answer_without_a_gain(found: Optimization) -> str:
    """Return why no attempt is faster, as far as that is known."""
    share = found.attention_share_pct
    told = "its share of the time is unknown" if share is None else f"attention has {share:.1f} % of the kernels' time"
    if not found.uses:
        told = "no call of attention was seen"
    if found.answer is OptimizationAnswer.FUSE_FIRST:
        text = "The program's attention runs in separate operations: fusing them is the first thing to try"
        return f"{text}; {told}. The change is described below; it cannot be tried without changing the program."
    if found.answer is OptimizationAnswer.UNDECIDED_SHAPES:
        shapes = count_of(sum(use.why == UNDECIDED for use in found.tuned), "shape")
        more = "by all samples of a search"
        if any(use.needs_budget for use in found.tuned):
            more = "before the budget ended: give more --budget"
        return f"No backend was shown to be faster, but {shapes} could not be decided {more}; {told}."
    if found.answer is OptimizationAnswer.NOT_TUNED:
        return f"No shape of the program was tuned, so nothing is known about other backends; {told}."
    if found.answer is OptimizationAnswer.NO_OTHER_BACKEND:
        return f"Your program gains nothing from another backend; {told}."
    return f"Nothing was found that makes your program faster; {told}."


def _shorter(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * (1 - ratio):.1f} %"


def _what_to_paste(found: Optimization) -> list[Section]:
    """Return what to set or to write into the program: for the fastest attempt, and for the one with least memory."""
    sections = []
    if found.best is not None:
        sections.append(Section("What to use", _ways_to_set(found.best)))
    if found.smallest is not None and found.smallest is not found.best:
        sections.append(Section("What to use for less memory", _ways_to_set(found.smallest)))
    return sections


def _ways_to_set(attempt: Attempt) -> tuple[Part, ...]:
    outside = (Paragraph("Without a change of the code:"), Code(attempt.setting, "sh")) if attempt.setting else ()
    words = "Or in the code:" if outside else "In the code:"
    return (*outside, *((Paragraph(words), Code(attempt.paste, "python")) if attempt.paste else ()))


def _attention_lines(found: Optimization) -> tuple[str, ...]:
    if not found.uses:
        return (
            "No call of attention was seen. Calls in C++ extensions and in processes other than Python's are not seen.",
        )
    share = found.attention_share_pct
    told = "unknown: the trace has no GPU work" if share is None else f"{share:.1f} % of the time of all kernels"
    calls = sum(use.calls for use in found.uses)
    return (f"Attention: {told}; {count_of(calls, 'call')} of {count_of(len(found.uses), 'shape')}.", *_changing(found))


def _changing(found: Optimization) -> list[str]:
    """Return a sentence for each line of the program whose shapes change from call to call."""
    return [
        f"{each.site or 'One place'} calls attention with {each.shapes} shapes: where they change at each step, "
        "no policy has a rule for the next one. Pad to a few lengths, or use a cache of fixed size."
        for each in found.changing_sites
    ]


def _use_table(found: Optimization) -> Table:
    best = {(use.site, use.shape): use for use in found.tuned}
    rows = []
    for use in found.uses:
        tuned = None if use.shape is None else best.get((use.site, use.shape))
        answer = Cell(use.not_tuned) if tuned is None else Cell(_answer(tuned))
        over = tuned.over_auto if tuned is not None and tuned.in_policy else None
        ran = Cell(use.backend_ran, reason="unknown")
        rows.append((use.site, _name(use), use.calls, ran, Cell(use.share_pct), answer, Cell(over)))
    columns = (
        Column("where", Unit.NAME),
        Column("shape", Unit.NAME),
        Column("calls", Unit.COUNT, drop=3),
        Column("ran", drop=1),
        Column("share", Unit.SHARE, drop=2),
        Column("best", Unit.PROSE),
        Column("auto over best", Unit.RATIO, drop=4),
    )
    return make_table("Shapes", columns, rows, source=_JSON)


def _answer(tuned: TunedUse) -> str:
    lead = _lead(tuned)
    if lead is None:
        return f"{tuned.backend} ({tuned.why})"
    return f"undecided: auto took {lead:.2f} times as long as another"


def _name(use: AttentionUse) -> str:
    return "unknown" if use.shape is None else _name_shape(use.shape)


def _name_shape(shape: Shape) -> str:
    heads = f"{shape.heads}" if shape.kv_heads == shape.heads else f"{shape.heads}/{shape.kv_heads}"
    causal = "causal" if shape.causal else "full"
    if shape.mask != "none":
        causal = f"mask {shape.mask}"
    length = f"{shape.seq}" if shape.kv_seq == shape.seq else f"{shape.seq}/{shape.kv_seq}"
    return f"B{shape.batch} H{heads} S{length} D{shape.head_dim} {shape.dtype} {causal} {shape.pass_}"


def _attempt_table(found: Optimization) -> Table:
    rows = []
    for attempt in found.attempts:
        change = attempt.comparison.change
        measured = None if change.ratio is None else 100 * (1 - change.ratio)
        low = None if change.high is None else 100 * (1 - change.high)
        high = None if change.low is None else 100 * (1 - change.low)
        verdict = change.verdict.value if change.verdict else change.candidate.status
        expected = attempt.predicted
        predicted = Cell(None, reason="not predicted")
        if expected is not None:
            predicted = Cell(expected.pct, low=expected.low_pct, high=expected.high_pct)
        rows.append((attempt.name, attempt.why, predicted, Cell(measured, low=low, high=high), verdict))
    columns = (
        Column("what", Unit.NAME),
        Column("why", Unit.PROSE, drop=1),
        Column("predicted gain [bounds]", Unit.PERCENT),
        Column("measured gain [95 %]", Unit.PERCENT),
        Column("verdict"),
    )
    return make_table("Attempts", columns, rows, source=_JSON)


def _attempt_parts(found: Optimization) -> list[Part]:
    parts: list[Part] = []
    for attempt in found.attempts:
        first = f"{attempt.name}: {comparison_line(attempt.comparison)}"
        parts.append(Lines((first, *_prediction_lines(attempt), *detail_lines(attempt.comparison))))
    return parts


def _prediction_lines(attempt: Attempt) -> tuple[str, ...]:
    """Return what was predicted before the attempt, and whether the measurement agrees."""
    expected = attempt.predicted
    if expected is None or attempt.prediction is None:
        return ()
    bounds = f"{expected.pct:.1f} % [{expected.low_pct:.1f}, {expected.high_pct:.1f}]"
    text = f"Before it was tried, {expected.by} predicted a {expected.per} to be {bounds} shorter"
    return (f"{text}; {_MET[attempt.prediction]}.",)


def _step_table(found: Optimization) -> Table:
    """Return the steps with their times; what the runs before took has a column where there were any."""
    before = sum(step.earlier_s for step in found.steps)
    rows = []
    for step in (*found.steps, OptimizeStep("in all", sum(step.seconds for step in found.steps), "", before)):
        earlier = (Cell(step.earlier_s * 1e9 or None),) if before else ()
        rows.append((step.name, step.seconds * 1e9, *earlier, step.outcome))
    earlier_column = (Column("in the runs before", Unit.NS),) if before else ()
    columns = (Column("step"), Column("time", Unit.NS), *earlier_column, Column("outcome", Unit.PROSE))
    return make_table("Steps", columns, rows, source=_JSON)
