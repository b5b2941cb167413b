"""`nsysprof bench` as a user runs it."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.builders import run_command
from tests.builders.published_schema import as_published
from tests.builders.run_command import fails

pytest.importorskip("torch", reason="needs the extra [torch]")

SMALL = ["--seq", "32,64", "--heads", "2", "--head-dim", "16", "--device", "cpu", "--warmup-seconds", "0.05"]
QUICK = [*SMALL, "--processes", "1", "--rounds", "4", "--block-samples", "3"]


def run(*arguments, cwd=None):
    return run_command.run("bench", *arguments, cwd=cwd)


def test_a_small_bench_from_end_to_end(tmp_path):
    done = run(*QUICK, "--backends", "math,naive", "--seed", "7", "--db", tmp_path / "all.db", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seed 7" in done.stderr
    (folder,) = (tmp_path / "traces").glob("bench-*")
    names = {path.name for path in folder.iterdir()}
    pictures = {"latency.png", "throughput.png", "scaling.png"}
    assert (
        names
        == {"samples.json", "results.csv", "report.md", "report.html", "report.json", "folder.json", "logs"} | pictures
    )
    with (folder / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["case"] for row in rows] == ["math::S32", "math::S64", "naive::S32", "naive::S64"]
    assert all(int(row["samples"]) == 12 and float(row["median_ns"]) > 0 for row in rows)
    report = (folder / "report.md").read_text()
    for words in (
        "## Latency",
        "What must be beaten",
        "Template for an ablation",
        "seed 7",
        "The smallest difference that could be told is unknown",
        "--db all.db",
    ):
        assert words in report
    assert str(tmp_path) not in report
    with sqlite3.connect(tmp_path / "all.db") as database:
        assert database.execute("SELECT count(*) FROM results").fetchone() == (4,)
        assert database.execute("SELECT seed, complete FROM runs").fetchone() == (7, 1)


@pytest.mark.slow
def test_the_database_grows_and_takes_new_columns(tmp_path):
    db = tmp_path / "all.db"
    one = ["--seq", "32", "--backends", "naive", "--db", db, "--no-figures"]
    assert run(*QUICK, *one, "--out", tmp_path / "a").returncode == 0
    with sqlite3.connect(db) as database:
        database.execute("ALTER TABLE results DROP COLUMN drift_p")
    assert run(*QUICK, *one, "--out", tmp_path / "b").returncode == 0
    with sqlite3.connect(db) as database:
        assert database.execute("SELECT count(*), count(DISTINCT run) FROM results").fetchone() == (2, 2)


def test_databases_that_are_not_ours(tmp_path):
    with sqlite3.connect(tmp_path / "songs.db") as database:
        database.execute("CREATE TABLE songs (title)")
    fails(run(*QUICK, "--db", tmp_path / "songs.db", "--out", tmp_path / "o"), 4, "a database of another program")
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.execute("PRAGMA user_version = 99")
    fails(run(*QUICK, "--db", tmp_path / "new.db", "--out", tmp_path / "o"), 4, "newer nsysprof")
    (tmp_path / "text.db").write_text("no database at all, but long enough to be one" * 9)
    fails(run(*QUICK, "--db", tmp_path / "text.db", "--out", tmp_path / "o"), 4, "cannot be used as a database")
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_json(tmp_path):
    done = run(*QUICK, "--backends", "naive", "--json", "--no-figures", "--out", tmp_path / "o")
    data = as_published("bench", done.stdout)
    assert [row["case"] for row in data["cases"]] == ["naive::S32", "naive::S64"]
    assert data["cases"][0]["graph_median_ns"] is None
    assert data["folder"] == str(tmp_path / "o")


@pytest.mark.slow
def test_self_check(tmp_path):
    arguments = [*SMALL, "--backends", "naive", "--self-check", "--copies", "4", "--rounds", "2", "--processes", "2"]
    done = run(*arguments, "--block-samples", "3", "--json", "--no-figures", "--out", tmp_path / "o")
    found = as_published("bench", done.stdout)["self_check"]
    assert found["pairs"] == 4
    assert found["floor_pct"] > 0
    assert "Self-check" in (tmp_path / "o/report.md").read_text()


@pytest.mark.slow
def test_queries_and_keys_of_different_length(tmp_path):
    lengths = ["--seq", "1", "--kv-seq", "32,64", "--backends", "math,flash,naive", "--causal", "both"]
    done = run(*QUICK, *lengths, "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "o/results.csv").open() as stream:
        rows = {row["case"]: row for row in csv.DictReader(stream)}
    assert all(row["status"] == "ok" and float(row["largest_error"]) < 1e-5 for row in rows.values())
    decode = rows["flash::S1::causal=0::K=64"]
    assert (decode["seq"], decode["kv_seq"]) == ("1", "64")
    assert int(decode["least_bytes"]) == 4 * 2 * 16 * (2 * 64 + 2)
    report = (tmp_path / "o/report.md").read_text()
    assert "Lengths of k and v" in report
    assert "so 1 of 64 keys are seen at S=1" in report
    assert "1 of 64" not in run(*QUICK, *lengths[:-1], "no", "--out", tmp_path / "full").stdout


@pytest.mark.slow
def test_windows_and_masks(tmp_path):
    grid = ["--seq", "8", "--kv-seq", "32", "--backends", "math,naive,flex,xformers"]
    done = run(*QUICK, *grid, "--window", "4,0", "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "o/results.csv").open() as stream:
        rows = {row["backend"]: row for row in csv.DictReader(stream)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "math": "ok", "naive": "ok", "flex": "ok", "xformers": "ineligible"
    }  # fmt: skip
    assert rows["xformers"]["reason"].startswith("xformers does not take --window; math, ")
    assert (rows["flex"]["mask"], rows["flex"]["causal"]) == ("window:4:0", "False")
    assert float(rows["flex"]["flops"]) == 4 * 2 * 16 * 8 * 5
    assert int(rows["flex"]["least_bytes"]) == 4 * 2 * 16 * (2 * 8 + 2 * 12)
    masks = run(*QUICK, *grid[:-1], "math,naive", "--mask", "none,bool:111k,float", "--out", tmp_path / "m")
    assert masks.returncode == 0, masks.stderr
    with (tmp_path / "m/results.csv").open() as stream:
        named = {(row["case"], row["status"]) for row in csv.DictReader(stream)}
    assert ("naive::S8::causal=0::K=32::mask=bool:111k", "ok") in named
    assert ("math::S8::causal=1::K=32::mask=none", "ok") in named
    assert len(named) == 6


@pytest.mark.slow
def test_batches_of_serving(tmp_path):
    backends = ["--backends", "math,flash", "--batch-spec", "2q8_4q1s32,q8s32"]
    done = run(*QUICK[2:], *backends, "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "o/results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["status"] for row in rows} == {"ok"}
    assert [(row["batch"], row["seq"], row["kv_seq"], row["mask"]) for row in rows[:3]] == [
        ("2", "8", "8", "none"), ("4", "1", "32", "none"), ("1", "8", "32", "window:all:0")
    ]  # fmt: skip
    assert "math::S1::B=4::causal=0::K=32::mask=none" in {row["case"] for row in rows}


def test_a_plan_is_printed_and_nothing_is_run(tmp_path):
    done = run(*QUICK, "--backends", "math,flash", "--dry-run", "--seed", "3", cwd=tmp_path)
    assert "4 cells on cpu, each 4 times 3 samples in 1 processes, seed 3" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--backends", "quick"], 2, "Unknown backend 'quick'"),
        (["--seq", "many"], 2, "not an integer"),
        (["--kv-seq", "0"], 2, "--kv-seq 0 is not a valid size"),
        (["--batch-spec", "8s1k"], 2, "Did you mean 8q1s1k?"),
        (["--batch-spec", "8q1s1k", "--seq", "4"], 2, "--batch-spec and --seq exclude each other"),
        (["--window", "256"], 2, "Did you mean --window 256,0?"),
        (["--window", "8,0", "--mask", "bool"], 2, "--window and --mask bool exclude each other"),
        (["--window", "8,0", "--causal", "yes"], 2, "--causal and --window exclude each other"),
        (["--mask", "bool", "--causal", "both"], 2, "--causal and --mask exclude each other"),
        (["--mask", "boool"], 2, "Did you mean 'bool'?"),
        (["--causal", "perhaps"], 2, "not one of"),
        (["--rounds", "0"], 2, "'--rounds'"),
        (["--graph", "often"], 2, "'often' is not one of"),
        (["--device", "tpu"], 2, "'tpu' is not one of"),
        (["--device", "cuda"], 5, "no NVIDIA GPU"),
        (["--device", "cpu", "--sustained"], 2, "clock of a CPU"),
        (["--device", "cpu", "--lock-clocks", "1500"], 2, "clock of a CPU"),
    ],
)
def test_bad_options(tmp_path, arguments, code, says):
    if arguments == ["--device", "cuda"]:
        from nsysprof.environment import collect_gpus

        if collect_gpus():
            pytest.skip("there is a GPU here")
    done = run(*arguments, "--out", tmp_path / "o")
    fails(done, code, says)
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_nothing_could_be_measured(tmp_path):
    done = run(*QUICK, "--backends", "nowhere:f", "--out", tmp_path / "o", "--no-figures")
    fails(done, 11, "None of 2 cases could be measured", "No module named 'nowhere'")
    assert "nowhere:f" in (tmp_path / "o/report.md").read_text()


def has_blocks(path):
    return path.exists() and any(block["status"] == "ok" for block in json.loads(path.read_text())["blocks"])


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_keeps_the_blocks_and_writes_the_report(tmp_path):
    command = [sys.executable, "-m", "nsysprof", "bench", *SMALL, "--backends", "naive", "--rounds", "5000"]
    child = subprocess.Popen([*command, "--out", str(tmp_path / "o")], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 90
    while time.monotonic() < end and not has_blocks(tmp_path / "o/samples.json"):
        time.sleep(0.2)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert "blocks are kept in" in said
    assert "Traceback" not in said
    assert "naive::S32" in (tmp_path / "o/report.md").read_text()
