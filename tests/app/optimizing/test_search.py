"""The search runs real programs: what helps is found and proven, what fails is told, and a search resumes."""

import json
import sys
from dataclasses import replace as replace_trial
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nsysprof.app.measuring.bench_program import BASELINE, check_program_bench
from nsysprof.app.measuring.program_request import ProgramBenchRequest, ProgramSide
from nsysprof.app.optimizing.search import LOOK, Search, name_of, precision_of, side_of
from nsysprof.app.optimizing.trials import Trial
from nsysprof.app.progress import SILENT
from nsysprof.capture.user_program.time_program import run_timed

# Steps sleep for as long as the environment says, so that a setting helps by a known amount.
SLEEPER = """
import os, sys, time
for step in range(6):
    time.sleep(float(os.environ.get("SLEEP", "0.08")) * (0.6 if os.environ.get("ALSO") else 1))
    print("step")
if os.environ.get("BREAK"):
    sys.exit("torch.OutOfMemoryError: CUDA out of memory." if os.environ["BREAK"] == "memory" else "broken")
print("loss", os.environ.get("LOSS", "1.0"))
"""


def trial(name, kind="", **variables):
    return Trial(name, "", ProgramSide(tuple(variables.items())), "", "", kind=kind)


def run_as_told(program, side, turn, environment, logs, stop):
    """Run the program, and return the times that its steps were told to take: a busy machine stretches others."""
    run = run_timed(program, side, turn, environment, logs, stop)
    step_ns = 1e9 * float(environment.get("SLEEP", "0.08")) * (0.6 if environment.get("ALSO") else 1)
    times_ns = tuple(int(step_ns) + 1000 * number for number in range(len(run.times_ns)))
    return replace(run, times_ns=times_ns, wall_ns=sum(times_ns) + 300_000_000)


@pytest.fixture
def search(tmp_path, request, monkeypatch):
    (tmp_path / "program.py").write_text(SLEEPER)
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr("nsysprof.app.optimizing.search.run_timed", run_as_told)

    def begin(left_s=100.0, processes=3):
        def request(side):
            return ProgramBenchRequest(
                (sys.executable, str(tmp_path / "program.py")), processes, "step", value_pattern="loss (.+)",
                warmup_steps=1, margin_pct=3.0, candidate=side,
            )  # fmt: skip

        program = check_program_bench(request(ProgramSide((("A", "1"),))))
        return Search(program, tmp_path / "search", processes, request, lambda: left_s, SILENT)

    (tmp_path / "search").mkdir()
    return begin


@pytest.mark.slow
def test_what_helps_is_found_put_together_and_proven_by_runs_of_its_own(search):
    found = search()
    fast, also = trial("fast", SLEEP="0.04"), trial("also", ALSO="1")
    tried = found.try_alone([fast, also, trial("slow", SLEEP="0.12"), trial("wrong", SLEEP="0.02", LOSS="3")])
    assert [item.trial.name for item in tried if item.wins] == ["fast", "also"]
    lost = {item.trial.name: (item.lost, item.turns) for item in tried if item.lost}
    assert lost["slow"][0].startswith("given up after 1 turn: a step took 1")
    assert lost["slow"][1] == 1
    assert lost["wrong"][0].startswith("other values")
    chosen = found.combine(tried)
    assert name_of(chosen) == "fast + also"
    before = len(found.runs)
    comparison, _ = found.prove(chosen)
    assert len(found.runs) == before + 6
    assert comparison.change.ratio == pytest.approx(0.3, abs=0.06)
    assert comparison.change.verdict.value == "FASTER"


def test_remedies_of_one_kind_are_not_put_together(search):
    found = search(processes=2)
    tried = found.try_alone([trial("one", "k", SLEEP="0.03"), trial("other", "k", SLEEP="0.05")])
    winners = [item for item in tried if item.wins]
    assert len(winners) == 2
    assert [one.name for one in found.combine(winners)] == ["one"]


@pytest.mark.parametrize(
    ("value", "says"), [("memory", "it needs more memory than there is"), ("1", "the program fails with it: it ended")]
)
def test_a_remedy_that_breaks_the_program_is_listed_and_costs_no_other(search, value, says):
    tried = search(processes=2).try_alone([trial("bad", BREAK=value), trial("fast", SLEEP="0.03")])
    bad, fast = tried
    assert bad.lost.startswith(says)
    assert (bad.turns, bad.wins, fast.turns) == (1, False, 2)


