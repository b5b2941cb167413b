"""Samples: the raw timed values of one case, in order. Statistics are computed from them and never stored alone."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Samples:
    """Untraced durations of single calls, in order, in ns; warm-up calls are not among them."""

    values_ns: tuple[int, ...]
    method: str

    @property
    def median_ns(self) -> float | None:
        return statistics.median(self.values_ns) if self.values_ns else None

    def median_interval_ns(self, confidence: float = 0.95) -> tuple[int, int] | None:
        """A distribution-free interval of the median from order statistics, at least `confidence` wide.

        The k-th smallest and k-th largest of n samples enclose the median with probability
        1 - 2 P(Binomial(n, 1/2) < k) (Conover, Practical Nonparametric Statistics, 3.2). None below six samples,
        where no pair reaches 95 %.
        """
        ordered = sorted(self.values_ns)
        n = len(ordered)
        tail, best = 0.0, 0
        for k in range(1, n // 2 + 1):
            tail += math.exp(math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 2) - n * math.log(2))
            if 1 - 2 * tail < confidence:
                break
            best = k
        return (ordered[best - 1], ordered[n - best]) if best else None

    def to_json(self) -> dict[str, Any]:
        return {"unit": "ns", "method": self.method, "values": list(self.values_ns)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Samples:
        return Samples(tuple(data["values"]), data["method"])
