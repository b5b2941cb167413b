"""Find the rows of the range that an agent names, or refuse the name with those that come near."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pandas as pd

from nsysprof.app.agents.bounded_answers import shorten
from nsysprof.errors import UsageError
from nsysprof.results.analysis import Analysis

_MOST_NEAR, _MOST_SHOWN = 5, 80
# The columns of range_kernels.csv that tell kernels apart, and those that can be added up over ranges.
_KERNEL, _SUMS = ["name", "short_name", "category", "label"], ["instances", "total_ns"]


def kernels_of_range(analysis: Analysis, name: str) -> pd.DataFrame:
    """Return the kernels of a range, or of all ranges of a family (step#) together, with times in ns.

    Raises UsageError for a range that the trace does not have.
    """
    names = _names(analysis, name)
    table = analysis.range_kernels
    table = table[table["range"].isin(names).to_numpy(dtype=bool)]
    if len(names) == 1:
        return table
    groups = table.groupby(_KERNEL, dropna=False, sort=False)
    joint = groups[_SUMS].sum().join(groups["min_ns"].min()).join(groups["max_ns"].max()).reset_index()
    return joint.assign(avg_ns=joint["total_ns"] / joint["instances"])


def instances_of_range(analysis: Analysis, name: str) -> pd.DataFrame:
    """Return the instances of a range, or of all ranges of a family (step#) by their start.

    Raises UsageError for a range that the trace does not have.
    """
    names = _names(analysis, name)
    table = analysis.range_instances
    table = table[table["range"].isin(names).to_numpy(dtype=bool)]
    return table if len(names) == 1 else table.sort_values("start_ns", kind="stable")


def refuse_unknown_range(name: str, known: Sequence[str]) -> None:
    """Raise UsageError for a range that is not among those of a trace, with the names that come near.

    known: the names of the ranges, those with the most time first.
    """
    if name in known:
        return
    if not known:
        raise UsageError("The trace has no ranges.", "Ask kernels without range_name for those of the whole trace.")
    folded = {each.casefold(): each for each in reversed(known)}
    # A path of ranges ends with the name of its last one.
    wanted = name.rsplit(" > ", maxsplit=1)[-1].casefold()[:500]
    near = [folded[each] for each in difflib.get_close_matches(wanted, folded, _MOST_NEAR)]
    near += [each for each in known if wanted and (wanted in each.casefold() or each.casefold() in wanted)]
    near = list(dict.fromkeys(near))[:_MOST_NEAR]
    what = "Near names" if near else "Those with the most time"
    shown = ", ".join(repr(shorten(each, _MOST_SHOWN)) for each in near or known[:_MOST_NEAR])
    raise UsageError(
        f"No range is called {shorten(name, _MOST_SHOWN)!r}.", f"{what}: {shown}. summarize lists the largest ones."
    )


def _names(analysis: Analysis, name: str) -> list[str]:
    """Return the ranges with this name, or else those of the family with this name."""
    ranges = analysis.ranges.sort_values("wall_ns", ascending=False, kind="stable")
    own = dict.fromkeys(str(each) for each in ranges["range"])
    if name in own:
        return [name]
    families = ranges["family"].astype(object).where(ranges["family"].notna(), ranges["range"])
    refuse_unknown_range(name, list(dict.fromkeys((*(str(each) for each in families), *own))))
    return [str(each) for each in ranges.loc[(families == name).to_numpy(dtype=bool), "range"].unique()]
