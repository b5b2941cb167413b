"""Compose what bench and optimize say about a program: its runs under each policy, and what was tried.

Compose the report of `whatif`: how long a step took, and would take with each change and with all changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsysprof.attention.shape import Shape
from nsysprof.report.document import (
    Cell,
    Code,
    Column,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    Value,
    count_of,
    make_table,
    table_of,
)
from nsysprof.report.pages.compare import OUTCOMES
from nsysprof.report.pages.range_rows import step_label
from nsysprof.results.comparison import LatencyVerdict
from nsysprof.results.findings import JOB, TRACE, WhatIf, WhatIfAnswer
from nsysprof.results.program_runs import (
    UNDECIDED,
    Attempt,
    AttentionUse,
    MemoryChange,
    MemoryKind,
    Optimization,
    OptimizationAnswer,
    OptimizeStep,
    Prediction,
    ProgramComparison,
    ProvenSet,
    Sameness,
    TunedUse,
    ValueComparison,
)
from nsysprof.units import format_apart, format_bytes, format_ns


def program_report(comparison: ProgramComparison) -> Report:
    """Return the report of a program on two sides."""
    title = "nsysprof bench" + (f": {OUTCOMES[comparison.outcome]}" if comparison.outcome is not None else "")
    head = Paragraph(f"{comparison.change.case}: {comparison.baseline.label} against {comparison.candidate.label}")
    sections = [Section("", (head,))]
    if comparison.outcome is not None:
        sections.append(Section(f"gate: {OUTCOMES[comparison.outcome]}", (Gate(comparison.gate),), is_conclusion=True))
    return Report(
        title,
        (
            *sections,
            Section("", (Lines((comparison_line(comparison),), is_verdict=True), Lines(detail_lines(comparison)))),
            Section("", (side_table([("", comparison)]),)),
            Section("Notes", (Notes(comparison.notes),)),
            Section("Method", (Lines(comparison.method),), in_terminal=False, is_folded=True),
        ),
    )


def comparison_line(comparison: ProgramComparison) -> str:
    """Return the verdict on the time of a step, with its interval, in one sentence."""
    change = comparison.change
    if change.verdict is None or change.ratio is None:
        old, new = change.baseline, change.candidate
        if old.status != "ok":
            return f"There is no verdict, because the baseline {old.reason or old.status}."
        if new.status != "ok":
            return f"The candidate {new.reason or new.status}; the baseline runs."
        return f"There is no verdict: {change.reason}."
    interval = f"{_percent(change.ratio)} [{_percent(change.low)}, {_percent(change.high)}]"
    return f"{change.verdict.value}: a step of the candidate takes {interval} of the time (95 % interval)."


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def detail_lines(comparison: ProgramComparison) -> tuple[str, ...]:
    """Return more details: where times come from, why a verdict is missing, memory, values, and the policy's calls."""
    change, lines = comparison.change, [f"Times are from {comparison.source or 'nothing'}."]
    if change.reason and change.verdict is not None:
        lines.append(f"{change.reason.capitalize()}.{f' {change.next_step}' if change.next_step else ''}")
    old, new = comparison.baseline.peak_bytes, comparison.candidate.peak_bytes
    if old and new is not None:
        peaks = f"Peak memory: {' to '.join(format_apart(format_bytes, old, new))} ({100 * (new / old - 1):+.1f} %)"
        reserved = comparison.baseline.reserved_bytes, comparison.candidate.reserved_bytes
        if reserved[0] is not None and reserved[1] is not None:
            peaks += f"; reserved {' to '.join(format_apart(format_bytes, reserved[0], reserved[1]))}"
        lines.append(f"{peaks}.")
    lines += [memory_line(memory) for memory in comparison.memory]
    if comparison.values is not None:
        lines.append(values_line(comparison.values))
    use = comparison.candidate.use
    if use is not None:
        compiled = f", {use.compiled} forms were compiled with a rule" if use.compiled else ""
        calls = f"{use.calls:,} calls ran as tuned, {use.left:,} were left to torch{compiled}"
        lines.append(f"Policy: {'it was not in force' if use.was_refused else calls}.")
        lines += use.reasons
    return tuple(lines)


