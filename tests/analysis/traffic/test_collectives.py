"""Collectives of NCCL: bus bandwidth by the payloads of a real trace, and how calls are found for kernels."""

import json

import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.traffic.collectives import NO_PAYLOADS, _assign, _NcclCall
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.conftest import REPOSITORY

MIB = 1 << 20
# The program's operations: in the kernel's name, the size that NCCL says for 64 MiB on two ranks, and bytes on the bus.
OPERATIONS = {
    "all_reduce": ("AllReduce", 64 * MIB, 64 * MIB),
    "all_gather": ("AllGather", 64 * MIB, 64 * MIB),
    "reduce_scatter": ("ReduceScatter", 64 * MIB, 64 * MIB),
    "broadcast": ("Broadcast", 64 * MIB, 64 * MIB),
    "reduce": ("Reduce", 64 * MIB, 64 * MIB),
    "all_to_all": ("SendRecv", 32 * MIB, 32 * MIB),
    "send_recv": ("SendRecv", 64 * MIB, 64 * MIB),
}


@pytest.fixture(scope="module")
def analysis(trace_path):
    with open_trace(trace_path("h200-ranges/nccl")) as trace:
        return summarize(read_tables(trace))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_bus_bandwidth_agrees_with_the_programs_own_clock(operation, analysis):
    times = json.loads((REPOSITORY / "traces" / "h200-ranges" / "times.json").read_text())["nccl"]
    name, size, moved = OPERATIONS[operation]
    table = analysis.collectives
    rows = table[(table["operation"] == name) & (table["message_bytes"] == size).fillna(value=False)]
    assert rows["device_id"].tolist() in ([0, 1], [1, 0])
    assert rows["kernel_count"].tolist() == [15, 15]  # 12 rounds and 3 before them
    assert rows["ranks"].tolist() == [2, 2]
    # CUDA events around a call hold its launch too, so that the kernel alone is a little faster.
    by_clock = moved / (times[f"{operation} 64MiB"] / 1e6)
    assert 1 < rows["bus_bytes_per_s"].max() / by_clock < 1.35
    assert (rows["most_bus_bytes_per_s"] >= rows["bus_bytes_per_s"]).all()


def test_every_kernel_is_in_a_row_and_known(analysis):
    table = analysis.collectives
    kernels = analysis.kernels[analysis.kernels["category"] == "communication"]
    assert table["kernel_count"].sum() == kernels["instances"].sum() == 760
    assert table["kernel_total_ns"].sum() == kernels["total_ns"].sum()
    assert (table["reason"] == "").all()
    assert not [note for note in analysis.notes if note.code == "collective-sizes-unknown"]


def test_without_payloads_sizes_are_unknown_and_said(trace_path):
    with open_trace(trace_path("ddp_rank0")) as trace:
        found = summarize(read_tables(trace))
    assert found.collectives["message_bytes"].isna().all()
    assert found.collectives["bus_bytes_per_s"].isna().all()
    assert set(found.collectives["reason"]) == {NO_PAYLOADS}
    (note,) = [note for note in found.notes if note.code == "collective-sizes-unknown"]
    assert NO_PAYLOADS in note.text


def call(start, name="ncclSend"):
    return _NcclCall(name, start, start + 10, 1, 1, 0)


def test_calls_of_a_group_belong_to_the_kernel_that_is_launched_when_it_ends():
    made = [call(0), call(20), call(100, "ncclAllReduce")]
    found = _assign(np.array([50, 105]), made)
    assert found == [[made[0], made[1]], [made[2]]]


def test_as_many_kernels_as_calls_are_in_order_and_other_numbers_are_unknown():
    made = [call(0), call(20)]
    assert _assign(np.array([50, 60]), made) == [[made[0]], [made[1]]]
    assert _assign(np.array([50, 60, 70]), made) == [None, None, None]
    assert _assign(np.array([50]), []) == [[]]
