"""Name the sources of data that were requested for a capture but are missing from it."""

from __future__ import annotations

from enum import StrEnum


class MissingSource(StrEnum):
    """A source of numbers that a capture lacks although it was requested."""

    # Hardware counters of some or all cases.
    COUNTERS = "counters"
    # Hardware counters of this GPU: those that are there were counted on another one.
    COUNTERS_OF_THIS_GPU = "counters-of-this-gpu"
    # Samples of DRAM traffic.
    DRAM_SAMPLES = "dram-samples"
    # A trace by nsys: torch's profiler recorded instead.
    NSYS = "nsys"