def memory_line(memory: MemoryChange) -> str:
    """Return by how much memory certainly differs, with the runs that show it, in one sentence."""
    old, new = memory.baseline_bytes, memory.candidate_bytes
    what = "It reserves" if memory.kind is MemoryKind.RESERVED else "It needs"
    more = "less" if memory.is_lower else "more"
    amount = memory.saved_bytes if memory.is_lower else min(new) - max(old)
    runs = f"{_span(old)} in {len(old)} runs of the baseline, {_span(new)} in {len(new)} of the candidate"
    return f"{what} at least {format_bytes(amount)} {more} memory: {runs}."


def _span(values: Sequence[int]) -> str:
    least, most = format_apart(format_bytes, min(values), max(values))
    return least if least == most else f"{least} to {most}"


def values_line(values: ValueComparison) -> str:
    """Return whether the values of both sides are the same, in one sentence."""
    largest = "" if values.largest_pct is None else f"; the largest difference is {values.largest_pct:.2g} %"
    within = f"within {values.tolerance_pct:g} %"
    if values.verdict is Sameness.EQUAL:
        return f"Values: all {values.count} are equal {within}{largest}."
    if values.verdict is Sameness.DIFFERENT:
        return f"Values: they DIFFER, not all {values.count} are {within}{largest}. {values.reason}".strip()
    if values.verdict is Sameness.APPROXIMATE:
        return f"Values: approximate, {values.reason}; up to {values.tolerance_pct:.2g} % is what that explains."
    return f"Values: not compared, because {values.reason}."


def side_table(comparisons: Sequence[tuple[str, ProgramComparison]]) -> Table:
    """Return one row for each side.

    comparisons: each comparison with its name; an empty name for the only one.
    """
    sides = [
        (f"{title} {name}".strip(), side)
        for title, comparison in comparisons
        for name, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    ]
    columns = (
        (Column("side", Unit.NAME), lambda side: side[0]),
        (Column("with", Unit.NAME, drop=2), lambda side: side[1].label),
        (Column("step", Unit.NS), lambda side: side[1].step_ns),
        (Column("steps", Unit.COUNT, drop=3), lambda side: side[1].steps),
        (Column("runs", Unit.COUNT, drop=1), lambda side: side[1].runs),
        (Column("failed", Unit.COUNT, drop=4), lambda side: side[1].failed),
        (Column("peak", Unit.BYTES), lambda side: side[1].peak_bytes),
    )
    return table_of("Sides", sides, columns, source="comparison.json")


def parts_of(comparison: ProgramComparison) -> tuple[Part, ...]:
    """Return the parts by which a larger report describes one comparison."""
    return (Lines((comparison_line(comparison), *detail_lines(comparison))), Notes(comparison.notes))


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


def optimize_report(optimization: Optimization) -> Report:
    """Return the page of an optimization."""
    sections = [
        Section("", (Paragraph(" ".join(optimization.program)), Lines(answer_lines(optimization), is_verdict=True))),
        *_what_to_paste(optimization),
    ]
    if optimization.uses or optimization.answer is not OptimizationAnswer.FAILED:  # which tells nothing of its calls
        sections.append(
            Section(
                "What ran", (Lines((*_attention_lines(optimization), *optimization.remarks)), _use_table(optimization))
            )
        )
    if optimization.attempts:
        sections.append(Section("What was tried", (_attempt_table(optimization), *_attempt_parts(optimization))))
    forbidden = _forbidden_lines(optimization)
    if forbidden:
        sections.append(Section("What the program forbids by itself", (Lines(forbidden),)))
    if optimization.not_tried:
        lines = tuple(f"{item.name}: {item.reason}." for item in optimization.not_tried)
        sections.append(Section("What was not tried", (Lines(lines),)))
    if optimization.suggestions:
        sections.append(
            Section(
                "What could not be tried without changing the program",
                (Lines(tuple(suggestion.text for suggestion in optimization.suggestions)),),
            )
        )
    return Report(
        "nsysprof optimize",
        (
            *sections,
            Section("Where the time went", (_step_table(optimization),)),
            Section("Notes", (Notes(optimization.notes),)),
        ),
    )


