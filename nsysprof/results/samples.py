"""Define blocks of timed calls and the named times of a case, and compute the interval of a median of samples.

Samples are the raw timed values of one case in one process. The interval covers the median of further calls in that
process. Successive samples may be similar, because clocks and caches change slowly; they then count as fewer
independent ones. Capture and bench share three named times:

- cold GPU time: between two events around one call, after the caches were emptied. While they are being emptied the CPU
  has time to launch the call, so launching does not count.
- warm end-to-end time: between two events around one of many calls back to back, with warm caches. If the GPU waits for
  the CPU to launch the call, that waiting counts.
- graph time: the same call replayed as a CUDA graph, which the CPU launches as one call.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta, Struct

# From this share of launching on, a search also times the call as a CUDA graph, so that calls near the threshold of
# launch-bound ones have both times in every block.
CAPTURED_SHARE = 0.5
# Below this many standard errors, a correlation of neighbours may be chance.
_CHANCE = 2.0
_MOST_CORRELATION = 0.98
# The correlations of neighbours that are considered, each with the width of its part of the range.
_CORRELATIONS = ((-0.4, 0.2), (-0.2, 0.2), (0.0, 0.2), (0.2, 0.2), (0.4, 0.15), (0.5, 0.1), (0.6, 0.1), (0.7, 0.1),
                 (0.8, 0.075), (0.85, 0.05), (0.9, 0.045), (0.94, 0.035), (0.97, 0.025), (0.99, 0.02))  # fmt: skip
# An interval ends where no sample lies within this factor.
_BEYOND_SAMPLES = 1.25
# How far from the median a value counts at most, in median absolute deviations.
_MOST_DEVIATIONS = 5 * 1.4826
# More samples than this share stall, at so many times the 10th percentile: no test sees that stalls hit one case more.
STALL_TIMES, STALL_SHARE = 3.0, 0.1
# The 97.5th percentile of Student's t by degrees of freedom; between them its logarithm is linear in their reciprocal.
_T = ((1.0, 12.706), (1.25, 8.0280), (1.5, 6.0167), (2.0, 4.3027), (2.5, 3.5747), (3.0, 3.1824), (4.0, 2.7764),
      (5.0, 2.5706), (7.0, 2.3646), (10.0, 2.2281), (20.0, 2.0860), (60.0, 2.0003), (math.inf, 1.9600))  # fmt: skip


def time_interval(values: Sequence[int]) -> tuple[int, int] | None:
    """Return the interval of one series, as time_intervals does."""
    return time_intervals([values])[0]


def time_intervals(series: Sequence[Sequence[int]]) -> list[tuple[int, int] | None]:
    """Return the 95 % interval of the median of each series of times (ns), for further calls in that process.

    It is None below six samples; else from order statistics, and at least as wide as the one of the logarithms. These
    are a level and a first-order process. So few samples do not tell its correlation: each one gives a t interval, and
    the mixture of them counts, weighted by how likely each is in all series, with the reference prior of Berger and
    Yang (1994). It ends not far beyond the samples, or ten that rise would tell nothing at all.
    """
    bounds = [_order_interval(sorted(values), 0.95) for values in series]
    fits = [_fit_correlations(values) if known else None for values, known in zip(series, bounds, strict=True)]
    likely = [
        sum(fit[place][1] for fit in fits if fit) + (sum(map(bool, fits)) - 1) / 3 * math.log(1 - rho * rho)
        for place, (rho, _) in enumerate(_CORRELATIONS)
    ]
    weights = [width * math.exp(each - max(likely)) for (_, width), each in zip(_CORRELATIONS, likely, strict=True)]
    found: list[tuple[int, int] | None] = [None] * len(series)
    for index, (values, known, fit) in enumerate(zip(series, bounds, fits, strict=True)):
        if known:
            reach = math.exp(_reach([error for error, _ in fit], weights, len(values) - 1)) if fit else 1.0
            middle = statistics.median(values)
            low = min(known[0], max(middle / reach, min(values) / _BEYOND_SAMPLES))
            high = max(known[1], min(middle * reach, max(values) * _BEYOND_SAMPLES))
            found[index] = math.floor(low), math.ceil(high)
    return found


def _fit_correlations(values: Sequence[int]) -> list[tuple[float, float]] | None:
    """Return for each correlation the error of the middle of the logarithms, and the logarithm of how likely it is.

    A single stalled sample would decide alone, so that none counts as farther from the median than some deviations;
    beside one that is as far, as where a clock changes, it counts as such. It is None where half of them are equal.
    """
    logs = [math.log(max(1, value)) for value in values]
    n, middle = len(logs), statistics.median(logs)
    far = [min(abs(value - middle), math.log(_BEYOND_SAMPLES)) for value in logs]
    least = _MOST_DEVIATIONS * statistics.median(abs(value - middle) for value in logs)
    if least == 0:
        return None
    most = [max(least, *near) for near in zip([0.0, *far[:-1]], [*far[1:], 0.0], strict=True)]
    x = [min(limit, max(-limit, value - middle)) for value, limit in zip(logs, most, strict=True)]
    squares, lagged, total = sum(v * v for v in x), sum(one * other for one, other in pairwise(x)), sum(x)
    found = []
    for rho, _ in _CORRELATIONS:
        # Generalized least squares: the weight of the mean, the mean, and the squares around it.
        weight = (1 - rho * rho) + (n - 1) * (1 - rho) ** 2
        mean = ((1 - rho * rho) * x[0] + (1 - rho) * (total - x[0] - rho * (total - x[-1]))) / weight
        own = squares - 2 * mean * total + n * mean**2
        beside = lagged - mean * (2 * total - x[0] - x[-1]) + (n - 1) * mean**2
        inner = own - (x[0] - mean) ** 2 - (x[-1] - mean) ** 2
        left = max(1e-18, own - 2 * rho * beside + rho * rho * inner)
        # The median of independent samples varies more than their mean, by pi / 2; what neighbours share does not.
        shared = 2 * rho / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)
        spread = (1 + shared + (math.pi / 2 - 1) * min(1.0, 1 - rho)) / n
        error = math.sqrt(left / (n - 1) / (1 - rho * rho) * spread)
        found.append((error, -(n - 1) / 2 * math.log(left / squares) - math.log(weight) / 2))
    return found


def _reach(errors: Sequence[float], weights: Sequence[float], freedom: int) -> float:
    """Return half the width of the 95 % interval of a mixture of t distributions."""
    low, high, least = 0.0, student_t_975(freedom) * max(errors), 0.05 * sum(weights)
    for _ in range(40):
        reach = (low + high) / 2
        beyond = sum(weight * _beyond(reach / error, freedom) for weight, error in zip(weights, errors, strict=True))
        low, high = (reach, high) if beyond > least else (low, reach)
    return high


def _beyond(t: float, freedom: float) -> float:
    """Return the two-sided probability of a t variable beyond `t`, by Wallace's normal one (1959), to within 1 %."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(z / math.sqrt(2))


