"""Two sides measured in turn: what describes a side, and real processes on the CPU with a planted difference."""

import json
import sys
from dataclasses import replace

import pytest

from nsysprof import __version__
from nsysprof.app.compare import compare
from nsysprof.app.inputs.attention_requests import BenchRequest, SidesRequest, parse_side
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.inputs.reading_requests import CompareRequest
from nsysprof.app.measuring.bench_program import _is_decided, _keep_level, bench_sides
from nsysprof.attention.shape import Case
from nsysprof.capture.measured_process import Setting
from nsysprof.capture.sampling.bench import MOST_TURNS
from nsysprof.capture.sampling.bench_run import BenchPlan, new_run
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import encode_json
from nsysprof.report.pages.compare import comparison_json, latency_table
from nsysprof.results.samples import Block
from tests.builders.published_schema import as_published

KERNELS = """
import os, time
import torch.nn.functional as F

def attention(q, k, v, is_causal):
    time.sleep(float(os.environ.get("PLANTED_SLEEP", "0.002")))
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
"""


def test_a_side_is_written_as_after_env():
    assert parse_side("") == Setting()
    assert parse_side("A=1 B='x y' C=") == Setting(sys.executable, (("A", "1"), ("B", "x y"), ("C", "")))
    assert parse_side(f"A=1 {sys.executable}") == Setting(sys.executable, (("A", "1"),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A=1 'B", "not a valid side"),
        ("no-such-python-here", "not a program"),
        ("true false", "at most one Python"),
        ("true", "has nsysprof"),
        ("false", "lacks nsysprof or torch"),
    ],
)
def test_what_is_no_side_is_refused_before_anything_is_measured(text, says):
    with pytest.raises(UsageError) as refused:
        parse_side(text)
    assert says in f"{refused.value.text} {refused.value.next_step}"
    assert text != "false" or __version__ in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"candidate": Setting()}, "Both sides are the same"),
        ({"bench": BenchRequest(self_check=True)}, "a single side"),
        ({"bench": BenchRequest(processes=1)}, "One turn"),
        ({"fail_on": "slower"}, "not a valid rule"),
        ({"fail_on": "step:3%"}, "needs a trace"),
        ({"margin_pct": -1.0}, "not a valid percentage"),
    ],
)
def test_requests_without_sense_are_refused(fields, says):
    request = SidesRequest(**{"bench": BenchRequest(), "baseline": Setting(), "candidate": Setting("other"), **fields})
    with pytest.raises(UsageError, match=says):
        bench_sides(request)


@pytest.mark.slow
def test_a_planted_difference_is_found_in_turn_and_none_where_nothing_differs(tmp_path, monkeypatch):
    """Real processes: the candidate sleeps longer by a setting. The only proof that settings reach the processes."""
    pytest.importorskip("torch", reason="needs the extra [torch]")
    (tmp_path / "planted_kernels.py").write_text(KERNELS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    grid = Grid(backends=("planted_kernels:attention",), seqs=(16,), heads=(1,), head_dims=(8,), dtypes=("fp32",))
    own = BenchRequest(
        grid=grid, processes=2, rounds=2, samples=3, warmup_seconds=0.01, seed=1, flush=False, check=False,
        device="cpu", out=tmp_path / "out", figures=False,
    )  # fmt: skip
    slow = Setting(variables=(("PLANTED_SLEEP", "0.02"),))
    found = bench_sides(SidesRequest(own, Setting(), slow, fail_on="slower:3%"))
    (change,) = found.comparison.latency.changes
    assert (change.verdict, change.unit, found.comparison.outcome) == ("SLOWER", "turn", "regression")
    assert change.low < 0.02 / 0.002 < change.high * 1.5
    assert found.failure is None
    printed = encode_json({**comparison_json(found.comparison), "folder": str(found.folder), "seed": found.seed})
    assert as_published("bench-sides", printed.decode())["latency"]["changes"][0]["verdict"] == "SLOWER"
    # A folder of each side, from which compare says the same.
    runs = [json.loads((tmp_path / "out" / side / "samples.json").read_text()) for side in ("baseline", "candidate")]
    assert runs[0]["session"] == runs[1]["session"] != ""
    starts = [[block["started_ns"] for block in run["blocks"]] for run in runs]
    begin = [[min(s for s, b in zip(times, run["blocks"], strict=True) if b["process"] == p) for p in (0, 1)]
             for times, run in zip(starts, runs, strict=True)]  # fmt: skip
    assert (begin[0][0] > begin[1][0], begin[0][1] < begin[1][1]) == (True, True), "who begins alternates"
    assert "SLOWER" in (tmp_path / "out/report.md").read_text()
    assert not (tmp_path / "out/baseline/.work").exists()


def test_what_the_turns_so_far_decide_is_judged_at_the_stricter_level(tmp_path):
    """The folders are made up: four turns whose difference is certain, and four in which it is not."""
    plan = BenchPlan((Case("math", seq=16), Case("flash", seq=16)), "cpu")
    # The interval of the second kind is within 3 % at 95 %, and not at 99 %.
    for name, noise, wanted in (("certain", 0, True), ("open", 8, False)):
        folders = {side: tmp_path / name / side for side in ("baseline", "candidate")}
        for side, folder in folders.items():
            folder.mkdir(parents=True)
            run = new_run(plan, session="ab")
            for process in range(4):
                moved = noise if process % 2 else -noise
                took = 1000 + (moved if side == "candidate" else 0)
                run.blocks += [Block(cell, process, 0, "ok", values_ns=(took, took)) for cell in (0, 1)]
            run.save(folder)
        request = SidesRequest(BenchRequest(), Setting(), Setting("other"), fail_on="slower:2%", until_decided=True)
        sides = (folders["baseline"],), (folders["candidate"],)
        assert compare(CompareRequest(*sides, "slower:2%")).comparison.outcome == "pass"
        assert _is_decided(request, folders) is wanted


@pytest.mark.parametrize(("turns", "level"), [(6, 0.01), (MOST_TURNS, 0.02)])
def test_a_later_comparison_spends_what_the_looks_left(tmp_path, turns, level):
    """The folders are made up: turns that differ from one another."""
    plan = replace(BenchPlan((Case("math", seq=16),), "cpu"), processes=turns)
    runs = [new_run(plan, session="ab") for _ in range(2)]
    folders = [tmp_path / name for name in ("baseline", "candidate")]
    for run, moved in zip(runs, (0, 1), strict=True):
        folders[moved].mkdir()
        for process in range(turns):
            took = 1_000_000 + moved * (12_000 + 14_500 * (-1) ** process)
            run.blocks.append(Block(0, process, 0, "ok", values_ns=(took, took)))
        run.save(folders[moved])
    request = CompareRequest((folders[0],), (folders[1],))
    before = compare(request).comparison.latency
    assert before.alpha == 0.05
    _keep_level(runs, folders)
    after = compare(request).comparison
    assert after.latency.alpha == level
    assert after.latency.changes[0].low < before.changes[0].low
    assert f"ratio [{100 * (1 - level):g} %]" in [column.title for column in latency_table(after).columns]
