"""Compute DRAM traffic, and the use of other units of the GPU, while the work of each range ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.ranges.instances import RangeEvidence
from nsysprof.analysis.traffic.dram import DramTraffic, dram_in_groups
from nsysprof.analysis.traffic.energy import energy_in_groups
from nsysprof.arrays import Floats
from nsysprof.results.column_registry.analysis_columns import ENERGY, GPU_USE
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.power_samples import GpuEnergy, RangeEnergy
from nsysprof.trace.schema import Bools, DramSeries, GpuMetrics, Int64s, UseSeries

_COLUMNS = ("dram_read_bytes", "dram_write_bytes", "dram_read_error_bytes", "dram_write_error_bytes")
# With this peak, integrals in bytes become percent times ns.
_UNIT_PEAK = 100 * 10**9
# Where the error bound exceeds this share of the energy, the energy is unknown.
MOST_ERROR_PCT = 50.0
TOO_SHORT = "its work is too short for the board's energy counter"
NOT_SAMPLED = "the board was not sampled during all of this time"


def add_traffic(table: pd.DataFrame, evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> DramTraffic | None:
    """Write the columns of DRAM traffic, and return the traffic of the groups with work; None without counters.

    first_ns, last_ns: when the work of each instance began and ended.
    """
    # Without counters, when adopted work ran is not asked for.
    found = None if evidence.metrics is None else _measure(evidence, *_spans(evidence, first_ns, last_ns))
    for column in _COLUMNS:
        table[column] = pd.array([pd.NA] * len(table), dtype="Int64")
        if found is not None:
            groups, traffic = found
            known = traffic.known
            table.loc[groups[known], column] = getattr(traffic, column.removeprefix("dram_"))[known]
    return None if found is None else found[1]


def _measure(evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> tuple[Int64s, DramTraffic] | None:
    """Return the groups that have work, and their DRAM traffic while it ran."""
    chosen = np.flatnonzero(last_ns > first_ns)
    if evidence.metrics is None or len(chosen) == 0:
        return None
    groups, number = np.unique(evidence.group[chosen], return_inverse=True)
    pid = evidence.attributed.ranges["global_pid"].to_numpy(dtype=np.int64)[chosen]
    used = np.unique(evidence.work.variants[:, 1:3], axis=0)
    start, end = first_ns[chosen], last_ns[chosen]
    return groups, dram_in_groups(evidence.metrics, start, end, number, len(groups), pid, used)


def gpu_use_table(evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> pd.DataFrame:
    """Return the rows of gpu_use.csv: the mean use of each sampled unit, for the whole trace and then by range.

    first_ns, last_ns: when the work of each instance began and ended.
    """
    metrics, work = evidence.metrics, evidence.work
    if metrics is None or not metrics.use or not len(work):
        return empty_table(GPU_USE)
    used = np.unique(work.variants[:, 1:3], axis=0)
    pids = np.unique(used[:, 0])
    begin = np.full(len(pids), work.start_ns.min())
    end = np.full(len(pids), (work.start_ns + work.duration_ns).max())
    whole = unit_use_in_groups(metrics, begin, end, np.zeros(len(pids), np.int64), 1, pids, used)
    tables = [_use_rows(pd.DataFrame({"range": [None], "style": [None], "domain": [None]}), whole)]
    keys, (start, end, pid), group = chosen_instances(evidence, first_ns, last_ns)
    if len(keys):
        tables.append(_use_rows(keys, unit_use_in_groups(metrics, start, end, group, len(keys), pid, used)))
    return pd.concat([each for each in tables if len(each)] or [empty_table(GPU_USE)], ignore_index=True)


def chosen_instances(
    evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s
) -> tuple[pd.DataFrame, tuple[Int64s, Int64s, Int64s], Int64s]:
    """Return the names of families that have work after the warm-up, and their instances.

    The instances come as span and process of each, and the number of its family.

    first_ns, last_ns: when the work of each instance began and ended.
    """
    first_ns, last_ns = _spans(evidence, first_ns, last_ns)
    keys, number = number_families(evidence)
    chosen = np.flatnonzero((last_ns > first_ns) & _settled(evidence, number))
    present, group = np.unique(number[evidence.group[chosen]], return_inverse=True)
    pid = evidence.attributed.ranges["global_pid"].to_numpy(dtype=np.int64)[chosen]
    return keys.iloc[present].reset_index(drop=True), (first_ns[chosen], last_ns[chosen], pid), group.astype(np.int64)


def number_families(evidence: RangeEvidence) -> tuple[pd.DataFrame, Int64s]:
    """Return the names with counters folded, by style and domain, and the position of each group's name among them."""
    keys = evidence.attributed.keys
    named = pd.DataFrame(
        {
            "range": list(evidence.attributed.structure.families),
            "style": keys["style"].to_numpy(dtype=object),
            "domain": keys["domain"].to_numpy(dtype=object),
        }
    )
    number, unique = pd.factorize(pd.MultiIndex.from_frame(named))
    return pd.DataFrame(list(unique), columns=["range", "style", "domain"]), number.astype(np.int64)


def _settled(evidence: RangeEvidence, number: Int64s) -> Bools:
    """Return which instances are not warm-up. A family that has only warm-up keeps all its instances.

    number: the family of each group.
    """
    steady = ~evidence.attributed.structure.warm_up
    family = number[evidence.group]
    has_steady = np.bincount(family, weights=steady, minlength=int(number.max(initial=0)) + 1) > 0
    chosen: Bools = steady | ~has_steady[family]
    return chosen


