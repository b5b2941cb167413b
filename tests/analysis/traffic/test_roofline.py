import pandas as pd
import pytest

from nsysprof.analysis.traffic.roofline import find_limit
from nsysprof.results.kernel_counters import COUNTED_COLUMNS
from nsysprof.results.roof import COMPUTE, L2, LAUNCH, MEMORY, OCCUPANCY, OTHER, UNKNOWN, Roof

ROOF = Roof(4e12, None, {"fp16": 1e15}, {}, None)
ROW = {
    "latency_median_ns": 1e6, "traced_calls": 2, "kernel_total_ns": 2e6, "launch_count": 2, "gpu_busy_ns": 2_000_000,
}  # fmt: skip
SAMPLED = {f"sampled_{way}_bytes": 0 for way in ("write", "read_error", "write_error")}


def launches(*kernels):
    """kernels: the counters of each; a traffic run and a detail run."""
    rows = [
        {"run": run, "position": place, **dict.fromkeys(COUNTED_COLUMNS), "time_ns": 1e6, **kernel}
        for place, kernel in enumerate(kernels)
        for run in ("traffic", "detail")
    ]
    return pd.DataFrame(rows)


def limit(*kernels, row=ROW, roof=ROOF):
    return find_limit(row, launches(*kernels) if kernels else None, roof)


def test_where_kernels_fill_little_of_a_call_launching_limits_it():
    found, why = limit(row={**ROW, "kernel_total_ns": 2e5})
    assert found == LAUNCH
    assert "kernels of 1 launch fill 100 us of 1.00 ms" in why
    assert "90 % of a call" in why


@pytest.mark.parametrize(
    ("kernel", "limiter"),
    [
        ({"dram_read_bytes": 2.4e9, "dram_write_bytes": 0, "l2_pct": 90}, MEMORY),  # 60 % of a copy's rate, through L2
        ({"dram_read_bytes": 2.3e9, "dram_write_bytes": 0, "l2_pct": 90}, L2),
        ({"l2_pct": 59, "sm_pct": 60}, COMPUTE),
        ({"l2_pct": 59, "sm_pct": 59, "occupancy_limit_pct": 30}, OCCUPANCY),
        ({"l2_pct": 59, "sm_pct": 59, "occupancy_limit_pct": 31}, OTHER),
        ({}, OTHER),
    ],
)
def test_a_kernel_is_limited_by_the_ceiling_that_it_comes_near(kernel, limiter):
    assert limit(kernel)[0] == limiter


def test_a_case_is_what_most_of_its_kernel_time_is():
    found, why = limit({"sm_pct": 90, "time_ns": 3e5}, {"l2_pct": 90, "time_ns": 7e5})
    assert found == L2
    assert "L2-bound 70 %, compute-bound 30 %" in why


@pytest.mark.parametrize(("moved", "limiter"), [(4.8e9, MEMORY), (4.7e9, UNKNOWN)])
def test_without_counters_only_sampled_traffic_may_say_it(moved, limiter):
    found, why = limit(row={**ROW, **SAMPLED, "sampled_read_bytes": moved})
    assert found == limiter
    assert "no hardware counters" in why


def test_what_was_not_measured_is_unknown_and_said():
    found, why = limit(row={**ROW, **SAMPLED, "sampled_read_bytes": pd.NA})
    assert found == UNKNOWN
    assert "DRAM traffic, utilisation and occupancy were not measured" in why
    assert "the ceilings of this device were not measured" in limit({"sm_pct": 90}, roof=None)[1]
