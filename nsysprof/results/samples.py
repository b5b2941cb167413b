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
# The 97.5th percentile of Student's t by degrees of freedom; between them its logarithm is linear in their reciprocal.
_T = ((1.0, 12.706), (1.25, 8.0280), (1.5, 6.0167), (2.0, 4.3027), (2.5, 3.5747), (3.0, 3.1824), (4.0, 2.7764),
      (5.0, 2.5706), (7.0, 2.3646), (10.0, 2.2281), (20.0, 2.0860), (60.0, 2.0003), (math.inf, 1.9600))  # fmt: skip


def time_interval(values: Sequence[int]) -> tuple[int, int] | None:
    """Return the 95 % interval of the median of times (ns), as median_interval does.

    It does not reach down to nothing, however little is known: beyond half of the median, only the ratio counts.
    """
    bounds = median_interval(values)
    if bounds is None:
        return None
    middle = statistics.median(values)
    below = middle - bounds[0]
    return bounds if 2 * below <= middle else (min(*values, math.ceil(middle**2 / (4 * below))), bounds[1])


def median_interval(values: Sequence[int], confidence: float = 0.95) -> tuple[int, int] | None:
    """Return an interval of the median, for further calls in the same process; None below six samples.

    It comes from order statistics: the k-th smallest and k-th largest of n samples enclose the median with probability
    1 - 2 P(Binomial(n, 1/2) < k) (Conover, Practical Nonparametric Statistics, 3.2), interpolated to 95 %. Where
    neighbours are alike, it reaches at least as far as a t interval with the number of independent samples that they
    are worth.
    """
    ordered = sorted(values)
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
    high = ordered[n - best] - part * (ordered[n - best] - ordered[n - best - 1])
    correlated, middle = correlated_error(values), statistics.median(ordered)
    reach = 0.0 if correlated is None else correlated[0] * student_t_975(correlated[1])
    # A time is not negative, however little is known of it.
    return max(0, math.floor(min(low, middle - reach))), math.ceil(max(high, middle + reach))


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
