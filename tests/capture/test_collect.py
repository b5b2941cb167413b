from nsysprof.attention.shape import Case
from nsysprof.capture.collect import CaseProgress, result_rows
from nsysprof.capture.plan import plan_capture
from nsysprof.results.samples import Block


def progress(profiler="torch"):
    cases = [Case("math", seq=8), Case("flash", seq=8), Case("cudnn", seq=8)]
    return CaseProgress(plan_capture(cases, profiler=profiler, device="cpu", memory_bytes=None))


def test_every_case_has_a_row_whatever_became_of_it():
    state = progress()
    state.outcomes[0].block = Block(0, 0, 0, "ok", values_ns=tuple(range(101, 152)), peak_bytes=5)
    state.outcomes[1].block = Block(1, 0, 0, "ineligible", "too wide")
    state.take({"event": "start", "case": 0}, "traced")
    assert state.current == 0
    state.take({"event": "done", "case": 0, "status": "ok", "reason": ""}, "traced")
    first, second, third = result_rows(state)
    assert first["latency_median_ns"] == 126
    assert first["latency_ci_low_ns"] < 126 < first["latency_ci_high_ns"]
    assert (first["samples"], first["traced_calls"], first["peak_allocated_bytes"]) == (51, 10, 5)
    assert (second["status"], second["reason"], second["latency_median_ns"]) == (
        "ineligible",
        "too wide",
        None,
    )
    assert (third["status"], third["samples"], third["traced_calls"]) == ("not_run", 0, None)


def test_a_failure_under_the_profiler_keeps_the_latency_and_is_said():
    state = progress()
    state.outcomes[0].block = Block(0, 0, 0, "ok", values_ns=(1,) * 20)
    state.take({"event": "done", "case": 0, "status": "crashed", "reason": "SIGSEGV"}, "traced")
    state.outcomes[1].block = Block(0, 0, 0, "ok", values_ns=(1000,) * 17 + (9000,) * 3)
    row, stalled, _ = result_rows(state)
    assert (stalled["latency_ci_low_ns"], stalled["latency_ci_high_ns"]) == (None, 1000)
    assert row["status"] == "ok"
    assert row["latency_median_ns"] == 1
    assert "traced run failed (crashed): SIGSEGV" in row["reason"]
