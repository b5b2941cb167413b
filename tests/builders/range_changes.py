"""Build changes of the wall time of a range."""

from nsysprof.results.comparison import LatencyChange, LatencyVerdict, MetricChange, RangeChange, SideOfCase

MS = 1_000_000


def wall_change(
    name: str, before: float, after: float, *, verdict: LatencyVerdict | None = None, calls: int = 10
) -> RangeChange:
    """Return a range on both sides. before, after: its wall time (ns). verdict: None for too few instances."""
    wall = MetricChange("wall", (before,), (after,), before, after)
    if verdict is None:
        return RangeChange(name, "", "both", calls, calls, {"wall": wall})
    judged = LatencyChange(name, verdict, SideOfCase("ok"), SideOfCase("ok"))
    return RangeChange(
        name, "", "both", calls, calls, {"wall": wall}, wall_verdict=judged,
        wall_ratio=0.5, wall_ratio_low=0.4, wall_ratio_high=0.6,
    )  # fmt: skip
