"""Compute by how much a step is longer with the hook, from what scripts/bench.py hook measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nsysprof.analysis.sampling.student_t import t_isf

# The part of the quads on each side that is left out: something else ran on the machine then.
TRIMMED = 0.1


def longer_pct(process: dict[str, Any]) -> tuple[float, float]:
    """Return by how much a step is longer with the hook, and half of the interval (percent).

    A quad has two blocks of each side; its logarithms of times are averaged. Of the quads the mean counts that leaves
    out the extreme ones, with the t interval of Tukey and McLaughlin.
    """
    logs = np.sort(np.log(process["hooked_s"]).mean(axis=1) - np.log(process["plain_s"]).mean(axis=1))
    cut = int(TRIMMED * len(logs))
    kept = logs[cut : len(logs) - cut]
    held = np.clip(logs, kept[0], kept[-1])
    error = held.std(ddof=1) / ((1 - 2 * cut / len(logs)) * math.sqrt(len(logs)))
    return 100.0 * math.expm1(kept.mean()), 100.0 * float(t_isf(0.025, len(kept) - 1)) * float(error)


def mean_of_all(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of all processes and half of its interval (percent). One process has its own."""
    means = np.array([mean for mean, _ in found])
    half = found[0][1]
    if len(means) > 1:
        half = float(t_isf(0.025, len(means) - 1)) * means.std(ddof=1) / math.sqrt(len(means))
    return float(means.mean()), half


def text_of_all(found: Sequence[tuple[float, float]]) -> str:
    """Return the mean of all processes and its interval (percent), as text."""
    mean, half = mean_of_all(found)
    return f"{mean:+.2f} ± {half:.2f}"


def text_of_each(found: Sequence[tuple[float, float]]) -> str:
    """Return the value and the interval of each process (percent), as text."""
    return ", ".join(f"{mean:+.2f} ± {half:.2f}" for mean, half in found)
