"""Compare what two sides of a program compute, by samples that its own Python took, against runs of the same side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysprof.results.program_runs import OK, ProgramTraits, Sameness, TimedRun, ValueComparison, ValueSamples

# How far the values of each class of remedies may lie from those of the program (percent): the relative error (2-norm)
# of the gradients before the first step, or of the first outputs. TF32 rounds inputs to 10 bits of mantissa, bf16 to 8;
# sums of many products and layers behind each other add to that.
LIMITS_PCT = {"same": 0.1, "random": 0.1, "tf32": 5.0, "bf16": 20.0}
# What rounding alone explains in a program that computes in bf16 or fp16 by itself.
_LOW_PRECISION_PCT = 5.0
# Losses of the first steps may differ by so much (percent of the loss), or by so many times the difference of runs.
LOSS_LIMITS_PCT = {"same": 1.0, "random": 1.0, "tf32": 2.0, "bf16": 5.0}
_TIMES_NOISE = 3.0
# To so many bits of the mantissa a class of remedies rounds, or, for the classes of fp32, what fp32 rounds anyway.
_MANTISSA_BITS = {"same": 22, "random": 22, "tf32": 10, "bf16": 7}
# Where runs of the same side differ by more, nothing can be said.
_MOST_NOISE_PCT = 20.0
_TINY = 1e-30

_Numbers = Sequence[float | None]


def compare_samples(
    baseline: Sequence[TimedRun],
    candidate: Sequence[TimedRun],
    precision: str,
    other_seed: TimedRun | None = None,
    rounded: TimedRun | None = None,
) -> ValueComparison:
    """Return whether the sides compute the same, or differ by no more than their precision explains.

    precision: the class of the remedy: same, random, tf32 or bf16.
    other_seed: a run of the baseline with another seed. Where a remedy draws other random numbers (random), its losses
        may differ from the program's as much as those of this run do.
    rounded: a run of the baseline whose weights were rounded to the mantissa of the class (rounding_of). Gradients of
        deep nets with batch normalization multiply a rounding a hundred thousand times: those of a remedy may differ
        as much as this run's do, if the losses agree.
    """
    old = [run.samples for run in baseline if run.status == OK and run.samples is not None]
    new = [run.samples for run in candidate if run.status == OK and run.samples is not None]
    traits = next((run.traits for run in baseline if run.traits is not None), None)
    rounding = LIMITS_PCT["same"] if traits is None or _is_precise(traits) else _LOW_PRECISION_PCT
    limit = max(rounding, LIMITS_PCT[precision])
    if not old or not new or not any(_vector(old[0])):
        return ValueComparison(Sameness.UNKNOWN, "the program computes nothing that could be sampled", 0, limit)
    errors = [_error_pct(_vector(old[0]), _vector(sample)) for sample in new]
    noise = max((_error_pct(_vector(old[0]), _vector(sample)) for sample in old[1:]), default=None)
    largest, count = max(errors), len(_vector(old[0]))
    what = _name(old[0])
    if precision == "random" and traits is not None and _is_random(traits) and largest > rounding:
        return _compare_losses(old, new, other_seed, limit)
    if noise is not None and noise > _MOST_NOISE_PCT:
        text = f"{what} of runs of the program differ among themselves by {noise:.2g} %"
        return ValueComparison(Sameness.UNKNOWN, text, count, limit, _shown(largest), _shown(noise))
    loss_pct = max(_loss_pct(old[0], sample) for sample in new)
    loss_noise = max((_loss_pct(old[0], sample) for sample in old[1:]), default=0.0)
    text = f"{what} differ by {largest:.2g} %"
    verdict = Sameness.DIFFERENT
    by_rounding = 0.0
    if rounded is not None and rounded.status == OK and rounded.samples is not None:
        by_rounding = _TIMES_NOISE * _error_pct(_vector(old[0]), _vector(rounded.samples))
    if loss_pct > max(LOSS_LIMITS_PCT[precision], _TIMES_NOISE * loss_noise):
        text = f"losses of the first {old[0].steps} steps differ by up to {loss_pct:.2g} %"
    elif largest <= max(rounding, _TIMES_NOISE * (noise or 0.0)):
        verdict, text = Sameness.EQUAL, ""
    elif largest <= limit:
        verdict = Sameness.APPROXIMATE
    elif largest <= by_rounding:
        limit = by_rounding
        verdict = Sameness.EQUAL if precision in ("same", "random") else Sameness.APPROXIMATE
        text += (
            f", as rounding the weights to {_MANTISSA_BITS[precision]} bits of mantissa explains "
            f"({by_rounding / _TIMES_NOISE:.2g} %); the losses of the first {old[0].steps} steps by {loss_pct:.2g} %"
        )
    return ValueComparison(verdict, text, count, limit, _shown(largest), _shown(noise))


def _compare_losses(
    old: Sequence[ValueSamples], new: Sequence[ValueSamples], other_seed: TimedRun | None, limit: float
) -> ValueComparison:
    """Compare the mean loss of the first steps of a remedy that draws other random numbers than the program."""
    count = min(len(old[0].losses), max(1, old[0].steps))
    if not count or other_seed is None or other_seed.samples is None:
        text = "it draws other random numbers, and no run with another seed says how much they matter"
        return ValueComparison(Sameness.UNKNOWN, text, 0, limit)
    differences = [_mean_loss_pct(old[0], sample) for sample in new]
    spread = _mean_loss_pct(old[0], other_seed.samples)
    largest = max(differences)
    allowed = max(LOSS_LIMITS_PCT["random"], _TIMES_NOISE * spread)
    text = (
        f"it draws other random numbers: the mean loss of {count} steps differs by {largest:.2g} %, that of another "
        f"seed by {spread:.2g} %"
    )
    verdict = Sameness.APPROXIMATE if largest <= allowed else Sameness.DIFFERENT
    return ValueComparison(verdict, text, count, allowed, _shown(largest), _shown(spread))


def needs_other_seed(baseline: Sequence[TimedRun], precision: str) -> bool:
    """Return whether the values of such a remedy can only be compared with a run with another seed."""
    traits = next((run.traits for run in baseline if run.traits is not None), None)
    return precision == "random" and traits is not None and _is_random(traits)


def rounding_of(comparison: ValueComparison, precision: str) -> str:
    """Return the switch of a run with rounded weights that may explain a difference; empty where none can."""
    largest = comparison.largest_pct
    if comparison.verdict is not Sameness.DIFFERENT or largest is None or largest <= comparison.tolerance_pct:
        return ""
    return f"rounded={_MANTISSA_BITS[precision]}"


def _is_precise(traits: ProgramTraits) -> bool:
    return all(module["is_fp32"] and not module["is_autocast"] for module in traits.modules)


def _is_random(traits: ProgramTraits) -> bool:
    return any(module["is_random"] for module in traits.modules)


def _vector(samples: ValueSamples) -> _Numbers:
    outputs = [number for output in samples.outputs for number in output]
    return samples.gradients or outputs or samples.losses


def _name(samples: ValueSamples) -> str:
    if samples.gradients:
        return "gradients of the first step"
    return "the first outputs" if samples.outputs else "losses"


def _error_pct(one: _Numbers, other: _Numbers) -> float:
    """Return the relative error of `other` in the 2-norm (percent); infinite where sizes or NaNs differ."""
    if len(one) != len(other) or [number is None for number in one] != [number is None for number in other]:
        return float("inf")
    old, new = (np.array([number for number in side if number is not None], dtype=float) for side in (one, other))
    return float(100 * np.linalg.norm(new - old) / max(float(np.linalg.norm(old)), _TINY))


def _loss_pct(one: ValueSamples, other: ValueSamples) -> float:
    """Return by how much losses of the steps that are compared differ at most (percent of the largest loss)."""
    old, new = one.losses[: one.steps], other.losses[: one.steps]
    if not old:
        return 0.0
    if len(old) != len(new) or [loss is None for loss in old] != [loss is None for loss in new]:
        return float("inf")
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a is not None and b is not None]
    scale = max((abs(a) for a, _ in pairs), default=1.0)
    return 100 * max((abs(a - b) for a, b in pairs), default=0.0) / max(scale, _TINY)


def _mean_loss_pct(one: ValueSamples, other: ValueSamples) -> float:
    old, new = ([loss for loss in side.losses[: one.steps] if loss is not None] for side in (one, other))
    if not old or len(old) != len(new):
        return float("inf")
    return float(100 * abs(np.mean(new) - np.mean(old)) / max(abs(float(np.mean(old))), _TINY))


def _shown(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else value