def answer_lines(optimization: Optimization) -> tuple[str, ...]:
    """Return what is faster or needs less memory, and by how much, or that nothing does, with attention's share."""
    memory = tuple(_memory_line(attempt) for attempt in optimization.attempts if attempt.saves_memory)
    if optimization.proven is not None:
        return (_proven_line(optimization.proven), *memory)
    if optimization.answer is OptimizationAnswer.FASTER:
        return (*(_gain_line(attempt) for attempt in optimization.attempts if attempt.is_better), *memory)
    if optimization.answer is OptimizationAnswer.FAILED:
        return (optimization.failure, *memory)
    undecided = _undecided_lines(optimization)
    if optimization.answer is OptimizationAnswer.LESS_MEMORY:
        return (*memory, *(undecided or (_answer_without_a_gain(optimization),)), *_promising(optimization))
    if optimization.answer is OptimizationAnswer.UNDECIDED_ATTEMPTS:
        return (*undecided, *_promising(optimization))
    return (*_without_time(optimization), _answer_without_a_gain(optimization), *_promising(optimization))


def _proven_line(proven: ProvenSet) -> str:
    """Return what a step takes now and with the proven set, with the interval and what is known of the values."""
    change, names = proven.comparison.change, " and ".join(proven.names)
    old, new = proven.comparison.baseline.step_ns, proven.comparison.candidate.step_ns
    times = ""
    if old is not None and new is not None:
        times = f", {' instead of '.join(format_apart(format_ns, round(new), round(old)))}"
    low, high = _shorter(change.high), _shorter(change.low)
    if not proven.is_confirmed:
        return (
            f"{names} looked faster, and a repetition does not confirm it: there a step is {_shorter(change.ratio)} "
            f"shorter [{low}, {high}]."
        )
    values = proven.comparison.values
    text = (
        f"With {names}, a step is {_shorter(change.ratio)} shorter [{low}, {high}]{times}, confirmed by a repetition."
    )
    if values is not None and values.verdict is Sameness.APPROXIMATE:
        text += f" The results are approximate: {values.reason}."
    elif values is not None and values.verdict is Sameness.UNKNOWN:
        text += f" Whether the results are the same is unknown: {values.reason}."
    if proven.pays_after is not None:
        text += f" Its longer start pays after {count_of(proven.pays_after, 'step')}."
    return text


def _forbidden_lines(optimization: Optimization) -> tuple[str, ...]:
    """Return which settings of the program a remedy took the place of, and what that gains."""
    return tuple(
        f"{attempt.name}: the program itself sets {'; '.join(attempt.replaced)}. Set after it, a step is "
        f"{_shorter(attempt.comparison.change.ratio)} shorter. Change that line, or run it as above."
        for attempt in optimization.attempts
        if attempt.replaced and attempt.is_better
    )


def _undecided_lines(optimization: Optimization) -> tuple[str, ...]:
    """Return which attempts are undecided, and how many turns would decide them."""
    changes = {attempt.name: attempt.comparison.change for attempt in optimization.attempts}
    undecided = {name: change for name, change in changes.items() if change.verdict is LatencyVerdict.INCONCLUSIVE}
    if not undecided:
        return ()
    names = ", ".join(undecided)
    needed = next(iter(undecided.values())).next_step if len(undecided) == 1 else ""
    text = f"Nothing is certainly faster. Undecided: {names}; more turns would decide."
    return (f"{text} {needed}".strip(),)


