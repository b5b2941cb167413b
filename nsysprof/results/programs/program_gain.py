"""Define ProgramGain: what a tuning is expected to save a program, from its capture and the measurements."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.attention.shape import Shape


@dataclass(frozen=True)
class ShapeRatio:
    """The time of a shape's faster backend divided by torch's own choice: as measured, and its bounds."""

    shape: Shape
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class ProgramGain:
    """The expected saving of GPU time, by the shapes for which another backend is shown to be faster."""

    # "step", or "recorded part" where the program has no steps.
    per: str
    # The time of the attention that was tuned (ns); None where the kernels of the program are unknown.
    baseline_ns: float | None
    saved_ns: float | None
    # The bounds of the saving: sums of those of each shape.
    saved_low_ns: float | None
    saved_high_ns: float | None
    # The share of all attention in the time of all kernels (%); None where unknown.
    attention_share_pct: float | None
    # The saving as a share of the time of all kernels (%); None where unknown.
    saved_pct: float | None
    # Shapes with a faster backend, and those that were tuned.
    faster_shapes: int
    shapes: int
    # The result, in one sentence.
    text: str
    # Calls that were not tuned, with the reasons.
    refused: tuple[str, ...] = ()
    # The shapes with a faster backend, and those between two of them.
    ratios: tuple[ShapeRatio, ...] = ()
