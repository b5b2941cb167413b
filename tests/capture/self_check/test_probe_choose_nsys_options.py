import pytest

from nsysprof.capture.self_check import probe
from nsysprof.results.checks import ProbeResult, ProbeVerdict

MACHINE = {"gpu_name": "H200", "gpu_count": 1, "driver_version": "580", "nsys_version": "2025.3.1"}
LOST = ProbeResult("usual", (), ProbeVerdict.LOST, "recorded 0 of 60 kernels of the main process", 60, 0, 3.0)
GOOD = ProbeResult("without-memory", ("--cuda-memory-usage=false",), ProbeVerdict.COMPLETE, "all", 60, 60, 3.0)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried = []

    def run_ladder(_nsys, _say):
        tried.append(1)
        return machine.results

    monkeypatch.setattr(probe, "run_ladder", run_ladder)

    def machine(results=(LOST, GOOD), *, environment=MACHINE, may_try=True):
        machine.results = results
        options, notes = probe.settle_options(tmp_path / "nsys", environment, print, may_try=may_try)
        return options, [note.code for note in notes], len(tried)

    return machine


def test_options_are_tried_once_and_kept(machine):
    assert machine(may_try=False) == ((), [], 0), "nothing is known, and nothing may be tried"
    for _ in range(2):
        assert machine() == (("--cuda-memory-usage=false",), ["probe-lost"], 1)
    assert machine(may_try=False)[0] == ("--cuda-memory-usage=false",)


def test_another_nsys_is_tried_anew(machine):
    machine()
    assert machine((GOOD,), environment={**MACHINE, "nsys_version": "2026.1"}) == ((), [], 2)


def test_without_a_gpu_nothing_is_tried(machine):
    assert machine(environment={**MACHINE, "gpu_count": 0}) == ((), [], 0)


def test_what_says_nothing_is_not_kept(machine):
    unknown = ProbeResult("usual", (), ProbeVerdict.UNKNOWN, "no CUDA", 0, 0, 1.0)
    for count in (1, 2):
        assert machine((unknown,)) == ((), [], count)


def test_where_every_way_loses_the_usual_one_is_used_and_said_to_lose(machine):
    assert machine((LOST,)) == ((), ["probe-lost"], 1)
