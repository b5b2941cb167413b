"""Samples of energy: changes of counters are kept with their time, and a machine without counters says so."""

import threading
import time

import pytest

from nsysprof.capture.power_watch import PowerWatch
from nsysprof.errors import TraceError
from nsysprof.ranks.rank_energy import parse_power


def test_changes_are_kept_and_can_be_read_back(tmp_path):
    values = iter([5, 5, 7, 7, 9])
    watch = PowerWatch(lambda: {"GPU-a": next(values), "GPU-b": 3})
    before = time.time_ns()
    for _ in range(5):
        watch.look()
        time.sleep(0.001)
    assert watch.write(tmp_path / "power.csv")
    first, second = parse_power(tmp_path / "power.csv", before)
    assert (first.uuid, first.energy_mj.tolist(), second.energy_mj.tolist()) == ("GPU-a", [5, 7, 9], [3])
    assert 0 <= first.time_ns[0] < first.time_ns[1] < time.time_ns() - before
    assert first.period_ns >= 2_000_000


def test_a_watch_samples_from_entering_to_leaving(tmp_path):
    count = iter(range(10_000))
    looked = threading.Event()

    def read():
        energy = next(count)
        if energy == 3:
            looked.set()
        return {"GPU-a": energy}

    with PowerWatch(read) as watch:
        assert looked.wait(60), "it goes on by itself"
    assert watch.write(tmp_path / "power.csv")
    (found,) = parse_power(tmp_path / "power.csv", 0)
    assert len(found.energy_mj) > 3
    assert next(count) == len(found.energy_mj), "and has ended"


def test_without_counters_nothing_is_written(tmp_path):
    with PowerWatch(dict) as watch:
        pass
    assert not watch.write(tmp_path / "power.csv")
    assert not (tmp_path / "power.csv").exists()


@pytest.mark.parametrize(
    "text",
    ["", "time_ns,gpu,energy_mj\n1,a\n", "time_ns,gpu,energy_mj\n2,a,5\n1,a,6\n", "time_ns,gpu,energy_mj\n1,a,x\n"],
)
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "power.csv").write_text(text)
    with pytest.raises(TraceError, match="damaged"):
        parse_power(tmp_path / "power.csv", 0)