def _memory_line(attempt: Attempt) -> str:
    """Return how much less memory an attempt needs in every run, and what is known of its time."""
    kinds = {memory.kind: memory for memory in attempt.comparison.memory}
    most = kinds.get(MemoryKind.RESERVED) or kinds[MemoryKind.PEAK]
    what = "it reserves" if most.kind is MemoryKind.RESERVED else "it needs"
    old, new = min(most.baseline_bytes), max(most.candidate_bytes)
    runs = f"in all {len(most.baseline_bytes)} runs of each side"
    if len(most.baseline_bytes) != len(most.candidate_bytes):
        runs = f"in all {len(most.baseline_bytes)} and {len(most.candidate_bytes)} runs"
    change = attempt.comparison.change
    ratio, low, high = (f"{100 * (factor or 0):.1f} %" for factor in (change.ratio, change.low, change.high))
    time = f" Its time is undecided, and not shown to be worse: a step takes {ratio} [{low}, {high}] of the time."
    if change.verdict is LatencyVerdict.SAME:
        time = f" A step takes the same time: {ratio} [{low}, {high}]."
    if change.verdict is LatencyVerdict.FASTER:
        time = ""
    return (
        f"With {attempt.name}, {what} {format_bytes(old - new)} ({100 * (1 - new / old):.0f} %) less memory: at most "
        f"{format_bytes(new)} instead of at least {format_bytes(old)}, {runs}.{time}"
    )


def _promising(optimization: Optimization) -> tuple[str, ...]:
    """Return a sentence about the undecided shape that could save the most by what was measured so far."""
    faster = [(lead, use) for use in optimization.tuned if (lead := _lead(use)) is not None]
    if not faster:
        return ()
    lead, first = max(faster, key=lambda pair: (1 - 1 / pair[0]) * (pair[1].share_pct or 0.0))
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


def _without_time(optimization: Optimization) -> Iterator[str]:
    """Yield that some remedies could still help, which the budget had no time for."""
    budgets = {item.name: item.needs_budget_s for item in optimization.not_tried if item.needs_budget_s is not None}
    if budgets:
        yield f"The budget had no time for {', '.join(budgets)}: give --budget {max(budgets.values())} to try."


def _answer_without_a_gain(optimization: Optimization) -> str:
    """Return why no attempt is faster, as far as that is known."""
    share = optimization.attention_share_pct
    share_text = (
        "its share of the time is unknown" if share is None else f"attention has {share:.1f} % of the kernels' time"
    )
    if not optimization.uses:
        share_text = "no call of attention was seen"
    if optimization.answer is OptimizationAnswer.FUSE_FIRST:
        text = "The program's attention runs in separate operations: fusing them is the first thing to try"
        return f"{text}; {share_text}. The change is described below; it cannot be tried without changing the program."
    if optimization.answer is OptimizationAnswer.UNDECIDED_SHAPES:
        shapes = count_of(sum(use.why == UNDECIDED for use in optimization.tuned), "shape")
        more = "by all samples of a search"
        if any(use.needs_budget for use in optimization.tuned):
            more = "before the budget ended: give more --budget"
        return f"No backend was shown to be faster, but {shapes} could not be decided {more}; {share_text}."
    if optimization.answer is OptimizationAnswer.NOT_TUNED:
        return f"No shape of the program was tuned, so nothing is known about other backends; {share_text}."
    if optimization.answer is OptimizationAnswer.NO_OTHER_BACKEND:
        return f"Your program gains nothing from another backend; {share_text}."
    return f"Nothing was found that makes your program faster; {share_text}."


def _shorter(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * (1 - ratio):.1f} %"


def _what_to_paste(optimization: Optimization) -> list[Section]:
    """Return what to set or to write into the program: for the fastest attempt, and for the one with least memory."""
    sections = []
    proven = optimization.proven
    if proven is not None and proven.is_confirmed:
        outside = (Paragraph("Without a change of the code:"), Code(proven.setting, "sh"))
        inside = (Paragraph("Or in the code:"), Code(proven.paste, "python")) if proven.paste else ()
        diff = (Paragraph("As a diff of the program:"), Code(proven.diff, "diff")) if proven.diff else ()
        sections.append(Section("What to use", (*outside, *inside, *diff)))
    elif proven is None and optimization.best is not None:
        sections.append(Section("What to use", _ways_to_set(optimization.best)))
    if optimization.smallest is not None and optimization.smallest is not optimization.best:
        sections.append(Section("What to use for less memory", _ways_to_set(optimization.smallest)))
    return sections


