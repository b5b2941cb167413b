"""Statistics of one cell's blocks that hold: the block, not the sample, is what repeats independently.

Samples of a block share a process, its memory, its clocks: taken one by one they make intervals that are too narrow
and differences that are none. So the interval of the median resamples blocks, and tests compare medians of blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.block import OK, Block

Floats = npt.NDArray[np.float64]

METHOD = (
    "median of all samples; 95 % percentile-bootstrap interval of it from 10,000 resamples of blocks (of samples where "
    "there are fewer than 3 blocks); outliers lie more than 3 interquartile ranges outside the quartiles and are kept; "
    "drift is the Theil-Sen slope of the blocks' medians over the run, with Kendall's p"
)
_RESAMPLES = 10_000
_CONFIDENCE = 0.95
_LEAST_BLOCKS = 3
_LEAST_SAMPLES = 6
# Fewer samples have nothing beyond the percentile.
_LEAST_FOR_P95, _LEAST_FOR_P99 = 20, 100
_SEED = 0


@dataclass(frozen=True)
class Latency:
    """Of one cell; times in ns, None where there are too few samples. interval_of: "blocks", "samples" or ""."""

    samples: int
    blocks: int
    processes: int
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    interval_of: str
    mean_ns: float
    stddev_ns: float | None
    cv_pct: float | None
    min_ns: float
    max_ns: float
    p95_ns: float | None
    p99_ns: float | None
    outliers: int
    drift_pct: float | None
    drift_p: float | None


def summarize_latency(blocks: Sequence[Block], *, graph: bool = False) -> Latency | None:
    """Of a cell's blocks; graph: of their replays as CUDA graphs. None without a sample."""
    good = [block for block in blocks if block.status == OK and (block.graph_ns if graph else block.values_ns)]
    groups = [np.asarray(block.graph_ns if graph else block.values_ns, dtype=np.float64) for block in good]
    if not groups:
        return None
    values = np.concatenate(groups)
    low, high, kind = median_interval(groups)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    mean = float(values.mean())
    drift, p = _drift([block.started_ns for block in good], [float(np.median(group)) for group in groups])
    return Latency(
        samples=len(values),
        blocks=len(groups),
        processes=len({block.process for block in good}),
        median_ns=float(np.median(values)),
        low_ns=low,
        high_ns=high,
        interval_of=kind,
        mean_ns=mean,
        stddev_ns=deviation,
        cv_pct=None if deviation is None or mean == 0 else 100 * deviation / mean,
        min_ns=float(values.min()),
        max_ns=float(values.max()),
        p95_ns=float(np.quantile(values, 0.95)) if len(values) >= _LEAST_FOR_P95 else None,
        p99_ns=float(np.quantile(values, 0.99)) if len(values) >= _LEAST_FOR_P99 else None,
        outliers=_count_outliers(values),
        drift_pct=drift,
        drift_p=p,
    )


def block_medians(blocks: Sequence[Block]) -> Floats:
    """The median of each block that was measured, in ns, in the order given."""
    return np.array([np.median(block.values_ns) for block in blocks if block.status == OK and block.values_ns])


def median_interval(groups: Sequence[Floats]) -> tuple[float | None, float | None, str]:
    """The 95 % interval of the median of all values, and whether blocks or samples were resampled for it."""
    if len(groups) >= _LEAST_BLOCKS:
        length = min(len(group) for group in groups)
        table = np.stack([group[:length] for group in groups])
        low, high = _bootstrap(np.arange(float(len(groups))), lambda chosen: _medians_of(table, chosen))
        return low, high, "blocks"
    values = np.concatenate(groups)
    if len(values) < _LEAST_SAMPLES:
        return None, None, ""
    low, high = _bootstrap(values, lambda chosen: np.asarray(np.median(chosen, axis=-1)))
    return low, high, "samples"


def _medians_of(table: Floats, chosen: Floats) -> Floats:
    """The median of all samples of the chosen blocks (..., blocks), from a table (blocks, samples)."""
    picked = table[chosen.astype(np.int64)]
    return np.asarray(np.median(picked.reshape(*picked.shape[:-2], -1), axis=-1))


def _bootstrap(data: Floats, statistic: Callable[[Floats], Floats]) -> tuple[float, float]:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are all equal: their interval has no width, and that is right
        found = stats.bootstrap(
            (data,),
            lambda chosen, axis: statistic(chosen),
            n_resamples=_RESAMPLES,
            batch=1000,
            confidence_level=_CONFIDENCE,
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(_SEED),
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _count_outliers(values: Floats) -> int:
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 3 * (third - first)
    return int(((values < first - reach) | (values > third + reach)).sum())


def _drift(starts_ns: Sequence[int], medians: Sequence[float]) -> tuple[float | None, float | None]:
    """The change of the blocks' medians from the first to the last, in percent, and its p. None below 5 blocks."""
    if len(starts_ns) < 5 or len(set(starts_ns)) < 5:
        return None, None
    from scipy import stats

    at, values = np.asarray(starts_ns, dtype=np.float64), np.asarray(medians)
    if np.ptp(values) == 0:
        return 0.0, 1.0
    slope = stats.theilslopes(values, at - at.min()).slope
    middle = float(np.median(values))
    return 100 * float(slope) * float(np.ptp(at)) / middle if middle else None, float(
        stats.kendalltau(at, values).pvalue
    )
