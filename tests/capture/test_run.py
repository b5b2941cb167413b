"""Real captures on the CPU: real processes, real torch, real faults."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.app.measuring.capture_program import check_trace
from nsysprof.attention.shape import Case
from nsysprof.capture.folder import prepare_folder
from nsysprof.capture.manifest import read_manifest
from nsysprof.capture.plan import plan_capture
from nsysprof.capture.run import run_capture
from nsysprof.capture.sampling.bench_run import read_capture_samples, read_run
from nsysprof.errors import CaptureFailedError, ToolFailedError
from nsysprof.results.analysis import RESULT_COLUMNS
from tests.builders.build_trace import TraceBuilder
from tests.builders.registering import our_backends, register
from tests.builders.stand_in_nsys import recorded_options, write_stand_in

FAULTS = "tests.capture.faults:"


def capture(tmp_path, backends, profiler="none", nsys=None, fall_back=False, on_progress=None, inspect=None, **plan):
    cases = [Case(backend, seq=32, heads=2, head_dim=8, dtype="fp32") for backend in backends]
    settled = plan_capture(
        cases,
        profiler=profiler,
        device="cpu",
        memory_bytes=None,
        samples=10,
        warmup=1,
        traced_calls=3,
        **plan,
    )
    folder = tmp_path / "capture"
    folder.mkdir(parents=True, exist_ok=True)
    prepare_folder(folder)
    return folder, run_capture(
        settled,
        folder,
        nsys=nsys,
        fall_back=fall_back,
        result_columns=RESULT_COLUMNS,
        on_progress=on_progress or (lambda *_: None),
        inspect=inspect,
    )


def statuses(captured):
    return [outcome.status for outcome in captured.progress.outcomes]


def test_faults_stay_inside_their_case_and_the_rest_still_runs(tmp_path):
    backends = [
        "math",
        *(FAULTS + name for name in ("error", "crash", "out_of_memory", "hang")),
        "cudnn",
        "flash",
    ]
    folder, captured = capture(tmp_path, backends, case_timeout_s=4.0)
    assert statuses(captured) == ["ok", "error", "crashed", "out_of_memory", "timeout", "ineligible", "ok"]
    reasons = [outcome.reason for outcome in captured.progress.outcomes]
    assert "this kernel is wrong" in reasons[1]
    assert "SIGSEGV" in reasons[2]
    assert "4 s" in reasons[4]
    assert len((folder / "results.csv").read_text().splitlines()) == 1 + len(backends)


@pytest.mark.slow
def test_callables_that_are_none_or_return_no_attention_cost_one_case_each(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path / "package", {**our_backends(), "gone": "no_such_module:attention"})
    names = ("not_a_tensor", "wrong_shape", "wrong_dtype", "not_callable", "missing", "exits", "speechless")
    backends = [*(FAULTS + name for name in names), "no_such_module:f", "gone", "flash_attn", "naive"]
    _, captured = capture(tmp_path, backends)
    outcomes = captured.progress.outcomes
    wrong, crashed = ["wrong"] * 3, ["crashed", "error"]
    assert statuses(captured) == [*wrong, "error", "error", *crashed, "error", "error", "ineligible", "ok"]
    reasons = [outcome.reason for outcome in outcomes]
    for reason, words in zip(
        reasons,
        ("a list instead", "(1, 2, 32, 1)", "float64", "cannot be called", "has no missing", "exit code", "Speechless",
         "cannot be imported", "cannot be imported", "flash-attn", ""),
        strict=True,
    ):  # fmt: skip
        assert words in reason
        assert "Traceback" not in reason


@pytest.mark.slow
def test_wrong_kernels_are_wrong_before_any_timing_and_are_not_traced(tmp_path):
    wrong = [f"tests.workload.wrong_kernels:{name}" for name in ("scaled", "without_mask", "not_a_number")]
    folder, captured = capture(tmp_path, [*wrong, "math"], "torch")
    outcomes = captured.progress.outcomes
    assert statuses(captured) == ["wrong", "wrong", "wrong", "ok"]
    assert outcomes[0].reason.startswith("out differs from the float64 reference by 0.05 relative (tolerance ")
    assert outcomes[2].reason == "out holds NaN"
    assert all(outcome.block.values_ns == () and outcome.traced == "not_run" for outcome in outcomes[:3])
    assert 0 < outcomes[3].block.errors["out"] < 1e-4
    assert list(read_capture_samples(folder)) == ["RUN::math::S32"]


def test_the_check_can_be_left_out(tmp_path):
    _, captured = capture(tmp_path, ["tests.workload.wrong_kernels:scaled"], check=False)
    assert statuses(captured) == ["ok"]
    assert captured.progress.outcomes[0].block.errors == {}


@pytest.mark.slow  # tests/cli/measuring/test_capture.py has a grid in which nothing works
def test_a_capture_without_a_single_result_says_why(tmp_path):
    with pytest.raises(CaptureFailedError, match=r"None of 1 cases .* this kernel is wrong"):
        capture(tmp_path, [FAULTS + "error"])


@pytest.mark.slow  # the main job of tests/cli/measuring/test_capture.py is one with the same profiler
def test_the_embedded_profiler_writes_its_trace(tmp_path):
    folder, captured = capture(tmp_path, ["math", "flash"], "torch")
    assert captured.trace == folder / "torch.sqlite"
    manifest = read_manifest(folder)
    assert manifest.complete
    assert [step.name for step in manifest.steps] == ["timed", "traced"]
    assert all(step.exit_code == 0 for step in manifest.steps)
    assert manifest.environment["torch_version"]
    measured = read_run(folder / "samples.json")
    assert (measured.kind, measured.complete, measured.plan.processes) == ("capture", True, 1)
    assert [len(values) for values in read_capture_samples(folder).values()] == [10, 10]


def write_program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_an_nsys_that_cannot_import_is_an_error_with_the_fix_and_loses_no_latency(tmp_path):
    broken = write_program(tmp_path / "nsys", "echo 'Unable to retrieve the importer version'\nexit 1\n")
    with pytest.raises(ToolFailedError, match="libdw"):
        capture(tmp_path, ["math"], "nsys", nsys=broken)
    row = (tmp_path / "capture" / "results.csv").read_text().splitlines()[1]
    assert row.startswith("RUN::math::S32,") and ",ok," in row


@pytest.mark.slow
def test_auto_goes_on_with_the_embedded_profiler_and_says_so(tmp_path):
    broken = write_program(tmp_path / "nsys", "echo 'Unable to retrieve the importer version'\nexit 1\n")
    folder, captured = capture(tmp_path, ["math"], "nsys", nsys=broken, fall_back=True)
    assert captured.trace == folder / "torch.sqlite"
    assert [note.code for note in captured.manifest.notes] == ["nsys-failed"]
    assert captured.manifest.profiler == "torch"


def test_an_nsys_that_reports_success_without_a_report_is_an_error(tmp_path):
    silent = write_program(tmp_path / "nsys", "echo 'No reports were generated'\nexit 0\n")
    with pytest.raises(ToolFailedError, match="No reports were generated"):
        capture(tmp_path, ["math"], "nsys", nsys=silent)


@pytest.mark.nsys
def test_real_nsys_records_both_ranges_of_every_case_across_replaced_workers(tmp_path, nsys):
    folder, captured = capture(tmp_path, ["math", FAULTS + "crash", "flash"], "nsys", nsys=nsys)
    assert statuses(captured) == ["ok", "crashed", "ok"]
    import sqlite3

    database = sqlite3.connect(folder / "nsys.sqlite")
    rows = database.execute(
        """SELECT StringIds.value, eventType FROM NVTX_EVENTS JOIN StringIds ON StringIds.id = textId
           WHERE eventType IN (59, 60) ORDER BY start"""
    ).fetchall()
    database.close()
    assert rows[0][0].startswith("nsysprof "), "the trace starts by naming the tool"
    assert rows[2:] == [(f"RUN::{b}::S32", kind) for b in ("math", "flash") for kind in (60, 59)]


@pytest.mark.slow  # tests/cli/measuring/test_capture.py interrupts a capture, too
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    def interrupt(pass_name, progress):
        if progress.outcomes[0].status == "ok" and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    sent = []
    folder, captured = capture(tmp_path, ["math", FAULTS + "hang"], "torch", on_progress=interrupt)
    assert captured.interrupted
    assert statuses(captured) == ["ok", "not_run"]
    assert ",ok," in (folder / "results.csv").read_text()
    assert not read_manifest(folder).complete
    assert not (folder / ".work").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_the_parent_killed_halfway_leaves_the_finished_cases_readable(tmp_path):
    script = (
        "import tests.capture.test_run as t, pathlib, sys;"
        f"t.capture(pathlib.Path(sys.argv[1]), ['math', '{FAULTS}hang'])"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    results = tmp_path / "capture" / "results.csv"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (results.exists() and ",ok," in results.read_text()):
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert ",ok," in results.read_text()
    assert read_manifest(tmp_path / "capture").cases[0].backend == "math"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _processes_naming(str(tmp_path)):
        time.sleep(0.1)
    assert not _processes_naming(str(tmp_path)), "the measured processes outlive their capture"


def _processes_naming(text):
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line and not line.startswith("Z")]


def traces_of(tmp_path):
    """Return a sound trace and one that lost every kernel."""
    good, bad = TraceBuilder(), TraceBuilder()
    good.launch(100, 1)
    bad.call(100, 110, 1)
    return good.write(tmp_path / "good.sqlite"), bad.write(tmp_path / "bad.sqlite")


def test_a_grid_whose_trace_lost_kernels_is_traced_again_with_less(tmp_path):
    good, bad = traces_of(tmp_path)
    nsys = write_stand_in(tmp_path / "nsys", [("memory-usage=true", bad), ("", good)])
    folder, captured = capture(tmp_path, ["math"], "nsys", nsys, inspect=check_trace)
    assert captured.trace.read_bytes() == good.read_bytes()
    assert [note.code for note in captured.manifest.notes if note.code.endswith("again")] == ["recorded-again"]
    assert [outcome.traced for outcome in captured.progress.outcomes] == ["ok"]
    assert len(recorded_options(tmp_path / "nsys")) == 2
    assert not (folder / ".work").exists()


@pytest.mark.slow
def test_a_grid_that_loses_kernels_each_time_keeps_its_first_trace(tmp_path):
    _good, bad = traces_of(tmp_path)
    nsys = write_stand_in(tmp_path / "nsys", [("memory-usage=true", bad), ("flush-interval=0", None), ("", bad)])
    folder, captured = capture(tmp_path, ["math"], "nsys", nsys, inspect=check_trace)
    assert captured.trace.read_bytes() == bad.read_bytes()
    assert "still-lost" in [note.code for note in captured.manifest.notes]
    assert [outcome.traced for outcome in captured.progress.outcomes] == ["ok"]
    assert (folder / "nsys.nsys-rep").exists()
