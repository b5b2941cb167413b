"""Every busy nanosecond has one category: by counting nanoseconds one by one, and as the sum over real traces."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from nsysprof.analysis.attribution import work_stretches
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.busy_time import work_ledger
from nsysprof.analysis.busy_time.work_ledger import own_time
from nsysprof.app.analyze import analyze_trace
from nsysprof.trace.schema import MIGRATION
from tests.builders.random_tables import random_tables

NAMES = SimpleNamespace(
    texts=np.array(["ampere_sgemm_128x64_nn", "ncclDevKernel_AllReduce", "add_kernel"], dtype=object),
    of_variant=np.array([0, 1, 2, 1, 0, 0, 0, 0]),
)


def _count_by_nanosecond(work, kind):
    """Return how much counts for each row: computation before communication, then what began first."""
    category = np.array([pair[0] for pair in kind.kinds] + [""], dtype=object)[kind.kind]
    counts: Counter[int] = Counter()
    for device in np.unique(work.device_of).tolist():
        rows = [
            row
            for row in range(len(work))
            if work.device_of[work.variant[row]] == device and work.kind_of[work.variant[row]] != MIGRATION
        ]
        rows.sort(key=lambda row: (category[row] == "communication", int(work.start_ns[row])))
        taken: set[int] = set()
        for row in rows:
            mine = set(range(int(work.start_ns[row]), int(work.start_ns[row] + work.duration_ns[row]))) - taken
            counts[row] = len(mine)
            taken |= mine
    return [counts[row] for row in range(len(work))]


def _is_short(seed):
    """Return whether the work of a seed is short enough to count its nanoseconds one by one."""
    return int(random_tables(np.random.default_rng(seed), 60).work.ends_ns().max()) < 1 << 18


@pytest.mark.parametrize("seed", [seed for seed in range(60) if _is_short(seed)])
def test_each_nanosecond_belongs_to_the_computation_that_began_first(seed):
    tables = random_tables(np.random.default_rng(seed), 60)
    owned = own_time(tables, NAMES)
    # Of several that begin in the same nanosecond, any may be the first.
    categories = [owned.kinds[kind] if kind >= 0 else None for kind in owned.kind.tolist()]
    expected: Counter[object] = Counter()
    counted: Counter[object] = Counter()
    devices = tables.work.device_of[tables.work.variant].tolist()
    for device, category, wanted, busy in zip(
        devices, categories, _count_by_nanosecond(tables.work, owned), owned.busy_ns.tolist(), strict=True
    ):
        group = category is not None and category[0] == "communication"
        expected[device, group] += wanted
        counted[device, group] += busy
    assert counted == expected
    starts = tables.work.start_ns
    if len(set(starts.tolist())) == len(starts):
        assert owned.busy_ns.tolist() == _count_by_nanosecond(tables.work, owned)


@pytest.mark.parametrize("name", ["sdpa", "mp", "two_gpus", "ddp_rank0", "h200-faults/all", "graph_whole", "mem"])
def test_the_work_of_all_devices_is_their_busy_time(trace_path, name):
    analysis = analyze_trace(trace_path(name))
    assert analysis.work is not None
    whole = analysis.work[analysis.work["range"].isna()]
    assert whole["busy_ns"].sum() == analysis.totals.gpu_busy_ns
    if analysis.totals.kernel_count is not None:  # unknown where graphs were recorded as wholes
        assert whole["kernel_count"].sum() == analysis.totals.kernel_count
        assert whole["kernel_total_ns"].sum() == analysis.totals.kernel_total_ns


def test_a_range_has_the_work_that_it_launched_and_adopted(trace_path):
    analysis = analyze_trace(trace_path("h200-faults/all"))
    kernels_by_range = analysis.work.groupby("range")["kernel_count"].sum()
    for range_, rows in analysis.ranges.groupby("range"):
        expected = rows["kernel_count"].sum() + rows["adopted_kernel_count"].sum()
        assert kernels_by_range.get(range_, 0) == expected


def test_adopted_work_counts_once_for_each_group_around_it():
    """Ranges 0 > 1 > 2 and 3; ranges 1 and 2 have the same name."""
    parent, group = np.array([-1, 0, 1, -1]), np.array([5, 2, 2, 0])
    of_kernel, of_other = np.array([2, 3, 1, 2]), np.array([0])
    caused = CausedWork(np.array([10, 11, 12, 13]), of_kernel, np.array([14]), of_other, np.zeros(20), None, ((), ()))
    rows, groups, low, high = caused.adopted_stretches(parent, group)
    found = [
        (int(its_group), int(row))
        for its_group, first, last in zip(groups, low, high, strict=True)
        for row in rows[first:last]
    ]
    instance, row = caused.all_adopted_pairs(parent)
    assert sorted(found) == sorted(set(zip(group[instance].tolist(), row.tolist(), strict=True)))


def test_each_sum_is_added_up_once_for_each_kind_of_work(trace_path, monkeypatch):
    """Not once for each range, and not for each of its ends."""
    summed = []

    def running_sum(values):
        summed.append(len(values))
        return work_stretches.running_sum(values)

    monkeypatch.setattr(work_ledger, "running_sum", running_sum)
    analysis = analyze_trace(trace_path("h200-faults/all"))
    kinds = analysis.work[["device_id", "category", "unit"]].drop_duplicates()
    sources = 3  # the whole trace, what ranges of one style launched, and what they adopted
    assert len(summed) <= sources * len(kinds) * 3  # busy time, kernels, and their time


@pytest.mark.parametrize("seed", range(3))
def test_kernels_of_one_name_within_an_optimizer_and_elsewhere_are_told_apart(seed):
    tables = random_tables(np.random.default_rng(seed), 60)
    in_optimizer = np.zeros(len(tables.work), dtype=np.bool_)
    in_optimizer[: tables.work.kernels : 2] = True
    owned = own_time(tables, NAMES, in_optimizer)
    cells = work_ledger._Cells.of(tables, owned)
    devices = tables.work.device_of[tables.work.variant]
    for device, cell, kind in zip(devices.tolist(), cells.cell.tolist(), owned.kind.tolist(), strict=True):
        assert (cell < 0) == (kind < 0)
        assert kind < 0 or cells.keys[cell] == (device, *owned.kinds[kind])
    assert {"optimizer", "gemm"} <= {category for _, category, _ in cells.keys}


def test_a_trace_may_name_many_devices():
    count, kinds = 40_000, (("gemm", "plain"), ("copy", "memory"))
    rows = np.arange(count)
    work = SimpleNamespace(device_of=rows, variant=rows, duration_ns=np.ones(count, dtype=np.int64), kernels=count)
    cells = work_ledger._Cells.of(SimpleNamespace(work=work), work_ledger.Owned(work.duration_ns, rows % 2, kinds))
    assert [cells.keys[cell] for cell in cells.cell[[0, 1, count - 1]].tolist()] == [
        (0, *kinds[0]), (1, *kinds[1]), (count - 1, *kinds[1]),
    ]  # fmt: skip
