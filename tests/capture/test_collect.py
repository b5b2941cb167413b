from nsysprof.capture.collect import Progress, clock_notes, merged_environment, result_rows, summarize_clocks
from nsysprof.capture.plan import plan_capture
from nsysprof.case import Case


def progress(profiler="torch"):
    cases = [Case("math", 8), Case("flash", 8), Case("cudnn", 8)]
    return Progress(plan_capture(cases, profiler=profiler, device="cpu", memory_bytes=None))


def test_every_case_has_a_row_whatever_became_of_it():
    state = progress()
    measured = {"values_ns": list(range(1, 52)), "method": "m", "peak_allocated_bytes": 5}
    state.take({"event": "start", "case": 0}, "timed")
    assert state.current == 0
    state.take({"event": "done", "case": 0, "status": "ok", "reason": "", "measured": measured}, "timed")
    state.take({"event": "done", "case": 1, "status": "ineligible", "reason": "too wide"}, "timed")
    state.take({"event": "done", "case": 0, "status": "ok", "reason": ""}, "traced")
    first, second, third = result_rows(state)
    assert first["latency_median_ns"] == 26
    assert first["latency_ci_low_ns"] < 26 < first["latency_ci_high_ns"]
    assert (first["samples"], first["traced_calls"], first["peak_allocated_bytes"]) == (51, 10, 5)
    assert (second["status"], second["reason"], second["latency_median_ns"]) == (
        "ineligible",
        "too wide",
        None,
    )
    assert (third["status"], third["samples"], third["traced_calls"]) == ("not_run", 0, None)


def test_a_failure_under_the_profiler_keeps_the_latency_and_is_said():
    state = progress()
    measured = {"values_ns": [1] * 20, "method": "m"}
    state.take({"event": "done", "case": 0, "status": "ok", "reason": "", "measured": measured}, "timed")
    state.take({"event": "done", "case": 0, "status": "crashed", "reason": "SIGSEGV"}, "traced")
    row = result_rows(state)[0]
    assert row["status"] == "ok"
    assert row["latency_median_ns"] == 1
    assert "traced run failed (crashed): SIGSEGV" in row["reason"]


def clocks(pass_name, case, sm, reasons):
    return {
        "pass": pass_name,
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
            clocks("timed", None, 300, ["gpu_idle"]),
            clocks("timed", 0, 1980, []),
            clocks("timed", None, 1200, []),
        ]
    )
    assert (summary["before"]["sm_clock_mhz"], summary["after"]["sm_clock_mhz"]) == (300, 1200)
    assert summary["during"]["sm_clock_mhz_min"] == 1980
    assert clock_notes({"clocks": summary}) == []
    assert summarize_clocks([]) is None


def test_throttling_while_measuring_is_a_warning_and_idling_is_not():
    hot = summarize_clocks([clocks("timed", 0, 900, ["hw_thermal_slowdown", "gpu_idle"])])
    (note,) = clock_notes({"clocks": hot})
    assert note.code == "gpu-throttled"
    assert "hw_thermal_slowdown" in note.text
    assert "gpu_idle" not in note.text


def test_the_driver_is_that_of_the_gpu_with_the_workers_uuid():
    state = progress()
    state.take({"event": "environment", "facts": {"gpu_uuid": "GPU-b", "torch_version": "2"}}, "timed")
    gpus = [{"uuid": "GPU-a", "driver_version": "1"}, {"uuid": "GPU-b", "driver_version": "2"}]
    environment = merged_environment({"os": "x"}, gpus, state, "2025")
    assert environment["driver_version"] == "2"
    assert "gpu_uuid" not in environment, "a serial number of the user's board is nobody's business"
    assert len(environment["comparable_hash"]) == 12
