"""Real ncu and real sampling on a real GPU: run by hand with `pytest -m gpu`, never in CI."""

import shutil
import subprocess
import threading
import time

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.capture.collect import read_counters  # noqa: E402
from nsysprof.nsight.run_tool import NCU, find_tool  # noqa: E402
from nsysprof.results.kernel_counters import Run  # noqa: E402
from tests.capture.gpu_kernels import COPIED_BYTES  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
    pytest.mark.skipif(find_tool(NCU) is None, reason="no ncu here"),
]
KERNELS = "tests.capture.gpu_kernels:"


def nsysprof(*arguments):
    command = ["python3", "-m", "nsysprof", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


def capture(folder, backends, *more):
    base = ("--backends", backends, "--seq", "256", "--samples", "10", "--sample-seconds", "0.5", "--out", folder)
    return nsysprof("capture", *base, "--profiler", "nsys,ncu", *more)


def by_run(folder, run):
    return [kernel for kernel in read_counters(folder / "counters.csv") if kernel.run is run]


def test_a_copy_moves_what_it_must_by_counter_and_by_sampling(tmp_path):
    done = capture(tmp_path / "c", KERNELS + "copies", "--no-check", "--gpu-metrics")
    assert done.returncode == 0, done.stdout + done.stderr
    row = pd.read_csv(tmp_path / "c" / "results.csv").iloc[0]
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    assert row["counted_kernels"] == 2
    assert abs(row["counted_read_bytes"] - COPIED_BYTES) < 0.02 * COPIED_BYTES
    assert COPIED_BYTES - l2_bytes < row["counted_write_bytes"] < COPIED_BYTES + l2_bytes
    for way in ("read", "write"):
        sampled, error = (row[f"sampled_{way}{part}_bytes"] / row["traced_calls"] for part in ("", "_error"))
        assert abs(sampled - COPIED_BYTES) < error + 0.02 * COPIED_BYTES, (way, sampled, error)
    assert row["limiter"] == "memory-bound", row["why"]


def test_both_replays_and_what_passes_through(tmp_path):
    more = ("--metrics", "smsp__inst_executed.sum", "--section", "SpeedOfLight")
    for replay in ("kernel", "application"):
        done = capture(tmp_path / replay, "flash", "--replay", replay, *more)
        assert done.returncode == 0, done.stdout + done.stderr
    kernel, application = (by_run(tmp_path / replay, Run.DETAIL) for replay in ("kernel", "application"))
    assert [each.symbol for each in kernel] == [each.symbol for each in application]
    for a, b in zip(kernel, application, strict=True):
        assert a.values["tensor_flops"] == b.values["tensor_flops"] > 0
        assert a.more["smsp__inst_executed.sum"] == b.more["smsp__inst_executed.sum"] > 0
        assert a.passes == b.passes > 1
    assert all(each.passes == 1 for each in by_run(tmp_path / "kernel", Run.TRAFFIC))


def test_a_case_of_many_kernels_is_bounded_and_costs_no_other(tmp_path):
    done = capture(tmp_path / "c", f"flash,{KERNELS}many,cudnn", "--no-check", "--count-kernels", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    results = pd.read_csv(tmp_path / "c" / "results.csv").set_index("backend")
    many = KERNELS + "many"
    assert pd.isna(results.loc[many, "counted_l2_bytes"])
    assert results.loc["flash", "counted_l2_bytes"] > 0
    assert results.loc["cudnn", "counted_l2_bytes"] > 0
    assert sum(kernel.range.startswith(f"RUN::{many}") for kernel in by_run(tmp_path / "c", Run.DETAIL)) == 8


def test_a_worker_killed_while_it_is_counted_costs_its_case(tmp_path):
    killed = threading.Event()

    def kill():
        while not killed.is_set():
            log = tmp_path / "c" / "logs" / "ncu-traffic.log"
            if log.exists() and "Profiling" in log.read_text(errors="replace"):
                subprocess.run(["pkill", "-9", "-f", "nsysprof.workload.worker"], check=False)
                killed.set()
            time.sleep(0.02)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    done = capture(tmp_path / "c", "math,flash,cudnn")
    killed.set()
    assert done.returncode == 0, done.stdout + done.stderr
    results = pd.read_csv(tmp_path / "c" / "results.csv").set_index("backend")
    assert results["latency_median_ns"].notna().all()
    assert results["counted_l2_bytes"].notna().sum() >= 2, done.stdout


def test_a_report_of_the_users_own_is_joined(tmp_path):
    assert capture(tmp_path / "c", "flash").returncode == 0
    report = tmp_path / "mine.ncu-rep"
    shutil.move(tmp_path / "c" / "ncu.ncu-rep", report)
    (tmp_path / "c" / "counters.csv").unlink()
    done = nsysprof("analyze", tmp_path / "c", "--counters", report, "--out", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    kernels = pd.read_csv(tmp_path / "a" / "kernels.csv")
    assert kernels["l2_bytes"].notna().any()
    report.write_bytes(report.read_bytes()[: report.stat().st_size // 2])
    done = nsysprof("analyze", tmp_path / "c", "--counters", report, "--out", tmp_path / "b")
    assert done.returncode == 7
    assert "from another version of ncu" in done.stderr
