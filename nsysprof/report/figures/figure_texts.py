"""Describe in words what each figure shows, with its main numbers, for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from nsysprof.report.wording import join_names, words_for
from nsysprof.results.allocator_memory import AllocatorMemory
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.results.roof import known
from nsysprof.units import format_bytes, format_factor, format_ns, format_rate

if TYPE_CHECKING:
    from nsysprof.results.comparison import VersionComparison
    from nsysprof.results.rank_results import RanksAnalysis

# The most values that a text names; the tables beside the figure have all of them.
_MOST = 4


def describe_timeline(analysis: Analysis) -> str:
    """Return how busy the GPU is over the trace, and with what."""
    words, totals = words_for(analysis.trace), analysis.totals
    text = f"Timeline of ranges, API calls and {words.works}."
    if totals.gpu_busy_ns is not None and totals.gpu_span_ns:
        share = 100 * totals.gpu_busy_ns / totals.gpu_span_ns
        text += f" The {words.device} is busy for {format_ns(totals.gpu_busy_ns)} of {format_ns(totals.gpu_span_ns)}"
        text += f" ({share:.1f} %) from its first to its last work."
    else:
        text += f" The trace does not show how busy the {words.device} is."
    return f"{text} {_categories(analysis)}".rstrip()


def describe_kernels(analysis: Analysis) -> str:
    """Return the time of the kernels by category, and the longest of them."""
    words, kernels = words_for(analysis.trace), analysis.kernels
    total, count = int(kernels["total_ns"].sum()), int(kernels["instances"].sum())
    text = f"{count:,} {words.works} take {format_ns(total)}. {_categories(analysis)}"
    if len(kernels):
        first = kernels.sort_values("total_ns", ascending=False, kind="stable").iloc[0]
        time, times = format_ns(int(first["total_ns"])), f"{int(first['instances']):,}"
        text += f" {first['label']} takes the most time: {time} in {times} runs."
    return text


def describe_vram(analysis: Analysis, record: CaptureRecord | None) -> str:
    """Return the largest peaks of memory by case or range, and the peak of the trace."""
    memory = words_for(analysis.trace).memory
    column, name, table = "peak_vram_bytes", "family", analysis.ranges
    if record is not None and record.results["peak_allocated_bytes"].notna().any():
        column, name, table = "peak_allocated_bytes", "range", record.results
    peaks = table[table[column].notna()].sort_values(column, ascending=False, kind="stable").drop_duplicates(name)
    parts = [f"{row[name]} {format_bytes(int(row[column]))}" for row in peaks.head(_MOST).to_dict("records")]
    more = f", and {len(peaks) - _MOST} smaller ones" if len(peaks) > _MOST else ""
    text = f"Peak {memory}: {', '.join(parts)}{more}." if parts else f"{memory} in use over time."
    used = analysis.timeline.memory
    return text + (f" Over the trace at most {format_bytes(int(used['used_bytes'].max()))}." if len(used) else "")


def describe_memory(allocator: AllocatorMemory) -> str:
    """Return who owned the memory of torch's allocator at its peak."""
    owners = allocator.owners.sort_values("peak_bytes", ascending=False, kind="stable")
    parts = [f"{row['owner']} {format_bytes(int(row['peak_bytes']))}" for row in owners.head(_MOST).to_dict("records")]
    peak = format_bytes(int(owners["peak_bytes"].sum()))
    return f"Memory of torch's allocator over time, {peak} at its peak, by owner: {', '.join(parts)}."


def describe_roofline(record: CaptureRecord) -> str:
    """Return the highest and the lowest rate of the cases, and what limits how many of them."""
    points = record.results[record.results["flops_per_s"].notna() & record.results["dram_bytes"].notna()]
    ordered = points.sort_values("flops_per_s", ascending=False, kind="stable")
    text = f"Roofline of {len(points)} cases"
    if len(ordered):
        ends = [ordered.iloc[0], *([ordered.iloc[-1]] if len(ordered) > 1 else [])]
        rates = [f"{row['range']} at {format_rate(known(row['flops_per_s']), 'FLOP/s')}" for row in ends]
        text += f", from {' down to '.join(rates)}"
    limits = points["limiter"].dropna().value_counts()
    counts = [f"{count} {name}" for name, count in limits.items()]
    return text + (f"; {', '.join(counts)}." if counts else ".")


def describe_traffic(record: CaptureRecord) -> str:
    """Return which cases move the most and the fewest bytes relative to the least that they need."""
    rows = record.results[record.results["dram_bytes"].notna() & (record.results["least_bytes"] > 0)]
    ratio = (rows["dram_bytes"].astype(float) / rows["least_bytes"].astype(float)).sort_values(kind="stable")
    text = f"DRAM traffic of {len(rows)} cases against the least that their inputs and outputs need"
    if not len(ratio):
        return f"{text}."
    ends = dict.fromkeys(((ratio.index[0], float(ratio.iloc[0])), (ratio.index[-1], float(ratio.iloc[-1]))))
    names = [f"{rows['range'].loc[place]} {_least(times)}" for place, times in ends]
    return f"{text}: from {' to '.join(names)}."