def _ways_to_set(attempt: Attempt) -> tuple[Part, ...]:
    outside = (Paragraph("Without a change of the code:"), Code(attempt.setting, "sh")) if attempt.setting else ()
    words = "Or in the code:" if outside else "In the code:"
    return (*outside, *((Paragraph(words), Code(attempt.paste, "python")) if attempt.paste else ()))


def _attention_lines(optimization: Optimization) -> tuple[str, ...]:
    if not optimization.uses:
        return (
            "No call of attention was seen. Calls in C++ extensions and in processes other than Python's are not seen.",
        )
    share = optimization.attention_share_pct
    share_text = "unknown: the trace has no GPU work" if share is None else f"{share:.1f} % of the time of all kernels"
    calls = sum(use.calls for use in optimization.uses)
    return (
        f"Attention: {share_text}; {count_of(calls, 'call')} of {count_of(len(optimization.uses), 'shape')}.",
        *_changing(optimization),
    )


def _changing(optimization: Optimization) -> list[str]:
    """Return a sentence for each line of the program whose shapes change from call to call."""
    return [
        f"{site.site or 'One place'} calls attention with {site.shapes} shapes: where they change at each step, "
        "no policy has a rule for the next one. Pad to a few lengths, or use a cache of fixed size."
        for site in optimization.changing_sites
    ]


def _use_table(optimization: Optimization) -> Table:
    best = {(use.site, use.shape): use for use in optimization.tuned}
    tuned = [None if use.shape is None else best.get((use.site, use.shape)) for use in optimization.uses]
    columns = (
        (Column("where", Unit.NAME), lambda pair: pair[0].site),
        (Column("shape", Unit.NAME), lambda pair: _name(pair[0])),
        (Column("calls", Unit.COUNT, drop=3), lambda pair: pair[0].calls),
        (Column("ran", drop=1), lambda pair: Cell(pair[0].backend_ran, reason="unknown")),
        (Column("share", Unit.SHARE, drop=2), lambda pair: pair[0].share_pct),
        (Column("best", Unit.PROSE), lambda pair: pair[0].not_tuned if pair[1] is None else _answer(pair[1])),
        (
            Column("auto over best", Unit.RATIO, drop=4),
            lambda pair: pair[1].over_auto if pair[1] is not None and pair[1].in_policy else None,
        ),
    )
    return table_of("Shapes", zip(optimization.uses, tuned, strict=True), columns, source=_JSON)


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
    words = [f"B{shape.batch}", f"H{heads}", f"S{length}", f"D{shape.head_dim}", shape.dtype, causal]
    return " ".join([*words, *shape.served_words, shape.pass_])


def _attempt_table(optimization: Optimization) -> Table:
    columns = (
        (Column("what", Unit.NAME), "name"),
        (Column("verdict"), _verdict),
        (Column("measured gain [95 %]", Unit.PERCENT), _measured_gain),
        (Column("predicted gain [bounds]", Unit.PERCENT), _predicted_gain),
        (Column("values", drop=2), _values),
        (Column("why", Unit.PROSE, drop=1), "why"),
    )  # fmt: skip
    return table_of("Attempts", optimization.attempts, columns, source=_JSON)


def _verdict(attempt: Attempt) -> str:
    change = attempt.comparison.change
    if attempt.lost:
        return attempt.lost.partition(":")[0]
    return change.verdict.value if change.verdict else change.candidate.status


def _values(attempt: Attempt) -> str:
    values = attempt.comparison.values
    return "" if values is None else values.verdict.value


def _measured_gain(attempt: Attempt) -> Cell:
    change = attempt.comparison.change
    gain, low, high = (
        None if ratio is None else 100 * (1 - ratio) for ratio in (change.ratio, change.high, change.low)
    )
    return Cell(gain, low=low, high=high)


def _predicted_gain(attempt: Attempt) -> Cell:
    expected = attempt.predicted
    if expected is None:
        return Cell(None, reason="not predicted")
    return Cell(expected.pct, low=expected.low_pct, high=expected.high_pct)