def stalls(values: Sequence[int]) -> bool:
    """Return whether so many samples of a case stalled that they tell nothing about its code."""
    usual = sorted(values)[(len(values) - 1) // 10 :][:1]
    return sum(value > STALL_TIMES * usual[0] for value in values) > STALL_SHARE * len(values)


def median_interval(values: Sequence[int], confidence: float = 0.95) -> tuple[int, int] | None:
    """Return an interval of the median, for further calls in the same process; None below six samples.

    It comes from order statistics. Where neighbours are alike, it reaches at least as far as a t interval with the
    number of independent samples that they are worth.
    """
    ordered = sorted(values)
    bounds = _order_interval(ordered, confidence)
    if bounds is None:
        return None
    correlated, middle = correlated_error(values), statistics.median(ordered)
    reach = 0.0 if correlated is None else correlated[0] * student_t_975(correlated[1])
    # A time is not negative, however little is known of it.
    return max(0, math.floor(min(bounds[0], middle - reach))), math.ceil(max(bounds[1], middle + reach))


def _order_interval(ordered: Sequence[int], confidence: float) -> tuple[float, float] | None:
    """Return the interval of the median from order statistics; None below six samples.

    The k-th smallest and k-th largest of n samples enclose the median with probability
    1 - 2 P(Binomial(n, 1/2) < k) (Conover, Practical Nonparametric Statistics, 3.2), interpolated to 95 %.
    """
    n = len(ordered)
    tail, best, cover, next_cover = 0.0, 0, 1.0, 1.0
    # Ranks further than ten deviations from the middle have no probability.
    for k in range(max(1, n // 2 - math.ceil(5 * math.sqrt(n))), n // 2 + 1):
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 2) - n * math.log(2))
        next_cover = 1 - 2 * tail
        if next_cover < confidence:
            break
        best, cover = k, next_cover
    if not best:
        return None
    # Between the last pair that is wide enough and the first that is not (Hettmansperger and Sheather, 1986).
    part = (cover - confidence) / (cover - next_cover) if next_cover < confidence else 0.0
    part = (n - best) * part / (best + (n - 2 * best) * part)
    low = ordered[best - 1] + part * (ordered[best] - ordered[best - 1])
    return low, ordered[n - best] - part * (ordered[n - best] - ordered[n - best - 1])


def correlated_error(values: Sequence[int]) -> tuple[float, float] | None:
    """Return the standard error of the median of samples that resemble their neighbours, and its degrees of freedom.

    It is None where they do not.

    The samples are modelled as a first-order process. Its correlation, variance and degrees of freedom are corrected
    for the small number of samples; docs/calibration.md shows the resulting coverage.
    """
    n, mean = len(values), statistics.fmean(values)
    deviations = [value - mean for value in values]
    squares = sum(deviation * deviation for deviation in deviations)
    if squares == 0:
        return None
    lagged = sum(one * other for one, other in pairwise(deviations)) / squares
    rho = min(_MOST_CORRELATION, (n * lagged + 1) / (n - 5)) if n > 5 else 0.0
    if rho < _CHANCE / math.sqrt(n):
        return None
    # 1 + 2 times the sum of (1 - lag / n) rho^lag over all lags below n.
    inflation = 1 + 2 * (rho / (1 - rho) - rho * (1 - rho**n) / (n * (1 - rho) ** 2))
    independent = n / inflation
    variance = squares / n / (1 - 1 / independent) if independent > 1.05 else 20 * squares / n
    # The median of independent samples varies more than their mean, by pi / 2; what neighbours share does not.
    error = math.sqrt(variance / n * (inflation - 1 + math.pi / 2))
    return error, max(1.0, 0.8 * independent - 1)


def student_t_975(freedom: float) -> float:
    """Return the 97.5th percentile of Student's t, for at least one degree of freedom, to within 2 %."""
    place = min(max(1, bisect_left([freedom_of_row for freedom_of_row, _ in _T], freedom)), len(_T) - 1)
    (low, first), (high, last) = _T[place - 1], _T[place]
    part = (1 / low - 1 / freedom) / (1 / low - 1 / high)
    return math.exp(math.log(first) + part * (math.log(last) - math.log(first)))


# The statuses of a block that was measured. Every other status (see workload/worker.py) has a reason.
OK = "ok"
# The verdict on a case whose error is larger than rounding explains, and not allowed.
APPROXIMATE = "approximate"
# With fewer blocks, halves of a cell mean nothing, and a tuning has barely begun to measure it.
LEAST_BLOCKS = 4
# The definition of "warm", which the measured process applies and every report states.
WINDOW_S, WINDOWS, TOLERANCE = 1e-3, 3, 0.03
WARMUP_RULE = (
    "windows of calls of at least 1 ms each until the last three differ by less than 3 % from their median, "
    "at most {seconds:g} s"
)

_LARGEST = 1 << 62
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
# The shortest time that counts as measured: the clock's tick.
Duration = Annotated[int, Meta(ge=1, le=_LARGEST)]
Text = Annotated[str, Meta(max_length=10_000)]


class Block(Struct, frozen=True, omit_defaults=True):
    """The samples of one case that one process took back to back, or the reason why there are none."""

    # The index of the cell in the grid. A case that is measured against itself has several cells.
    cell: Count
    process: Count
    # How many blocks of this cell the process had taken before.
    round: Count
    status: Annotated[str, Meta(max_length=40)]
    reason: Text = ""
    # When the first sample began (seconds since 1970, UTC).
    started_ns: Count = 0
    # The duration of each sample, and its start relative to the first one (ns).
    values_ns: tuple[Duration, ...] = ()
    offsets_ns: tuple[Count, ...] = ()
    # Samples of the same call with the other cache state: warm where the plan empties caches before each sample, and
    # emptied where it does not (ns).
    other_caches_ns: tuple[Duration, ...] = ()
    # What the clock measures without a call: the median time between two events with nothing between them (ns).
    empty_ns: Count | None = None
    # The SM clock of the GPU at the end of a sustained load (MHz).
    sm_clock_mhz: Count | None = None
    # Samples (ns) of the same call, replayed as a CUDA graph; empty when that was not measured, and graph_reason
    # says why.
    graph_ns: tuple[Duration, ...] = ()
    graph_reason: Text = ""
    # The CPU's time to launch a call divided by the time of a call, both back to back; None on the CPU.
    launch_share: float | None = None
    warmup_calls: Count = 0
    # Whether the times became stable before the warm-up reached its time limit.
    stable: bool = True
    # The indices of the samples during which the GPU was throttled.
    throttled: tuple[Count, ...] = ()
    # How much torch's allocator held beyond what was there before: the peak allocated and the peak reserved (bytes);
    # None on the CPU.
    peak_bytes: Count | None = None
    peak_reserved_bytes: Count | None = None
    # The size of q, k and v in that allocator, and the peak beyond them (bytes).
    input_bytes: Count | None = None
    peak_beyond_inputs_bytes: int | None = None
    # The error relative to the float64 reference by tensor, where this process measured it.
    errors: dict[str, float] = {}
    # Whether the results are farther from the reference than rounding explains, as those of a lossy backend may be.
    approximate: bool = False


# The first sample of a block sees cold caches and a low clock. It is left out where there are enough others.
_LEAST_TO_DROP = 5


def steady_samples(values_ns: Sequence[int]) -> Sequence[int]:
    """Return the samples of a block, without the first one where at least four others are left."""
    return values_ns[dropped_samples(len(values_ns)) :]


def dropped_samples(count: int) -> int:
    """Return how many samples at the beginning of a block of `count` do not count."""
    return 1 if count >= _LEAST_TO_DROP else 0


def named_times(blocks: Sequence[Block], *, flush: bool) -> dict[str, Any]:
    """Return the times of one case by the names of their columns (ns), None where one was not measured.

    flush: whether the plan empties the caches before each sample.
    """
    own, other = _median([block.values_ns for block in blocks]), _median([block.other_caches_ns for block in blocks])
    empty = [block.empty_ns for block in blocks if block.empty_ns is not None]
    return {
        "cold_ns": own if flush else other,
        "warm_ns": other if flush else own,
        "event_over_graph": event_over_graph(blocks),
        "empty_ns": statistics.median(empty) if empty else None,
    }


def event_over_graph(blocks: Sequence[Block]) -> float | None:
    """Return the median sample between two events divided by the median graph replay, over blocks that have both."""
    ratios = [
        statistics.median(steady_samples(block.values_ns)) / statistics.median(steady_samples(block.graph_ns))
        for block in blocks
        if block.values_ns and block.graph_ns
    ]
    return float(statistics.median(ratios)) if ratios else None


def _median(samples: Sequence[Sequence[int]]) -> float | None:
    values = [value for sample in samples for value in steady_samples(sample)]
    return float(statistics.median(values)) if values else None