def test_a_remedy_without_effect_is_given_up_after_one_turn(search):
    (tried,) = search().try_alone([Trial("TF32", "", ProgramSide(remedies=("tf32",)), "", "")])
    assert tried.lost == "no effect: no process of the program imported torch and ended by itself"
    assert tried.turns == 1


def test_a_search_goes_on_from_the_runs_on_disk(search, tmp_path):
    first = search(processes=2)
    first.try_alone([trial("fast", SLEEP="0.03")])
    written = (tmp_path / "search" / "runs.json").read_bytes()
    again = search(processes=2)
    again.resume()
    assert len(again.runs) == len(first.runs) == 4
    again.try_alone([trial("fast", SLEEP="0.03")])
    assert (tmp_path / "search" / "runs.json").read_bytes() == written
    assert json.loads(written)["about"]
    logs = {path.name for path in Path(tmp_path / "search" / "logs").iterdir()}
    assert "turn001-fast.stdout.log" in logs


def test_what_the_budget_has_no_time_for_is_said(search):
    found = search(left_s=0.0)
    found.run(LOOK, ProgramSide(), 0)
    tried = found.try_alone([trial("fast", SLEEP="0.03"), trial("more", SLEEP="0.02")])
    assert [item.trial.name for item in tried] == ["fast"]
    assert found.lacking_s["more"] > 5 * found.run_s() > 0, "its own run, one of the program, and two turns of a proof"
    assert found.prove([tried[0].trial]) is None


def test_a_set_has_the_settings_of_all_and_the_lowest_precision():
    one = Trial("a", "", ProgramSide((("A", "1"),), remedies=("tf32",)), "", "", precision="tf32")
    other = Trial("b", "", ProgramSide(remedies=("compile",)), "", "", precision="random")
    side = side_of([one, other])
    assert (side.variables, side.remedies) == ((("A", "1"),), ("tf32", "compile"))
    assert side.environment()["NSYSPROF_REMEDIES"] == "tf32,compile"
    assert precision_of([one, other]) == "tf32"


def test_a_promising_remedy_is_proven_where_there_was_no_time_for_a_second_turn(search):
    left = iter([9.0, *[2.5] * 100])
    found = search(processes=2)
    found.run(LOOK, ProgramSide(), 0)
    found.left_s = lambda: next(left)
    tried = found.try_alone([trial("fast", SLEEP="0.04"), trial("also", ALSO="1")])
    assert [(item.turns, item.wins, item.is_promising) for item in tried] == [(1, False, True)] * 2
    found.left_s = lambda: 100.0
    comparison, _ = found.prove(found.combine(tried))
    assert comparison.change.ratio == pytest.approx(0.3, abs=0.06)


def test_a_remedy_whose_start_takes_longer_than_the_budget_is_not_tried(search):
    found = search(left_s=20.0, processes=2)
    slow = Trial("compiled", "", ProgramSide((("ALSO", "1"),)), "", "", start_s=40.0)
    assert [item.trial.name for item in found.try_alone([slow, trial("fast", SLEEP="0.04")])] == ["fast"]
    assert found.lacking_s.keys() == {"compiled"}
    # Its first run, and two turns of a proof, in which it starts in half of that time.
    assert found.lacking_s["compiled"] == pytest.approx(40 + 2 * 20 - 20, abs=15)


def test_a_compiler_s_second_run_is_expected_to_start_in_half_of_the_time(search, monkeypatch):
    found = search()
    slow = Trial("slow", "", ProgramSide((("ALSO", "1"),)), "", "", start_s=40.0)
    monkeypatch.setattr(found, "run_s", lambda name="": 10.0)
    assert found.again_s(slow) == 30.0
    assert found.again_s(trial("fast")) == 10.0
    runs = {"slow": [SimpleNamespace(wall_ns=44 * 10**9)], "fast": [SimpleNamespace(wall_ns=44 * 10**9)]}
    monkeypatch.setattr(found, "of", lambda name: runs[name])
    assert found.again_s(slow) == 27.0
    assert found.again_s(trial("fast")) == 44.0, "it starts no compiler"
    runs["slow"].append(SimpleNamespace(wall_ns=15 * 10**9))
    assert found.again_s(slow) == pytest.approx(15)


