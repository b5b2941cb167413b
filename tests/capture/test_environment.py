from nsysprof.capture.environment import clock_notes, merge_environment, summarize_clocks


def clocks(case, sm, reasons):
    return {
        "case": case,
        "sm_clock_mhz": sm,
        "memory_clock_mhz": 1,
        "temperature_c": 50,
        "power_w": 9.0,
        "throttle_reasons": reasons,
    }


def test_clocks_before_during_and_after():
    summary = summarize_clocks(
        [
            clocks(None, 300, ["gpu_idle"]),
            clocks(0, 1980, []),
            clocks(None, 1200, []),
        ]
    )
    assert (summary["before"]["sm_clock_mhz"], summary["after"]["sm_clock_mhz"]) == (300, 1200)
    assert summary["during"]["sm_clock_mhz_min"] == 1980
    assert clock_notes({"clocks": summary}) == []
    assert summarize_clocks([]) is None


def test_throttling_while_measuring_is_a_warning_and_idling_is_not():
    hot = summarize_clocks([clocks(0, 900, ["hw_thermal_slowdown", "gpu_idle"])])
    (note,) = clock_notes({"clocks": hot})
    assert note.code == "gpu-throttled"
    assert "hw_thermal_slowdown" in note.text
    assert "gpu_idle" not in note.text


def test_the_driver_is_that_of_the_gpu_with_the_workers_uuid():
    gpus = [{"uuid": "GPU-a", "driver_version": "1"}, {"uuid": "GPU-b", "driver_version": "2"}]
    environment = merge_environment({"gpu_uuid": "GPU-b", "torch_version": "2"}, {"os": "x"}, gpus)
    assert environment["driver_version"] == "2"
    assert "gpu_uuid" not in environment, "a serial number of the user's board is nobody's business"
    assert len(environment["comparable_hash"]) == 12
