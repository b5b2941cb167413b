"""Define a row of the calibration: how often an event happened in simulated measurements, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import beta

# Errors at most 5 %, and at most 7 % by the interval; intervals that hold the truth in 93 to 97 %; bounds that do so in
# 95 % at least; differences that are found in 80 %; gates that pass in 95 %.
ALARMS, COVERS, HOLDS, FINDS, PASSES = "at most 5 %", "93 to 97 %", "at least 95 %", "at least 80 %", "pass in 95 %"
NEVER = "never"


def share_interval(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Clopper and Pearson)."""
    low = float(beta.ppf(0.025, hits, of - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, of - hits)) if hits < of else 1.0
    return low, high


@dataclass(frozen=True)
class Row:
    model: str
    what: str
    hits: int
    of: int
    # What is asked of the share: one of REACHES, or nothing.
    reach: str = ""

    @property
    def share(self) -> float:
        return self.hits / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        return share_interval(self.hits, self.of)

    @property
    def is_met(self) -> bool:
        """Return whether the share is what is asked of it."""
        high = self.interval[1]
        return {
            "": True,
            ALARMS: self.share <= 0.05 and high <= 0.07,
            COVERS: 0.93 <= self.share <= 0.97,
            HOLDS: self.share >= 0.95 or high >= 0.97,
            FINDS: self.share >= 0.8,
            PASSES: self.share >= 0.95 or high >= 0.97,
            NEVER: self.hits == 0,
        }[self.reach]

    @property
    def is_refusal(self) -> bool:
        """Return whether it counts verdicts that were withheld."""
        return "refused" in self.what

    @property
    def is_short(self) -> bool:
        """Return whether the errors are as rare as asked, but too few runs were made to bound them."""
        return self.reach == ALARMS and self.share <= 0.05
