"""Hold in one object all data from which the tables of ranges are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from nsysprof.analysis.attribution.attributed_ranges import Attributed
from nsysprof.analysis.attribution.caused_work import CausedWork, adopted_of_instances
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.analysis.ranges.range_launches import LaunchCalls
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.gpu_metrics_schema import GpuMetrics
from nsysprof.trace.schema import Int64s, Tables, Work


@dataclass(frozen=True)
class RangeEvidence:
    """All data about the ranges of a trace before it is summed up."""

    tables: Tables
    # The instances of ranges and what each launched.
    attributed: Attributed
    # The names of kernels.
    names: Names
    # Device memory over time; None where it was not recorded.
    memory: DeviceMemory | None
    # Calls that replayed graphs with unknown kernels: those recorded as wholes, and those not recorded at all.
    replays: tuple[Int64s, Int64s]
    # What each API call did: launched, replayed, or lost its work.
    launch_calls: LaunchCalls
    # Sampled GPU metrics; None where there are none.
    metrics: GpuMetrics | None
    # What ranges adopted and captured; None where only their own launches are wanted.
    caused: CausedWork | None
    # The energy of GPUs by their number on the machine; empty where it was not sampled.
    power: Mapping[int, GpuEnergy] = field(default_factory=dict)

    @property
    def work(self) -> Work:
        """Return the GPU work of the trace."""
        return self.tables.work

    @property
    def groups(self) -> int:
        """Return how many different (range, style, domain) there are."""
        return len(self.attributed.keys)

    @cached_property
    def group(self) -> Int64s:
        """Return the group of each instance."""
        return self.attributed.ranges["group"].to_numpy(dtype=np.int64)

    @cached_property
    def listed(self) -> Int64s:
        """Return the instances in the order of their table: by group, and by start within a group."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def adopted(self) -> tuple[Int64s, Int64s] | None:
        """Return how many kernels each instance adopted, and their total time (ns); None where not wanted."""
        if self.caused is None:
            return None
        return adopted_of_instances(self.work, self.caused, self.attributed.structure.parent)
