"""Durations grouped by name, with the statistics and the order of nsys stats."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def summarize_durations(durations_ns: pd.Series, by: Sequence[pd.Series]) -> pd.DataFrame:
    """Count, total, mean, median, min, max and sample standard deviation (0 for one) of durations (ns) by group.

    Columns instances, total_ns, avg_ns, med_ns, min_ns, max_ns, stddev_ns; index: the groups; largest total first.
    """
    grouped = durations_ns.groupby(list(by), sort=False)
    table = grouped.agg(["count", "sum", "mean", "median", "min", "max", "std"])
    table.columns = pd.Index(["instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns"])
    table["stddev_ns"] = table["stddev_ns"].fillna(0.0)
    return table.sort_values("total_ns", ascending=False, kind="stable")
