"""Add to the tables of ranges the kernels that they adopted from helper threads or captured into CUDA graphs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.caused_work import tabulate_caused
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.range_work.name_kernels import name_kernels
from nsysprof.results.analysis import CAUSED_KERNEL_COLUMNS

_OF_INSTANCES = ("adopted_kernel_count", "adopted_kernel_total_ns")
_SOURCES = {"kernel_count": "instances", "kernel_total_ns": "total_ns"}


def add_caused(table: pd.DataFrame, evidence: RangeEvidence) -> pd.DataFrame:
    """Write the columns of adopted and captured kernels into the table of ranges; return these kernels by name.

    The columns are unknown where only launches are wanted.
    """
    groups, caused, attributed = evidence.groups, evidence.caused, evidence.attributed
    if caused is None:
        for kind in ("adopted", "captured"):
            for column in _SOURCES:
                table[f"{kind}_{column}"] = pd.array([pd.NA] * groups, dtype="Int64")
        return pd.DataFrame(columns=list(CAUSED_KERNEL_COLUMNS))
    found = tabulate_caused(
        evidence.work, caused, evidence.group, attributed.structure, attributed.segments, evidence.names
    )
    for kind in ("adopted", "captured"):
        mine = found[found["kind"] == kind]
        for column, source in _SOURCES.items():
            sums = sum_by(mine["group"].to_numpy(dtype=np.int64), mine[source].to_numpy(dtype=np.int64), groups)
            table[f"{kind}_{column}"] = pd.array(sums, dtype="Int64")
    found = found.rename(columns={"kind": "attribution"}).sort_values(
        ["group", "attribution", "total_ns"], ascending=[True, True, False], kind="stable"
    )
    return name_kernels(found, evidence, CAUSED_KERNEL_COLUMNS)


def add_adopted(instances: pd.DataFrame, evidence: RangeEvidence) -> None:
    """Write the columns of adopted kernels into the table of instances; unknown where only launches are wanted."""
    unknown = [pd.NA] * len(instances)
    adopted = evidence.adopted or (None, None)
    for column, values in zip(_OF_INSTANCES, adopted, strict=True):
        instances[column] = pd.array(unknown if values is None else values[evidence.listed], dtype="Int64")
