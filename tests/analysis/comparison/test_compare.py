from dataclasses import replace

import numpy as np

from nsysprof.analysis.comparison.compare import (
    compare_environments,
    compare_inputs,
    noted_differences,
    unknown_facts,
)
from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.report.pages.compare import floor_lines
from nsysprof.results.comparison import Input
from tests.analysis.noise import captured

BASE = {
    "gpu_name": "NVIDIA H200", "gpu_count": 1, "driver_version": "580.1", "torch_version": "2.11",
    "cudnn_loaded_version": "9.19.0",
    "clocks": {"during": {"sm_clock_mhz_min": 1950, "sm_clock_mhz_max": 1980, "throttle_reasons": ["gpu_idle"]}},
}  # fmt: skip


def clocks(low, high, *reasons):
    return {"clocks": {"during": {"sm_clock_mhz_min": low, "sm_clock_mhz_max": high, "throttle_reasons": reasons}}}


def test_the_same_is_comparable():
    assert compare_environments([BASE, BASE], [BASE]) == ()


def test_each_fact_that_differs_is_listed():
    other = {**BASE, "driver_version": "590.2", "cudnn_loaded_version": "9.10.0", "gpu_name": "NVIDIA H100"}
    found = {each.fact: (each.baseline, each.candidate) for each in compare_environments([BASE], [other])}
    assert found["cudnn_loaded_version"] == (("9.19.0",), ("9.10.0",))
    assert set(found) == {"gpu_name", "driver_version", "cudnn_loaded_version"}


def test_the_inputs_of_one_side_have_to_be_alike():
    (found,) = compare_environments([BASE, {**BASE, "torch_version": "2.12"}], [BASE])
    assert found.baseline == ("2.11", "2.12")


def test_unknown_is_no_difference_and_is_told():
    assert compare_environments([BASE], [{**BASE, "cudnn_loaded_version": None, "driver_version": None}]) == ()
    assert "driver_version" in unknown_facts([{}])
    assert unknown_facts([{"device": "cpu", "torch_version": "2", "cpu_model": "x"}]) == ()


def test_clocks_that_do_not_overlap():
    assert compare_environments([BASE], [{**BASE, **clocks(1940, 1949)}]) == ()  # half a percent
    (found,) = compare_environments([BASE], [{**BASE, **clocks(1200, 1500)}])
    assert (found.fact, found.candidate) == ("sm_clock_mhz", ("1200 to 1500",))


def test_damaged_clocks_are_unknown():
    for broken in (7, {"during": 3}, {"during": {"sm_clock_mhz_min": "x"}}):
        assert compare_environments([BASE], [{**BASE, "clocks": broken}]) == ()


def test_throttling_on_one_side_is_told():
    found = noted_differences([BASE], [{**BASE, **clocks(1950, 1980, "sw_power_cap")}])
    assert [(each.fact, each.baseline, each.candidate) for each in found] == [("throttled", ("no",), ("sw_power_cap",))]


def test_captures_of_the_host_are_not_judged_by_an_assumed_noise_which_no_note_names():
    random = np.random.default_rng(0)
    for host_bound, codes in ((True, []), (False, ["floor-assumed"])):
        sides = [
            [Input(name, "capture", {"device": "cpu"}, {"case": replace(captured(random), host_bound=host_bound)})]
            for name in "ab"
        ]
        found = compare_inputs(*sides, {"case": "case"}, (), Settings(), force=False)
        assert [note.code for note in found.notes if note.code in ("floor-assumed", "one-run")] == codes
        assert bool(floor_lines(found)) is not host_bound
