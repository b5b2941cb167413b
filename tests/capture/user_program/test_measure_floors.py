"""Counters of a program's kernels and ceilings of its GPU: real ncu output of an H200, joined with its real trace.

No ncu runs here: a stand-in answers with the committed table of the real one, for those kernels that it is asked for.
"""

import json
import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.capture.collect import read_counters
from nsysprof.capture.manifest import program_manifest, write_manifest
from nsysprof.capture.user_program.measure_floors import count_program, measure_ceilings
from nsysprof.results.checks import MissingSource
from nsysprof.results.kernel_counters import CountedLaunches
from nsysprof.trace.table_readers.native_stacks import read_launches

# What a machine might have measured.
CEILINGS = {"bytes_per_s": 4.2e12, "flops": {"fp32": 50e12, "bf16": 700e12}, "gpu_name": "NVIDIA H200"}
GOLDEN = Path(__file__).parents[2] / "golden"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")

NCU = """\
#!{python}
import csv, json, os, re, subprocess, sys, time
arguments = sys.argv[1:]
asked = json.loads(os.environ.get("FAKE_NCU", "{{}}"))
def after(option):
    return arguments[arguments.index(option) + 1] if option in arguments else None
if "--help" in arguments:
    print("--import-source --import-sass")
elif after("--import"):
    print(open(after("--import")).read())
else:
    with open({calls!r}, "a") as log:
        log.write(json.dumps(arguments) + chr(10))
    code = subprocess.call(arguments[arguments.index("--export") + 2:])
    print(asked.get("says", ""), flush=True)
    time.sleep(asked.get("seconds", 0))
    if asked.get("says", "").startswith("==ERROR=="):
        sys.exit(1)
    wanted = re.compile(after("--kernel-name").removeprefix("regex:"))
    rows = list(csv.reader(open({table!r})))
    name = rows[0].index("Kernel Name")
    cannot = re.compile(asked.get("cannot", "$^"))
    kept = rows[:2]
    for row in rows[2:]:
        if wanted.search(row[name]) and cannot.search(row[name]):
            print('==PROF== Profiling "' + row[name] + '" - 3: 0%....50%')
            print("==ERROR== LaunchFailed")
            break
        if wanted.search(row[name]):
            kept.append(row)
    with open(after("--export"), "w") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(kept)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, trace_path):
    """Return a capture folder whose trace has only the launches that the committed table of ncu has, and others of one.

    The grids of the softmax's elementwise neighbours were never counted.
    """
    folder = tmp_path_factory.mktemp("c")
    shutil.copy(trace_path("sdpa"), folder / "nsys.sqlite")
    with closing(sqlite3.connect(folder / "nsys.sqlite")) as connection:
        connection.execute(
            "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE NOT (gridX = 32 AND gridY = 32 AND blockX = 128)"
            " AND gridX NOT IN (32768, 524288)"
        )
        connection.commit()
    return folder


@pytest.fixture
def count(folder, tmp_path, monkeypatch):
    ncu, calls = tmp_path / "ncu", tmp_path / "calls"
    table = GOLDEN / "ncu_raw_base.csv"
    ncu.write_text(NCU.format(python=sys.executable, calls=os.fspath(calls), table=os.fspath(table)))
    ncu.chmod(0o755)

    def call(budget_s=60, **asked):
        monkeypatch.setenv("FAKE_NCU", json.dumps(asked))
        manifest = program_manifest(("true",), {"ceilings": CEILINGS} if asked.get("measured") else {})
        (folder / "counters.csv").unlink(missing_ok=True)
        launches = [CountedLaunches(*launched) for launched in read_launches(folder / "nsys.sqlite")]
        count_program(manifest, folder, ncu, ["true"], launches, budget_s)
        write_manifest(folder, manifest)
        return manifest, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    return call


def reasons(manifest):
    """Return why kernels have no counters, and how many, as notes say it."""
    found = [re.match(r"(\d+) kernels .* have no counters: (.*)\. The one", note.text) for note in manifest.notes]
    return {match[2]: int(match[1]) for match in found}


def test_a_counted_launch_gives_kernels_counters_and_work_a_floor(count, folder):
    manifest, calls = count(measured=True)
    # ncu is asked for each kernel and grid once, with caches and clocks as documented.
    of_grid = ("--filter-mode", "per-launch-config", "--launch-count", "1")
    assert tuple(calls[0][calls[0].index("--filter-mode") :][:4]) == of_grid
    assert calls[0][calls[0].index("--clock-control") + 1] == "none"
    assert list(reasons(manifest)) == ["ncu did not see them launched again"]
    assert not list((folder / "logs").glob("*.ncu-rep")), "a report holds the environment"
    analysis = assemble(folder, folder / "nsys.sqlite").analysis
    kernels = analysis.kernels.set_index(analysis.kernels["short_name"].str.slice(0, 12))
    # By ncu: 17.4 GFLOP without tensor cores; and 1.05 GB of DRAM for the softmax.
    assert kernels.loc["sm80_xmma_ge", "flops"] == pytest.approx(17.45e9, rel=1e-3)
    assert kernels.loc["cunn_SoftMax", "dram_read_bytes"] == pytest.approx(536.9e6, rel=1e-3)
    assert kernels.loc["cunn_SoftMax", "occupancy_pct"] == pytest.approx(94.26)
    assert kernels.loc["elementwise_", "counted_instances"].isna().all()
    work = analysis.work[analysis.work["range"].isna()].set_index("category")
    assert work.loc["gemm", "flops"] == pytest.approx(15 * 17.45e9, rel=1e-3)
    assert work.loc["gemm", "floor_ns"] == pytest.approx(15 * 17.45e9 / 50e12 * 1e9, rel=1e-3)
    assert work.loc["softmax", "floor_ns"] == pytest.approx(15 * 1053.3e6 / 4.2e12 * 1e9, rel=1e-3)
    assert (work["floor_ns"] <= work["kernel_total_ns"]).loc[["gemm", "softmax"]].all()
    assert work.loc["elementwise", ["flops", "floor_ns"]].isna().all()
    assert analysis.floor_source == "measured on this machine"


def test_a_floor_is_at_most_the_time_of_the_kernels(count, folder):
    # Counted from cold caches, a kernel may need more bytes than memory could give in its time in the trace.
    manifest, _ = count(measured=True)
    manifest.environment["ceilings"] = {**CEILINGS, "bytes_per_s": 1e11}
    write_manifest(folder, manifest)
    work = assemble(folder, folder / "nsys.sqlite").analysis.work
    softmax = work[work["range"].isna() & (work["category"] == "softmax")].iloc[0]
    assert softmax["floor_ns"] == softmax["kernel_total_ns"] < 15 * 1053.3e6 / 1e11 * 1e9


def test_without_permission_nothing_is_counted_and_the_capture_is_whole(count, folder):
    manifest, calls = count(says="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters")
    (why,) = reasons(manifest)
    assert "does not permit" in why
    assert manifest.missing == [MissingSource.COUNTERS]
    assert len(calls) == 1
    assert not (folder / "counters.csv").exists()


def test_a_kernel_that_cannot_be_replayed_leaves_the_others(count, folder):
    manifest, calls = count(cannot="cunn_SoftMax")
    assert reasons(manifest)["ncu could not replay them"] == 1
    assert "cunn_SoftMax" in calls[0][calls[0].index("--kernel-name") + 1]
    assert "cunn_SoftMax" not in calls[1][calls[1].index("--kernel-name") + 1]
    assert {kernel.kernel[:10] for kernel in read_counters(folder / "counters.csv")} == {"sm80_xmma_"}


def test_a_budget_that_ends_is_the_reason(count):
    manifest, calls = count(budget_s=1, seconds=60)
    assert list(reasons(manifest)) == ["the time for counting was over (--counters-budget)"]
    assert len(calls) <= 1


def test_a_machine_without_a_gpu_has_no_ceilings_and_says_so():
    manifest = program_manifest(("true",))
    measure_ceilings(manifest)
    assert [note.code for note in manifest.notes] == ["ceilings-unknown"]
    assert "ceilings" not in manifest.environment
