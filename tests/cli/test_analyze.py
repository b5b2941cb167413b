"""`nsysprof analyze` as a user runs it: real processes, exit codes, one clear line for each bad input."""

import csv
import gzip
import hashlib
import json
import lzma
import os
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest

from nsysprof.files.plain_file import name_after
from tests.builders.build_trace import TraceBuilder
from tests.builders.record_with_nsys import record_nvtx
from tests.builders.run_command import fails, run
from tests.conftest import REPOSITORY
from tests.trace.parquet_writer import write_parquet_folder

TRACES = REPOSITORY / "traces"


def test_a_real_trace_end_to_end(trace_path, tmp_path):
    path = trace_path("sdpa")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    done = run("analyze", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "analysis" / "sdpa"
    assert "RUN::math::S4096" in done.stdout
    assert "1,086 kernels: 700 inside ranges, 386 launched outside every range" in done.stdout
    assert (out / "timeline.png").stat().st_size > 20_000
    assert json.loads((out / "summary.json").read_text())["totals"]["kernel_count"] == 1086
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    again = run("analyze", path, cwd=tmp_path)
    fails(again, 4, "already holds an analysis", "--force")
    assert run("analyze", path, "--force", "--no-figures", cwd=tmp_path).returncode == 0


def test_json_on_stdout_and_nothing_else(trace_path, tmp_path):
    done = run("analyze", trace_path("mem"), "--json", "--no-figures", "--out", tmp_path / "o")
    summary = json.loads(done.stdout)
    assert summary["totals"]["kernel_count"] == 6
    assert summary["folder"] == str(tmp_path / "o")
    assert done.stderr == ""


def test_a_profiler_that_lost_kernels_is_said_on_the_terminal(trace_path, tmp_path):
    done = run("analyze", trace_path("sdpa22"), "--no-figures", "--out", tmp_path / "o")
    assert done.stdout.startswith("This trace lost every kernel.")
    assert "error: The trace has 12 measured ranges but not one kernel" in done.stdout
    assert "newer nsys" in done.stdout
    assert "Coverage: an unknown number of kernels and of launches." in done.stdout
    assert "Findings are unknown, because the profiler recorded no work of the GPU." in done.stdout
    assert done.returncode == 12
    assert "lost every kernel" in done.stderr
    assert run("analyze", trace_path("sdpa22"), "--json", "--no-figures", "--out", tmp_path / "p").returncode == 12


@pytest.mark.parametrize(
    ("name", "content", "code", "word"),
    [
        ("x.sqlite", b"", 8, "empty"),
        ("x.sqlite", b"version https://git-lfs.github.com/spec/v1\n", 10, "git lfs pull"),
        ("x.sqlite", b"hello", 10, "not a SQLite file"),
        ("x.sqlite", b"SQLite format 3\0" + b"\x10\0" * 100, 9, "truncated"),
        ("x.sqlite.xz", lzma.compress(b"x" * 9999)[:40], 9, "damaged or truncated"),
        ("x.sqlite.gz", gzip.compress(b"hello", mtime=0), 10, "not a SQLite file"),
        ("x.sqlite.zst", b"junk", 9, "damaged or truncated"),
        ("x.json", b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"', 9, "damaged or truncated"),
        ("x.json", b'{"songs": []}', 10, "not a trace of torch.profiler"),
        ("x.json.gz", gzip.compress(b"", mtime=0), 8, "empty"),
        ("x.json.gz", b"junk", 9, "damaged or truncated"),
    ],
)
def test_bad_files(tmp_path, name, content, code, word):
    path = tmp_path / name
    path.write_bytes(content)
    fails(run("analyze", path, "--out", tmp_path / "o"), code, word)
    assert path.read_bytes() == content
    assert not (tmp_path / "o").exists()


def test_other_bad_inputs(tmp_path):
    fails(run("analyze", tmp_path / "nothing.sqlite"), 7, "does not exist")
    (tmp_path / "folder").mkdir()
    fails(run("analyze", tmp_path / "folder"), 7, "contains no trace")
    with sqlite3.connect(tmp_path / "foreign.sqlite") as database:
        database.execute("CREATE TABLE songs (title TEXT)")
    database.close()
    fails(run("analyze", tmp_path / "foreign.sqlite"), 10, "not an nsys export")
    (tmp_path / "r.nsys-rep").write_bytes(b"x")
    fails(run("analyze", tmp_path / "r.nsys-rep", "--nsys", tmp_path / "no"), 5, "--nsys names")


def test_torch_profilers_json_and_a_folder_of_parquet(tmp_path, trace_path):
    json_gz = TRACES / "inputs.json.gz"
    folder = write_parquet_folder(trace_path("inputs"), tmp_path / "inputs")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for source, kernels in ((json_gz, 92), (folder, 93)):
        done = run("analyze", source, "--no-figures", "--out", tmp_path / f"{kernels}", "--json")
        summary = json.loads(done.stdout)
        assert summary["totals"]["kernel_count"] == kernels
        assert summary["trace"]["path_name"] == source.name
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert name_after(json_gz) == "inputs"


def test_the_sha256_is_that_of_the_users_file(tmp_path, trace_path):
    for source in (trace_path("inputs"), TRACES / "inputs.json.gz"):
        done = run("analyze", source, "--no-figures", "--out", tmp_path / "o", "--force", "--json")
        told = json.loads(done.stdout)["trace"]
        content = source.read_bytes()
        assert (told["sha256"], told["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))


def test_folders_of_other_things_are_left_alone(tmp_path, trace_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "thesis.tex").write_text("years")
    done = run("analyze", trace_path("mem"), "--out", tmp_path / "o", "--force")
    fails(done, 4, "did not write it as an analysis")
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["thesis.tex"]


def test_without_kernels_and_without_nvtx_it_says_so_and_goes_on(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 10, "step")
    done = run("analyze", builder.write(tmp_path / "ranges.sqlite"), "--out", tmp_path / "a")
    assert done.returncode == 0
    assert "has no GPU" in done.stdout
    builder = TraceBuilder()
    builder.launch(0, 1)
    done = run("analyze", builder.write(tmp_path / "kernels.sqlite"), "--out", tmp_path / "b")
    assert done.returncode == 0
    assert "no NVTX ranges" in done.stdout


def test_reading_needs_no_torch(tmp_path, trace_path):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'nvtx', 'pynvml']))\n"
        f"sys.argv = ['nsysprof', 'analyze', {str(trace_path('mem'))!r}, '--out', {str(tmp_path / 'o')!r}]\n"
        "from nsysprof.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.nsys
def test_a_report_is_exported_through_nsys(tmp_path, nsys):
    script = "from nsysprof.workload.recording.nvtx_ranges import annotate\nwith annotate('RUN::math::S8'): pass\n"
    report, _ = record_nvtx(nsys, tmp_path, [sys.executable, "-c", script])
    before = report.read_bytes()
    done = run("analyze", report, "--nsys", nsys, "--out", tmp_path / "o", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trace"]["path_name"] == report.name
    assert "RUN::math::S8" in (tmp_path / "o" / "ranges.csv").read_text()
    assert report.read_bytes() == before


def test_counters_of_a_capture_and_of_a_report_of_ones_own(tmp_path):
    source = REPOSITORY / "traces" / "h200-roofline"
    done = run("analyze", source, "--out", tmp_path / "a", "--no-figures")
    assert done.returncode == 0, done.stderr
    kernels = pd.read_csv(tmp_path / "a" / "kernels.csv")
    assert kernels["dram_read_bytes"].notna().all()
    results = pd.read_csv(tmp_path / "a" / "results.csv")
    committed = pd.read_csv(REPOSITORY / "analysis" / "h200-roofline" / "results.csv")
    pd.testing.assert_frame_equal(results, committed)
    report = REPOSITORY / "tests" / "golden" / "ncu_raw_base.csv"
    done = run("analyze", source, "--counters", report, "--out", tmp_path / "b", "--no-figures", "--json")
    assert done.returncode == 0, done.stderr
    codes = {note["code"] for note in json.loads(done.stdout)["notes"]}
    assert {"counters-cache-unknown", "counted-other-kernels"} <= codes, "it holds a part of the kernels"
    named = tmp_path / "named.csv"
    named.write_text(report.read_text().replace("RUN::", "MINE::"))
    fails(run("analyze", source, "--counters", named, "--out", tmp_path / "c"), 7, "None of the 11 kernels")


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("r.csv", "a,b\n1,2\n", 7, "not a table of Nsight Compute"),
        ("r.ncu-rep", "NVR", 5, "can only be read by ncu"),
        ("gone.csv", None, 7, "cannot be read"),
    ],
)
def test_a_report_of_ncu_that_is_none(tmp_path, name, text, code, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    env = {**os.environ, "PATH": "/usr/bin:/bin", "CUDA_HOME": "/none"}
    command = [sys.executable, "-m", "nsysprof", "analyze", str(REPOSITORY / "traces" / "h200-sdpa")]
    command += ["--counters", str(tmp_path / name), "--out", str(tmp_path / "a"), "--no-figures"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_launched_kernels_alone_are_nvidias_numbers(trace_path, tmp_path):
    rows = {}
    for kinds in ("all", "launched"):
        out = tmp_path / kinds
        run("analyze", trace_path("ddp_rank0"), "--out", out, "--no-figures", "--attribution", kinds)
        with (out / "ranges.csv").open(encoding="utf-8") as stream:
            rows[kinds] = {row["range"]: row for row in csv.DictReader(stream)}
    both = [rows[kinds]["backward"] for kinds in ("all", "launched")]
    assert [row["kernel_count"] for row in both] == ["20", "20"]
    assert [row["adopted_kernel_count"] for row in both] == ["1714", ""]


def test_one_range_alone(trace_path, tmp_path):
    trace = trace_path("ddp_rank0")
    done = run("analyze", trace, "--range", "backward", "--no-figures", "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    assert "This is the range backward alone: 20 instances, 164 ms in all." in done.stdout
    assert "1,734 kernels: 1,734 inside ranges" in done.stdout
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["part"] == {
        "range": "backward",
        "step": None,
        "instances": 20,
        "wall_ns": 163538947,
        "usual_ns": None,
    }
    assert set(pd.read_csv(tmp_path / "o" / "range_tree.csv")["range"]) == {"backward"}
    assert pd.read_csv(tmp_path / "o" / "kernels.csv")["instances"].sum() == 1734


def test_an_unknown_range_is_one_clear_line(trace_path, tmp_path):
    done = run("analyze", trace_path("ddp_rank0"), "--range", "bakward", "--out", tmp_path / "o")
    fails(done, 2, "has no range 'bakward'", "Nearest: backward")
    assert not (tmp_path / "o").exists()


def test_a_range_needs_one_trace(trace_path, tmp_path):
    both = trace_path("ddp_rank0"), trace_path("ddp_rank1")
    fails(run("analyze", *both, "--range", "backward", "--out", tmp_path / "o"), 2, "--range", "single trace")
    snapshot = tmp_path / "snapshot.pickle"
    snapshot.write_bytes(b"")
    fails(run("analyze", snapshot, "--range", "backward"), 2, "--range and --step need a trace")


def test_one_step_alone(trace_path, tmp_path):
    done = run("analyze", trace_path("ddp_rank0"), "--step", "7", "--no-figures", "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    assert "This is step 7 alone: 8.22 ms." in done.stdout
    steps = pd.read_csv(tmp_path / "o" / "steps.csv")
    assert steps["step"].tolist() == [7]
    assert json.loads((tmp_path / "o" / "summary.json").read_text())["part"]["wall_ns"] == steps["wall_ns"][0]
    fails(run("analyze", trace_path("ddp_rank0"), "--step", "70", "--out", tmp_path / "p"), 2, "no step 70", "0 to 1")
    both = run("analyze", trace_path("ddp_rank0"), "--step", "7", "--range", "forward", "--out", tmp_path / "p")
    assert "This is the range forward in step 7 alone: 1 instance, 2.70 ms in all." in both.stdout