def combined(found, monkeypatch, ratios, *, after=(), better=lambda _: True, each_s=10.0):
    """Put together trials of their own kinds with these ratios, each run of which takes 10 s, or 40 s for `slow`."""
    runs, left = [], [found.left_s()]

    def run(name, *_, **__):
        runs.append(name)
        left[0] -= each_s

    monkeypatch.setattr(found, "run", run)
    monkeypatch.setattr(found, "left_s", lambda: left[0])
    monkeypatch.setattr(found, "run_s", lambda name="": 10.0)
    monkeypatch.setattr(found, "again_s", lambda trial: 40.0 if trial.name == "slow" else 10.0)
    monkeypatch.setattr(found, "_last_ratio", lambda new, _: 0.9 if better(new) else 1.1)
    items = [
        SimpleNamespace(
            trial=replace_trial(trial(name, name), after=after if ratio > 1 else ()), is_promising=ratio < 1,
            ratio=ratio, lost="slower" if ratio > 1 else "",
        )
        for name, ratio in ratios.items()
    ]  # fmt: skip
    found._slower = {name for name, ratio in ratios.items() if ratio > 1}
    return name_of(found.combine(items)), runs


def test_where_time_is_short_all_that_helps_is_tried_at_once_without_what_starts_slowly(search, monkeypatch):
    """The proof takes 40 s, or 100 s with `slow`; one by one would take 20 s, all at once 10."""
    ratios = {"fast": 0.4, "also": 0.9, "slow": 0.7, "third": 0.95}
    chosen, runs = combined(search(left_s=55.0), monkeypatch, ratios)
    assert (chosen, runs) == ("fast + also + third", ["fast + also + third"])


def test_where_there_is_time_each_joins_by_a_run_of_its_own(search, monkeypatch):
    ratios = {"fast": 0.4, "also": 0.9, "third": 0.95}
    chosen, runs = combined(search(left_s=90.0), monkeypatch, ratios, better=lambda name: "also" not in name)
    assert (chosen, runs) == ("fast + third", ["fast + also", "fast + third"])


def test_what_was_slower_alone_is_tried_with_the_remedy_that_changes_what_it_does(search, monkeypatch):
    """channels_last takes 1.18 times as long in fp32, and less than the common layout with TF32."""
    ratios = {"tf32": 0.5, "other": 0.9, "channels_last": 1.18}
    chosen, runs = combined(search(left_s=90.0), monkeypatch, ratios, after=("tf32",))
    assert (chosen, runs) == ("tf32 + other + channels_last", ["tf32 + other", "tf32 + other + channels_last"])
    chosen, _ = combined(search(left_s=90.0), monkeypatch, ratios, after=("autocast",))
    assert chosen == "tf32 + other"


def test_what_starts_slowly_is_tried_on_top_of_what_won_where_there_is_no_time_for_it_alone(search, monkeypatch):
    """Alone it takes 50 s, to put it together 30, and two turns of a proof 80: 160 of the 165 s are not left."""
    found, slow = search(left_s=165.0), Trial("slow", "", ProgramSide((("ALSO", "1"),)), "", "", start_s=40.0)
    with monkeypatch.context() as patch:
        patch.setattr(found, "run_s", lambda name="": 10.0)
        assert [item.name for item in found._affordable([trial("fast", SLEEP="0.04"), slow, trial("late")])] == ["fast"]
    assert found.lacking_s.keys() == {"late"}
    found = search(processes=2)
    tried = found.try_alone([trial("fast", SLEEP="0.04")])
    found._on_top = [slow]
    assert name_of(found.combine(tried)) == "fast + slow"
    said = "tried only together with fast, since the budget had no time for more: a step took 60"
    assert found.told_on_top["slow"].startswith(said)
    found = search(processes=2)
    found.run(BASELINE, ProgramSide(), 0)
    found._on_top = [trial("broken", BREAK="1")]
    assert found.combine([]) == []
    assert "the program fails with it" in found.told_on_top["broken"]
