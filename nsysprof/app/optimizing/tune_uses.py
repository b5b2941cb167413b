"""Tune the shapes that a program uses, write a policy of the winners, and predict the share of a step that it saves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import pandas as pd

from nsysprof.analysis.attention_tuning.choose_shapes import known_shape
from nsysprof.analysis.attention_tuning.winning_rules import join_rules, keep_winners, name_untuned
from nsysprof.analysis.findings.what_if import ask
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.analysis.sampling.replayed_calls import say_replayed
from nsysprof.analysis.sampling.tune import NOT_RUN, failed_shapes, launch_shares
from nsysprof.app.analyze import resolve
from nsysprof.app.inputs.attention_requests import TuneRequest
from nsysprof.app.progress import Progress
from nsysprof.app.tune import POLICY, tune
from nsysprof.attention.policy_file import PolicyFile, write_policy
from nsysprof.attention.range_name import parse_attention_range
from nsysprof.attention.shape import Shape, shape_of_row
from nsysprof.capture.sampling.bench_run import SAMPLES
from nsysprof.errors import InterruptedCaptureError, NsysprofError
from nsysprof.files.plain_file import scratch_folder
from nsysprof.results.findings import TRACE, WhatIf, WhatIfQuestion
from nsysprof.results.program_runs import AttentionUse, PredictedGain, ProgramGain, ShapeRatio, TunedUse
from nsysprof.trace.inputs.resolve_input import identity_of
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

# The shortest search (s): the measured process has to import torch first.
LEAST_TUNING_S = 15.0
# An older search is read again even where no time is left to go on with it (s).
_SHORTEST_S = 1.0


@dataclass(frozen=True)
class TunedProgram:
    """What tuning found.

    policy: the file with the rules that won; None where none did.
    saved_pct: how much shorter the time of all kernels should be (percent); None where shares are unknown.
    ratios: the time of the winning backends relative to torch's own choice.
    remarks: what was not tuned and why, and why the search ended.
    """

    tuned: tuple[TunedUse, ...] = ()
    uses: tuple[AttentionUse, ...] = ()
    policy: Path | None = None
    saved_pct: float | None = None
    ratios: tuple[ShapeRatio, ...] = ()
    remarks: tuple[str, ...] = ()


def tune_uses(
    uses: Sequence[AttentionUse], source: Path, folder: Path, budget_s: float, progress: Progress, *, resume: bool
) -> TunedProgram:
    """Time the backends for the program's shapes within the budget, and write a policy of what won to `folder`.

    source: the analysis of the program. If tuning is impossible, that is a remark and not an error.
    """
    search = folder / "search"
    goes_on = resume and (search / SAMPLES).is_file()
    if budget_s < LEAST_TUNING_S and not goes_on:
        return TunedProgram(
            uses=name_untuned(uses, {}), remarks=("No time was left for tuning: give a larger --budget.",)
        )

    request = TuneRequest(
        source=source, budget_s=max(budget_s, _SHORTEST_S), warmup_seconds=0.2, out=search, force=True, figures=False,
        resume=goes_on, case_timeout_s=max(20.0, budget_s),
        command="nsysprof optimize",
    )  # fmt: skip
    try:
        result = tune(request, progress)
    except InterruptedCaptureError:
        raise
    except NsysprofError as error:
        # the page may be shared, so it must not hold private paths
        said = error.text.replace(str(source), "the capture")
        return TunedProgram(uses=name_untuned(uses, {}), remarks=(said,))
    if isinstance(result.failure, InterruptedCaptureError):
        raise result.failure
    policy, gain = result.tuning.choices, result.tuning.program
    failed = {shape.key_without_layout(): why for shape, why in failed_shapes(result.results.table).items()}
    if policy is None:
        said = "Nothing could be measured." if result.failure is None else result.failure.text
        return TunedProgram(uses=name_untuned(uses, {}, failed), remarks=(said,))
    rules = {rule.key_without_layout(): rule for rule in policy.rules}
    replayed = result.tuning.replayed
    bare = {shape.key_without_layout() for shape in replayed}
    shares = {shape: share for shape, share in launch_shares(result.results.table).items() if shape not in bare}
    tuned = join_rules(uses, rules, shares, search_ended=result.run.complete)
    named = name_untuned(uses, rules, failed)
    remarks = (*_remarks(gain), *say_replayed(replayed))
    if not result.run.complete:
        unmeasured = _shapes_with(NOT_RUN, result.results.table) - set(rules)
        remarks += _what_is_left(sum(use.needs_budget for use in tuned) + len(unmeasured), budget_s)
    return TunedProgram(
        tuple(tuned),
        named,
        _write(policy, folder),
        None if gain is None else gain.saved_pct,
        () if gain is None else gain.ratios,
        remarks,
    )


def _what_is_left(shapes: int, budget_s: float) -> tuple[str, ...]:
    """Return what more time would decide, after a search that its budget ended; nothing where it decides nothing."""
    if not shapes:
        return ()
    told = "1 shape was" if shapes == 1 else f"{shapes} shapes were"
    return (f"Tuning had {budget_s:.0f} s, in which {told} not decided: `--resume --out FOLDER` goes on with them.",)


def _shapes_with(status: str, table: pd.DataFrame) -> set[Shape]:
    """Return the shapes, without layouts, that have a case with this status."""
    return {shape_of_row(row).key_without_layout() for row in table[table["status"] == status].to_dict("records")}


def _write(policy: PolicyFile, folder: Path) -> Path | None:
    kept = keep_winners(policy)
    if kept is None:
        return None
    write_policy(folder / POLICY, kept)
    return folder / POLICY


def _remarks(gain: ProgramGain | None) -> tuple[str, ...]:
    return () if gain is None else (gain.text, *gain.refused)


_Factors = tuple[float, float, float]
_BY = "a replay of the trace with the times that tuning measured"


def predict_gain(
    source: Path,
    nsys: Path | None,
    ratios: Sequence[ShapeRatio],
    progress: Progress,
    strided_masks: Collection[str] = (),
) -> PredictedGain | None:
    """Return how much of a step of the capture in `source` is saved; None where its trace cannot be replayed.

    nsys: the program that exports a report.
    ratios: the ratios of the shapes for which the policy has another backend.
    strided_masks: the lines whose masks no fused backend takes, because their last stride is not 1.
    """
    if not ratios:
        return None
    try:
        with scratch_folder() as scratch:
            path = resolve(source, nsys, scratch, progress.say)
            with open_trace(path, identity_of(source, path)) as trace:
                tables = read_tables(trace, progress=progress.say)
                ranges = attribute(tables).attributed.ranges
                factors = range_factors((str(name) for name in ranges["name"].unique()), ratios, strided_masks)
                if not factors:
                    return None
                question = WhatIfQuestion("the policy", "", range_factors=factors)
                return gain_of(ask(tables, ranges, (question,)))
    except NsysprofError:  # there are no calls, or no work within these ranges
        return None


def range_factors(
    names: Iterable[str], ratios: Sequence[ShapeRatio], strided_masks: Collection[str] = ()
) -> tuple[tuple[str, _Factors], ...]:
    """Return the factors for the time of the work in each range of attention: best estimate, and both bounds.

    The ratio of a shape that was tuned with its backward pass applies to the ranges of both passes. Ranges of calls
    with a mask from one of the lines `strided_masks` have none: the policy leaves those to torch.
    """
    found: dict[Shape, _Factors] = {}
    for each in sorted(ratios, key=lambda ratio: ratio.shape.pass_ == "fwdbwd"):
        key = msgspec.structs.replace(each.shape, pass_="fwd").key_without_layout()
        found[key] = (each.ratio, each.high, each.low)
    result = []
    for name in names:
        call = parse_attention_range(name)
        if call is None or (call.site in strided_masks and call.mask not in (None, "none")):
            continue
        shape = known_shape(asdict(call), "fwd")
        factors = None if shape is None else found.get(shape.key_without_layout())
        if factors is not None:
            result.append((name, factors))
    return tuple(result)


def gain_of(found: WhatIf) -> PredictedGain | None:
    """Return the gain in percent of a step, or of the recorded part where there are no steps."""
    whole, answer = found.replayed_ns, found.together
    if not whole:
        return None
    saved, low, high = (
        100.0 * (whole - time_ns) / whole for time_ns in (answer.step_ns, answer.high_ns, answer.low_ns)
    )
    per = "recorded part" if found.per == TRACE else "step"
    return PredictedGain(saved, low, high, per, _BY)
