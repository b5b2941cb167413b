"""`nsysprof tune` as a user runs it."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.builders import run_command
from tests.builders.published_schema import as_published
from tests.builders.run_command import fails

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

SMALL = ["--seq", "16,32", "--heads", "2", "--head-dim", "16", "--device", "cpu", "--warmup-seconds", "0.02"]
QUICK = [*SMALL, "--block-samples", "3", "--blocks", "4", "--no-flush"]


def run(*arguments, cwd=None):
    arguments = [argument if argument != "--no-flush" else "--warm-l2" for argument in arguments]
    return run_command.run("tune", *arguments, cwd=cwd)


def test_a_small_tuning_from_end_to_end_and_its_policy_works(tmp_path):
    import torch.nn.functional as F

    import nsysprof

    done = run(*QUICK, "--seed", "5", "--gpu-hour-price", "2.5", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert as_published("tune", done.stdout)["complete"]
    (folder,) = (tmp_path / "traces").glob("tune-*")
    report = (folder / "report.md").read_text()
    for words in ("Best backend by shape", "What follows", "Cost at 2.5", "winners.png", "seed 5"):
        assert words in report
    data = json.loads((folder / "results.json").read_text())
    assert data["complete"]
    assert [row["seq"] for row in data["winners"]] == [16, 32]
    assert all(row["verdict"] in ("winner", "tie", "inconclusive") for row in data["winners"])
    best_two = [row for row in data["cases"] if row["rank"] in (1, 2)]
    assert all(row["blocks"] >= 4 for row in best_two)
    policy_file = folder / "policy.json"
    is_undecided = all(row["verdict"] != "winner" for row in data["winners"]) and "undecided" in report
    assert policy_file.exists() == ("nsysprof.policy(" in report)
    assert policy_file.exists() or is_undecided, "a policy is left out only where nothing is decided"
    if not policy_file.exists():
        return
    q = torch.randn(1, 2, 16, 16)
    with nsysprof.policy(policy_file) as policy:
        F.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert (policy.calls, policy.left) == (1, 0)


@pytest.mark.slow
def test_a_tuning_ends_by_its_budget_and_is_resumed(tmp_path):
    out = ["--out", tmp_path / "o", "--seed", "5"]
    first = run(*SMALL, "--blocks", "500", "--block-samples", "2", "--warm-l2", "--budget", "30", *out)
    assert first.returncode == 0, first.stderr
    assert "--resume continues it" in first.stdout
    before = json.loads((tmp_path / "o/samples.json").read_text())
    assert not before["complete"]
    again = run(*QUICK, *out, "--resume", "--json")
    assert again.returncode == 0, again.stderr
    assert as_published("tune", again.stdout)["complete"]
    after = json.loads((tmp_path / "o/samples.json").read_text())
    assert after["blocks"][: len(before["blocks"])] == before["blocks"]
    assert after["complete"]


@pytest.mark.slow
def test_what_cannot_be_resumed(tmp_path):
    fails(run(*QUICK, "--resume"), 2, "--resume needs the folder")
    fails(run(*QUICK, "--resume", "--out", tmp_path / "none"), 7, "cannot be read: No such file")
    assert run(*QUICK, "--out", tmp_path / "o", "--backends", "math,auto").returncode == 0
    fails(run(*QUICK, "--out", tmp_path / "o"), 4, "already holds")
    fails(run(*QUICK, "--resume", "--out", tmp_path / "o", "--backends", "flash"), 2, "of other cases")
    samples = tmp_path / "o/samples.json"
    data = json.loads(samples.read_text())
    data["environment"]["comparable_hash"] = "another"
    searched = [block for block in data["blocks"] if block["process"] < (data["again_from"] or math.inf)]
    for block in searched:  # a clear winner, which is then measured again, however noisy this machine is
        least_ns = 1_000_000 if block["cell"] == 0 else 9_000_000
        block["values_ns"] = [least_ns + 1000 * number for number in range(len(block["values_ns"]))]
    for kept in ({"blocks": data["blocks"][:1], "again_from": None}, {"blocks": searched, "again_from": 100}):
        samples.write_text(json.dumps({**data, **kept}))
        done = run(*QUICK, "--resume", "--out", tmp_path / "o", "--backends", "math,auto")
        fails(done, 4, "started on a different machine")


def test_one_dimension_at_a_time(tmp_path):
    sizes = ["--seq", "16,32,64", "--batch", "1,2", "--heads", "2,4"]
    done = run(*sizes, "--device", "cpu", "--search", "axes", "--backends", "math", "--dry-run", cwd=tmp_path)
    cells = [line.strip() for line in done.stdout.splitlines()[1:]]
    expected = ["math::S16::B=1::H=2", "math::S32::B=1::H=2", "math::S64::B=1::H=2", "math::S16::B=1::H=4"]
    assert cells == [*expected, "math::S16::B=2::H=2"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--budget", "0"], "'--budget'"),
        (["--blocks", "3"], "'--blocks'"),
        (["--search", "random"], "'random' is not one of"),
        (["--gpu-hour-price", "-1"], "'--gpu-hour-price'"),
        (["--backends", "quick"], "Unknown backend"),
    ],
)
def test_bad_options(tmp_path, arguments, says):
    fails(run(*arguments, "--out", tmp_path / "o"), 2, says)
    assert not (tmp_path / "o").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.slow
def test_ctrl_c_in_mid_search_keeps_what_it_has(tmp_path):
    command = [sys.executable, "-m", "nsysprof", "tune", *SMALL, "--blocks", "5000", "--out", str(tmp_path / "o")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    end = time.monotonic() + 90
    while time.monotonic() < end and not has_blocks(tmp_path / "o/samples.json"):
        time.sleep(0.2)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert "--resume --out" in said
    assert "Traceback" not in said
    assert (tmp_path / "o/winners.csv").exists()


def has_blocks(path):
    return path.exists() and len(json.loads(path.read_text())["blocks"]) > 3