def _attempt_parts(optimization: Optimization) -> list[Part]:
    parts: list[Part] = []
    for attempt in optimization.attempts:
        first = f"{attempt.name}: {comparison_line(attempt.comparison)}"
        parts.append(
            Lines((first, *_remedy_lines(attempt), *_prediction_lines(attempt), *detail_lines(attempt.comparison)))
        )
    return parts


def _remedy_lines(attempt: Attempt) -> tuple[str, ...]:
    """Return whether a remedy took effect, why it lost, what it may change, and when its start is paid for."""
    lines = []
    if attempt.lost:
        lines.append(f"Not used: {attempt.lost}.")
    if attempt.took_effect:
        lines.append(f"It took effect: {attempt.evidence}.")
    lines += [f"It undoes a setting of the program: {setting}." for setting in attempt.replaced]
    if attempt.changes and not attempt.lost:
        lines.append(f"What it may change in results: {attempt.changes}.")
    if attempt.pays_after is not None:
        lines.append(f"Its longer start pays after {count_of(attempt.pays_after, 'step')}.")
    return tuple(lines)


def _prediction_lines(attempt: Attempt) -> tuple[str, ...]:
    """Return what was predicted before the attempt, and whether the measurement agrees."""
    expected = attempt.predicted
    if expected is None or attempt.prediction is None:
        return ()
    bounds = f"{expected.pct:.1f} % [{expected.low_pct:.1f}, {expected.high_pct:.1f}]"
    text = f"Before it was tried, {expected.by} predicted a {expected.per} to be {bounds} shorter"
    return (f"{text}; {_MET[attempt.prediction]}.",)


def _step_table(optimization: Optimization) -> Table:
    """Return the steps with their times; what the runs before took has a column where there were any."""
    before = sum(step.earlier_s for step in optimization.steps)
    seconds = sum(step.seconds for step in optimization.steps)
    rows = []
    for step in (*optimization.steps, OptimizeStep("in all", seconds, "", before)):
        earlier = (Cell(step.earlier_s * 1e9 or None),) if before else ()
        rows.append((step.name, step.seconds * 1e9, *earlier, step.outcome))
    earlier_column = (Column("in the runs before", Unit.NS),) if before else ()
    columns = (Column("step"), Column("time", Unit.NS), *earlier_column, Column("outcome", Unit.PROSE))
    return make_table("Steps", columns, rows, source=_JSON)


_COLUMNS = (Column("change", Unit.PROSE), Column("would take", Unit.NS), Column("saved", Unit.PERCENT))
_WHOLE = {TRACE: "the trace", JOB: "the job without its warm-up"}
# Each change was requested, so no format leaves any out.
_ALL = 1000


def whatif_report(whatif: WhatIf) -> Report:
    """Return the time as recorded and as replayed, and a row for each change; with several, also one for all."""
    of = _WHOLE.get(whatif.per) or step_label(whatif.per)
    text = f"{format_ns(whatif.recorded_ns)} for {of} as recorded, {format_ns(whatif.replayed_ns)} replayed."
    if whatif.per not in _WHOLE:
        steps = (
            f"step {whatif.first_step}"
            if whatif.first_step == whatif.last_step
            else (f"the mean of steps {whatif.first_step} to {whatif.last_step}")
        )
        text += f" This is {steps}. A steady step takes {format_ns(whatif.step_ns)} on average."
    answers = whatif.answers if len(whatif.answers) == 1 else (*whatif.answers, whatif.together)
    rows = [_row(answer, whatif.replayed_ns) for answer in answers]
    title = f"What {of} would take"
    table = make_table(title, _COLUMNS, rows, terminal_rows=_ALL, document_rows=_ALL)
    assumed = (Lines(whatif.assumptions),) if whatif.assumptions else ()
    return Report("whatif", (Section("", (Lines((text,), is_verdict=True), table, *assumed)),))


def _row(answer: WhatIfAnswer, replayed_ns: int) -> tuple[Cell | Value, ...]:
    step = Cell(answer.step_ns, low=answer.low_ns, high=answer.high_ns)
    return answer.option, step, 100 * (replayed_ns - answer.step_ns) / replayed_ns if replayed_ns else None
