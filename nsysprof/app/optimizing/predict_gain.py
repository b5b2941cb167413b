"""Predict how much of a step a policy saves, by replaying the captured steps with the measured ratios."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from nsysprof.analysis.attention_tuning.choose_shapes import known_shape
from nsysprof.analysis.findings.what_if import ask
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.app.progress import Progress
from nsysprof.app.trace_analysis.analyze_trace import resolve
from nsysprof.attention.range_name import parse_attention_range
from nsysprof.attention.shape import Shape
from nsysprof.errors import NsysprofError
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.results.findings import TRACE, WhatIf, WhatIfQuestion
from nsysprof.results.optimization import PredictedGain, ShapeRatio
from nsysprof.trace.inputs.resolve_input import identity_of
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

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
