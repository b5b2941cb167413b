"""Judge how the latency of a case changed over several runs: which runs differ by more than both intervals."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState


def judge_history(case: CaseHistory) -> CaseHistory:
    """Return the case with its state, and with whether each run's interval overlaps the one before it."""
    before: dict[str, HistoryPoint] = {}
    points = []
    for point in case.points:
        last = before.get(point.conditions)
        points.append(point if last is None else replace(point, overlaps_before=_overlap(last, point)))
        if point.median_ns is not None:
            before[point.conditions] = point
    judged = replace(case, points=tuple(points))
    timed = judged.comparable() if judged.timed else ()
    overlaps = _overlap(timed[0], timed[-1]) if len(timed) > 1 else None
    return replace(judged, state=_state(judged), overlaps_oldest=overlaps)


def _state(case: CaseHistory) -> HistoryState:
    latest = case.latest()
    if latest is None or case.change_pct(*latest) is None:
        return HistoryState.ALONE
    states = {None: HistoryState.UNSURE, True: HistoryState.SAME, False: HistoryState.CHANGED}
    return states[_overlap(*latest)]


def _overlap(one: HistoryPoint, other: HistoryPoint) -> bool | None:
    """Return whether the intervals of two runs overlap; None where one of them has no interval."""
    if one.low_ns is None or one.high_ns is None or other.low_ns is None or other.high_ns is None:
        return None
    return one.low_ns <= other.high_ns and other.low_ns <= one.high_ns
