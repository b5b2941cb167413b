"""The counted pass: real measured processes, and a stand-in for ncu (the real one is in test_counted_gpu)."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.shape import Case
from nsysprof.capture import run
from nsysprof.capture.collect import COUNTERS, read_counters
from nsysprof.capture.folder import prepare_folder
from nsysprof.capture.plan import CountingPlan, plan_capture
from nsysprof.capture.run import run_capture
from nsysprof.results.analysis import RESULT_COLUMNS
from nsysprof.results.checks import MissingSource
from nsysprof.results.kernel_counters import Run

NCU = Path(__file__).parent / "stand_in_ncu"


@pytest.fixture
def capture(tmp_path, monkeypatch):
    log = tmp_path / "ncu.log"
    monkeypatch.setenv("FAKE_NCU_LOG", str(log))

    def run(backends, asked=None, on_progress=None, **counting):
        monkeypatch.setenv("FAKE_NCU", json.dumps({"kernels": {}, **(asked or {})}))
        log.unlink(missing_ok=True)
        cases = [Case(backend, seq=32, heads=2, head_dim=8, dtype="fp32") for backend in backends]
        plan = plan_capture(
            cases, profiler="none", device="cpu", memory_bytes=None, samples=10, warmup=1,
            counting=CountingPlan(**counting), case_timeout_s=60,
        )  # fmt: skip
        folder = tmp_path / "capture"
        prepare_folder(folder)
        captured = run_capture(
            plan, folder, nsys=None, ncu=NCU, fall_back=False, result_columns=RESULT_COLUMNS,
            on_progress=on_progress or (lambda *_: None),
        )  # fmt: skip
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        kernels = read_counters(folder / COUNTERS) if (folder / COUNTERS).exists() else []
        return captured, kernels, calls

    return run


def by_case(kernels, run):
    counts = {}
    for kernel in kernels:
        if kernel.run is run:
            counts[kernel.range.split("::")[1]] = counts.get(kernel.range.split("::")[1], 0) + 1
    return counts


def test_each_case_is_counted_twice_and_nothing_is_replayed_for_its_traffic(capture):
    captured, kernels, calls = capture(["math", "naive"], metrics=("a__b.sum",), sections=("SpeedOfLight",))
    assert by_case(kernels, Run.TRAFFIC) == by_case(kernels, Run.DETAIL) == {"math": 3, "naive": 3}
    traffic, detail = (call["argv"] for call in calls)
    assert traffic[traffic.index("--cache-control") + 1] == "none"
    assert "--replay-mode" not in traffic
    assert detail[detail.index("--cache-control") + 1] == "all"
    assert detail[detail.index("--replay-mode") + 1] == "kernel"
    assert detail[detail.index("--section") + 1] == "SpeedOfLight"
    assert "a__b.sum" in detail[detail.index("--metrics") + 1].split(",")
    assert "a__b.sum" not in traffic[traffic.index("--metrics") + 1].split(",")
    assert captured.manifest.notes == []
    assert [step.name for step in captured.manifest.steps] == ["timed", "traffic", "detail"]


@pytest.mark.slow
def test_a_case_with_too_many_kernels_is_counted_in_part_and_keeps_no_other_out(capture):
    asked = {"kernels": {"math": 500}}
    captured, kernels, calls = capture(["flash", "math", "naive"], asked, kernels=10)
    assert by_case(kernels, Run.TRAFFIC) == {"flash": 3, "naive": 3}
    assert by_case(kernels, Run.DETAIL) == {"flash": 3, "math": 10, "naive": 3}
    assert [note.code for note in captured.manifest.notes] == ["counted-in-part"]
    assert "RUN::math::S32" in captured.manifest.notes[0].text
    assert len(calls) == 4, "traffic, traffic without math, and math and the rest in detail"


@pytest.mark.slow
@pytest.mark.parametrize("where", [1])
def test_as_many_kernels_as_allowed_are_all_counted(capture, where):
    backends = ["flash", "math", "naive"]
    asked = {"kernels": {backends[where]: 10}}
    captured, kernels, _ = capture(backends, asked, kernels=10)
    assert by_case(kernels, Run.DETAIL)[backends[where]] == by_case(kernels, Run.TRAFFIC)[backends[where]] == 10
    assert captured.manifest.notes == []


@pytest.mark.slow
def test_large_memory_is_replayed_by_running_again(capture, monkeypatch):

    monkeypatch.setattr(run, "_replay", lambda _run, index, _memory: "application" if index == 0 else "kernel")
    _, kernels, calls = capture(["math", "naive"])
    modes = [call["argv"][call["argv"].index("--replay-mode") + 1] for call in calls[1:]]
    assert modes == ["application", "kernel"]
    assert by_case(kernels, Run.DETAIL) == {"math": 3, "naive": 3}


def test_counters_that_cannot_be_had_are_found_before_the_sweep_and_it_goes_on(capture):
    """tests/nsight/test_ncu.py knows the other reasons."""
    said = "==ERROR== Profiling failed because a driver resource was unavailable."
    captured, kernels, calls = capture(["math"], {"probe": said})
    (note,) = captured.manifest.notes
    assert note.code == "no-counters"
    assert "another profiler" in note.text
    assert note.next_step
    assert (kernels, calls) == ([], [])
    assert captured.progress.outcomes[0].status == "ok", "the latencies are there all the same"


def test_a_tool_that_fails_in_the_middle_costs_the_counters_alone(capture):
    captured, kernels, _ = capture(["math"], {"fails": "==ERROR== The application crashed"})
    assert kernels == []
    assert {note.code for note in captured.manifest.notes} == {"no-counters"}
    assert set(captured.manifest.missing) == {MissingSource.COUNTERS}
    assert captured.manifest.complete
    assert captured.progress.outcomes[0].block.values_ns


@pytest.mark.slow
def test_ctrl_c_while_counting_keeps_what_is_there(capture):
    def interrupt(pass_name, _progress):
        if pass_name == "traffic" and not sent:
            sent.append(True)
            threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGINT))).start()

    sent = []
    captured, _, calls = capture(["math", "naive"], on_progress=interrupt)
    assert captured.interrupted
    assert len(calls) == 1, "no second run was begun"
    assert all(outcome.block.values_ns for outcome in captured.progress.outcomes)


@pytest.mark.slow
def test_an_older_captures_counters_are_replaced(capture):
    capture(["math", "naive"])
    _, kernels, _ = capture(["naive"])
    assert by_case(kernels, Run.DETAIL) == {"naive": 3}