def _least(times: float) -> str:
    """Return a factor as text; one that would round to zero is written as less than 0.01x."""
    return format_factor(times) if times >= 0.01 else "less than 0.01x" if times > 0 else "none"


def describe_bench(table: pd.DataFrame, column: str, what: str, unit: str) -> str:
    """Return the best and the worst case of a bench.

    column: what is compared.
    what: its name.
    unit: ns, or the unit of a rate, for which more is better.
    """
    rows = table[table[column].notna()].sort_values(column, ascending=unit == "ns", kind="stable")
    text = f"{what} of {len(rows)} cases"
    if not len(rows):
        return f"{text}."
    ends = [rows.iloc[0], *([rows.iloc[-1]] if len(rows) > 1 else [])]
    said = [f"{row['case']} {_value(float(row[column]), unit)}" for row in ends]
    return f"{text}, from the best to the worst: {' to '.join(said)}."


def describe_scaling(table: pd.DataFrame) -> str:
    """Return which cases take the least and the most time for equal work."""
    timed = table[table["median_ns"].notna() & (table["flops"] > 0)]
    cost = timed.assign(cost_ns=timed["median_ns"].astype(float) / (timed["flops"].astype(float) / 1e9))
    return describe_bench(cost, "cost_ns", "Time for a billion operations", "ns")


def describe_winners(winners: pd.DataFrame) -> str:
    """Return for how many shapes each backend is the best, and for how many there is no best."""
    undecided = winners["verdict"].isin(("tie", "inconclusive"))
    counts = winners[~undecided]["backend"].value_counts()
    said = [f"{name} for {count}" for name, count in counts.items()]
    said += [f"none for {int(undecided.sum())}"] if undecided.any() else []
    return f"The best backend of each of {len(winners)} shapes: {', '.join(said)}." if said else "No shape has a best."


def describe_ratios(comparison: VersionComparison) -> str:
    """Return how many cases became slower and faster, and the largest change of each kind."""
    changes = [change for change in comparison.latency.changes if change.verdict is not None]
    verdicts = pd.Series([change.verdict.value for change in changes if change.verdict is not None], dtype=object)
    counts = [f"{count} {name}" for name, count in verdicts.value_counts().items()]
    text = f"Latency of {len(changes)} cases, candidate over baseline: {', '.join(counts)}."
    measured = sorted((change.ratio, change.case) for change in changes if change.ratio is not None)
    ends = dict.fromkeys((measured[-1], measured[0])) if measured else ()
    return f"{text} {_sentence([f'{case} {ratio:.3f}' for ratio, case in ends])}".rstrip()


def describe_parts(comparison: VersionComparison) -> str:
    """Return the ranges whose wall time changed most, and the part that changed most in each."""
    shown = [change for change in comparison.ranges if change.parts is not None and any(change.parts.values())]
    shown.sort(key=lambda change: -abs(change.wall_change_ns or 0))
    said = []
    for change in shown[:_MOST]:
        part, size = max((change.parts or {}).items(), key=lambda part_and_size: abs(part_and_size[1]))
        wall = _signed(change.wall_change_ns or 0)
        said.append(f"{change.label} {wall}, most of it {part.removesuffix('_ns')} {_signed(size)}")
    more = f", and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
    return f"Change of the wall time of ranges by its parts: {'; '.join(said)}{more}."


def describe_heatmap(job: RanksAnalysis) -> str:
    """Return whether ranks differ, and which one delays the others."""
    text = f"How far the time of each of {len(job.read)} ranks in each range lies from the usual rank's."
    if job.imbalance_pct is not None:
        text += f" The imbalance is {job.imbalance_pct:.1f} %."
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    return f"{text} {_sentence(slow, 'The others wait for ')}".rstrip()


def describe_ranks_timeline(job: RanksAnalysis) -> str:
    """Return how many ranks are shown, and which one delays the others."""
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    text = f"Timeline of {len(job.lanes)} ranks on one clock, with computation and communication."
    return f"{text} {_sentence(slow, 'The others wait for ')}".rstrip()


def _categories(analysis: Analysis) -> str:
    """Return the categories of kernels with the most time, with their shares of it."""
    total = float(analysis.kernels["total_ns"].sum())
    if total <= 0:
        return ""
    sums = analysis.kernels.groupby("category")["total_ns"].sum().sort_values(ascending=False, kind="stable")
    parts = [f"{name} {format_ns(float(time))} ({100 * time / total:.1f} %)" for name, time in sums.head(_MOST).items()]
    return f"By kind: {', '.join(parts)}."


def _value(value: float, unit: str) -> str:
    return format_ns(value) if unit == "ns" else format_rate(value, unit)


def _signed(value_ns: float) -> str:
    return ("+" if value_ns > 0 else "") + format_ns(value_ns)


def _sentence(words: Sequence[str], begin: str = "Furthest from 1: ") -> str:
    """Return a sentence with the first of the words; nothing without any."""
    return f"{begin}{join_names(list(words[:_MOST]))}." if words else ""
