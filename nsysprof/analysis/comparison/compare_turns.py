"""Compare two sides that were measured in turn in one session: `bench --baseline ... --candidate ...`.

A turn is one fresh process of each side, one after the other. Whatever changes slowly (clocks, temperature, other
users) is the same for both, and what differs between any two processes shows in how much the turns' differences vary.
Only this variation makes the test and the interval. A few turns estimate it poorly, so it is moderated by the other
cases' variation.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nsysprof.analysis.comparison.compare_latency import Settings, describe_side, unmeasured_case
from nsysprof.analysis.comparison.throttled_sides import METHOD as THROTTLED_METHOD
from nsysprof.analysis.comparison.throttled_sides import doubt_throttled
from nsysprof.analysis.sampling.significance import ALPHA, LEAST_PCT, POWER, Estimate, estimate, false_discovery, fit
from nsysprof.analysis.sampling.student_t import nct_sf, t_isf
from nsysprof.arrays import Floats
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import LatencyChange, LatencyComparison, LatencyVerdict, Measured
from nsysprof.results.samples import steady_samples

# A bench in turn that stops early does so only where every case is decided at this level, at which it is judged then.
# The last look spends what the three before it left, so that all together stay below ALPHA.
EARLY_ALPHA, LAST_ALPHA = 0.01, 0.02
METHOD = (
    "both sides were measured in turn, one fresh process of each: a turn's difference is taken between the mean log "
    "medians of the blocks of its two processes (the first sample of a block does not count)",
    "two sides differ where a t test of the turns' differences, with a variance drawn towards the other cases' "
    f"(Smyth's empirical Bayes), against a difference of {LEAST_PCT:g} % gives p < {ALPHA:g} after the correction of "
    "Benjamini and Hochberg over all cases; SAME needs the whole interval of the ratio within the margin; everything "
    "else is INCONCLUSIVE",
    "without a given number of turns, a bench takes 3, 6, 12 or 24: it ends where every case is decided at p < "
    f"{EARLY_ALPHA:g}, by intervals of that level, and after 24 it is judged at p < {LAST_ALPHA:g}, so that all looks "
    f"together stay below {ALPHA:g}",
    "the interval of the ratio is the t interval of the turns' differences, of the level of the test (95 % where the "
    "number of turns was given), for each case by itself",
    THROTTLED_METHOD,
    "how many more: the turns with which that test finds a difference of the margin with a power of 80 %, given the "
    "variance between turns that was seen",
)
# A bench of more turns than this is not proposed.
_MOST_TURNS = 1000
UNIT = "turn"


def compare_in_turn(
    baseline: Mapping[Case, Measured], candidate: Mapping[Case, Measured], names: Mapping[Case, str], settings: Settings
) -> LatencyComparison:
    """Return the change of every case that either side of one session has.

    names: names of cases for people, by key.
    """
    keys = list(dict.fromkeys((*baseline, *candidate)))
    differences = {
        key: turn_differences(baseline[key], candidate[key]) for key in keys if _both(key, baseline, candidate)
    }
    prior = fit(list(differences.values()))
    effects = {key: estimate(values, prior) for key, values in differences.items()}
    least = float(np.log1p(LEAST_PCT / 100))
    raw = {key: effect.p(least) for key, effect in effects.items() if effect is not None}
    corrected = dict(zip(raw, false_discovery(list(raw.values())), strict=True))
    changes = []
    for key in keys:
        old, new = describe_side(key, [baseline]), describe_side(key, [candidate])
        if key not in effects:
            changes.append(unmeasured_case(names[key], old, new))
            continue
        change = LatencyChange(
            names[key], LatencyVerdict.INCONCLUSIVE, old, new, unit=UNIT, margin_pct=settings.margin_pct
        )
        judged = _judge(change, effects[key], raw.get(key), corrected.get(key), len(raw), settings.alpha)
        changes.append(doubt_throttled(judged, baseline[key].throttled, candidate[key].throttled))
    return LatencyComparison(tuple(changes), None, "", UNIT, settings.alpha)


def turn_differences(baseline: Measured, candidate: Measured) -> Floats:
    """Return the log ratio of candidate over baseline for each turn that both sides measured."""
    old, new = _levels(baseline), _levels(candidate)
    return np.array([new[turn] - old[turn] for turn in old if turn in new], dtype=np.float64)


def turns_needed(deviation: float, margin_pct: float, tests: int = 1) -> int:
    """Return how many turns find a difference of the margin with a power of 80 %; at most 1001.

    deviation: the standard deviation of a turn's log ratio.
    tests: the number of cases. If only one of them differs, the correction demands alpha / tests of it.
    """
    wanted = float(np.log1p(margin_pct / 100) - np.log1p(LEAST_PCT / 100))

    def is_enough(count: int) -> bool:
        if deviation == 0:
            return True
        shift = float(wanted / (deviation / np.sqrt(count)))
        return nct_sf(float(t_isf(ALPHA / 2 / tests, count - 1)), count - 1, shift) >= POWER

    return 2 + bisect_left(range(2, _MOST_TURNS + 1), True, key=is_enough)  # the power grows with the number of turns


def _both(key: Case, baseline: Mapping[Case, Measured], candidate: Mapping[Case, Measured]) -> bool:
    sides = baseline.get(key), candidate.get(key)
    return all(side is not None and side.status == "ok" and bool(side.processes) for side in sides)


def _levels(side: Measured) -> dict[int, float]:
    """Return the mean log median of the blocks of each turn."""
    return {
        turn: float(np.mean(np.log([max(1.0, statistics.median(steady_samples(block))) for block in process])))
        for turn, process in zip(side.turns, side.processes, strict=True)
    }


def _judge(
    change: LatencyChange, effect: Estimate | None, p: float | None, corrected: float | None, tests: int, alpha: float
) -> LatencyChange:
    if effect is None or p is None or corrected is None:
        reason = "fewer than two turns measured both sides"
        return replace(change, reason=reason, next_step="Give more --processes.")
    reach, margin = effect.reach(1 - alpha), float(np.log1p((change.margin_pct or 0) / 100))
    low, high = effect.value - reach, effect.value + reach
    change = replace(
        change,
        ratio=float(np.exp(effect.value)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        p_units=p,
        p=corrected,
        error=effect.error,
        freedom=effect.freedom,
    )
    if corrected < alpha:
        return replace(change, verdict=LatencyVerdict.SLOWER if effect.value > 0 else LatencyVerdict.FASTER)
    if -margin <= low and high <= margin:
        return replace(change, verdict=LatencyVerdict.SAME, reason=f"within {change.margin_pct:.2g} %")
    reason = f"the interval is wider than ±{change.margin_pct:.2g} %, and the difference is not certain"
    needed = turns_needed(effect.error * float(np.sqrt(effect.processes)), change.margin_pct or 0, tests)
    if needed > _MOST_TURNS:
        return replace(change, reason=reason, next_step="Too noisy for this margin: give a wider --margin.")
    needed = max(needed, effect.processes + 1)
    step = f"About {needed} turns would tell {change.margin_pct:g} %: bench --processes {needed}."
    return replace(change, reason=reason, next_step=step, more=needed - effect.processes)