def _use_rows(keys: pd.DataFrame, found: list[UnitUse]) -> pd.DataFrame:
    """Return one row for each range and each unit whose use is known; the units of a range are together."""
    rows = pd.concat([
        keys.assign(place=np.arange(len(keys)), unit=unit, metric=each.metric, mean_pct=each.mean_pct,
                    error_pct=each.error_pct, sampled_ns=each.sampled_ns)
        for unit, each in enumerate(found)
    ])  # fmt: skip
    known = rows[rows["mean_pct"].notna()].sort_values(["place", "unit"])
    return known[list(GPU_USE.names)]


def _spans(evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return when the work of each instance began and ended, including what it adopted from helper threads."""
    if evidence.caused is None:
        return first_ns, last_ns
    owner, row = evidence.caused.all_adopted_pairs(evidence.attributed.structure.parent)
    if len(owner) == 0:
        return first_ns, last_ns
    work, has_work = evidence.work, last_ns > first_ns
    begin = np.where(has_work, first_ns, np.iinfo(np.int64).max)
    end = np.where(has_work, last_ns, np.iinfo(np.int64).min)
    np.minimum.at(begin, owner, work.start_ns[row])
    np.maximum.at(end, owner, work.start_ns[row] + work.duration_ns[row].astype(np.int64))
    worked = end > begin
    return np.where(worked, begin, first_ns), np.where(worked, end, last_ns)


@dataclass(frozen=True)
class UnitUse:
    """The mean use of one unit (percent), one entry per group; NaN where it is unknown."""

    metric: str
    mean_pct: Floats
    # A bound on how far the true mean is from it.
    error_pct: Floats
    sampled_ns: Int64s


def unit_use_in_groups(
    metrics: GpuMetrics,
    start_ns: Int64s,
    end_ns: Int64s,
    group: Int64s,
    groups: int,
    global_pid: Int64s,
    used: Int64s,
) -> list[UnitUse]:
    """Return the use of each unit while any instance of each group ran, as a mean over the GPUs of its process.

    The samples are integrated in the same way as those of DRAM, with the same error bounds (see dram.py).

    The parameters are those of dram_in_groups.
    """
    uses = []
    for metric in dict.fromkeys(series.metric for series in metrics.use):
        alone = GpuMetrics(tuple(_as_series(series) for series in metrics.use if series.metric == metric))
        integral = dram_in_groups(alone, start_ns, end_ns, group, groups, global_pid, used)
        uses.append(_mean(metric, integral))
    return uses


def _as_series(series: UseSeries) -> DramSeries:
    """Return the samples in the form that dram_in_groups integrates: as the reads of a GPU that never writes."""
    return DramSeries(
        gpu=series.gpu,
        device_id=series.device_id,
        peak_bytes_per_s=_UNIT_PEAK,
        period_ns=series.period_ns,
        time_ns=series.time_ns,
        read_pct=series.use_pct,
        write_pct=np.zeros_like(series.use_pct),
        sm_active_max_pct=None,
        impossible=0,
    )


def _mean(metric: str, integral: DramTraffic) -> UnitUse:
    total = np.maximum(integral.sampled_ns + integral.missing_ns, 1)
    sampled = np.maximum(integral.sampled_ns, 1)
    mean = integral.read_bytes / sampled
    # Time that was not sampled counts as the average here, and as nothing in the integral.
    error = integral.read_error_bytes / total + mean - integral.read_bytes / total
    unknown = ~integral.known
    mean[unknown] = error[unknown] = np.nan
    return UnitUse(metric, mean, error, integral.sampled_ns)


def energy_table(evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> pd.DataFrame:
    """Return the rows of energy.csv: by range, the energy of each GPU that worked. The first rows are for all work.

    first_ns, last_ns: when the work of each instance began and ended.
    """
    work, tables = evidence.work, []
    if not evidence.power or not len(work):
        return empty_table(ENERGY)
    begin, end = np.array([work.start_ns.min()]), np.array([work.last_end_ns()])
    keys, (start, stop, _), number = chosen_instances(evidence, first_ns, last_ns)
    used = set(work.device_of[np.unique(work.variant)].tolist())
    for device, energy in evidence.power.items():
        if device not in used:
            continue
        whole = energy_in_groups(energy, begin, end, np.zeros(1, np.int64), 1)
        named = pd.DataFrame({"range": [None], "style": [None], "domain": [None]})
        tables.append(_rows(named, whole, device, np.ones(1, np.int64), energy))
        if len(keys):
            found = energy_in_groups(energy, start, stop, number, len(keys))
            tables.append(_rows(keys, found, device, np.bincount(number, minlength=len(keys)), energy))
    return pd.concat(tables, ignore_index=True)[list(ENERGY.names)] if tables else empty_table(ENERGY)


def _rows(keys: pd.DataFrame, found: RangeEnergy, device: int, count: Int64s, energy: GpuEnergy) -> pd.DataFrame:
    known = found.error_j <= MOST_ERROR_PCT / 100 * found.energy_j
    power = found.energy_j / np.maximum(found.covered_ns / 1e9, 1e-9)
    reason = np.where(np.isnan(found.energy_j), NOT_SAMPLED, TOO_SHORT)
    return keys.assign(
        device_id=device,
        instances=count,
        covered_ns=found.covered_ns,
        energy_j=np.where(known, found.energy_j, np.nan),
        error_j=np.where(known, found.error_j, np.nan),
        mean_w=np.where(known, power, np.nan),
        period_ns=energy.period_ns,
        reason=np.where(known, "", reason),
    )
