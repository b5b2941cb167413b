"""Make the table of the energy that each GPU used while the work of each range ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.range_traffic import chosen_instances
from nsysprof.analysis.traffic.energy import energy_in_groups
from nsysprof.results.column_registry.analysis_columns import ENERGY
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.power_samples import GpuEnergy, RangeEnergy
from nsysprof.trace.schema import Int64s

# Where the error bound exceeds this share of the energy, the energy is unknown.
MOST_ERROR_PCT = 50.0
TOO_SHORT = "its work is too short for the board's energy counter"
NOT_SAMPLED = "the board was not sampled during all of this time"


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
