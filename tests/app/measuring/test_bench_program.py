"""Real programs on two sides in turn, with planted differences in time, values and exit codes."""

import json
import sys

import pytest

from nsysprof.app.measuring.bench_program import bench_program
from nsysprof.app.measuring.program_request import ProgramBenchRequest, ProgramSide, parse_program_side
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy
from nsysprof.errors import CaptureFailedError, PolicyError, UsageError
from nsysprof.results.comparison import LatencyVerdict
from nsysprof.results.program_runs import Sameness, StepSource
from tests.builders.published_schema import as_published

PROGRAM = """
import os, sys, time
for step in range(6):
    time.sleep(float(os.environ.get("NAP", "0.01")))
    print("step", step, "loss", 1 / (step + 1) + float(os.environ.get("OFF", "0")))
if os.environ.get("CRASH"):
    sys.exit("planted crash")
"""
TRAINING = """
import torch
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for step in range(5):
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def measure(tmp_path):
    """Return a function that measures the program with settings on the candidate's side."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(candidate, program="program.py", **fields):
        patterns = {"step_pattern": "^step", "value_pattern": r"loss ([-+.\de]+)"}
        argv = (sys.executable, "-S", str(tmp_path / program))
        own = {"argv": argv, "baseline": ProgramSide(), "out": tmp_path / "out", "processes": 2, **patterns, **fields}
        return bench_program(ProgramBenchRequest(candidate=ProgramSide(tuple(candidate.items())), **own))

    return run


def test_a_slower_side_is_found_and_equal_values_are_equal(measure, tmp_path):
    # Four turns: with two, one slow start of a process would make the interval hold almost everything.
    result = measure({"NAP": "0.05"}, fail_on="slower:3%", processes=4)
    found = result.comparison
    assert (found.change.verdict, found.change.unit, found.outcome) == (LatencyVerdict.SLOWER, "turn", "regression")
    assert found.change.low < 5.0 < found.change.high * 1.5
    assert (found.source, found.values.verdict, found.values.count) == (StepSource.LINES, Sameness.EQUAL, 6)
    assert found.baseline.steps == 3, "five intervals without two of the warm-up"
    assert "SLOWER" in (tmp_path / "out/report.md").read_text()
    assert "SLOWER" in (tmp_path / "out/report.html").read_text()
    printed = json.dumps({**found.to_json(), "folder": "out"})
    assert as_published("bench-program", printed)["change"]["ratio"] == found.change.ratio
    data = json.loads((tmp_path / "out/comparison.json").read_text())
    assert data["change"]["ratio"] == found.change.ratio
    assert "0.05" not in (tmp_path / "out/runs.json").read_text().partition('"runs"')[0], "no value of a setting"


def test_a_faster_side_with_other_values_fails_the_gate(measure):
    # Long naps: on a busy machine, a short one takes as long as none.
    slow = ProgramSide((("NAP", "0.08"),))
    found = measure({"NAP": "0.001", "OFF": "0.5"}, baseline=slow, fail_on="slower:3%", processes=4).comparison
    assert found.change.verdict is LatencyVerdict.FASTER
    assert (found.values.verdict, found.outcome) == (Sameness.DIFFERENT, "regression")


def test_a_candidate_that_crashes_is_told_with_its_last_words(measure, tmp_path):
    found = measure({"CRASH": "1"}, fail_on="slower:3%").comparison
    assert found.change.verdict is None
    assert found.outcome == "regression"
    assert as_published("bench-program", json.dumps({**found.to_json(), "folder": "out"}))["change"]["ratio"] is None
    assert found.change.candidate.reason == "ended with exit code 1: planted crash"
    assert "planted crash" in (tmp_path / "out/logs/turn000-candidate.stderr.log").read_text()


def test_a_program_that_fails_by_itself_is_a_failure(measure, tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit('no data here')")
    result = measure({"A": "1"}, program="broken.py")
    assert isinstance(result.failure, CaptureFailedError)
    assert "no data here" in str(result.failure)


def test_a_bench_goes_on_with_what_is_there_and_refuses_another_program(measure, tmp_path):
    measure({"NAP": "0.05"})
    before = json.loads((tmp_path / "out/runs.json").read_text())
    result = measure({"NAP": "0.05"}, resume=True, processes=3)
    after = json.loads((tmp_path / "out/runs.json").read_text())
    assert after["runs"][:4] == before["runs"]
    assert (len(after["runs"]), result.comparison.baseline.runs) == (6, 3)
    with pytest.raises(UsageError, match="another program"):
        measure({"NAP": "0.06"}, resume=True)


def test_a_budget_ends_it_early_and_a_run_that_hangs_is_ended(measure):
    found = measure({"NAP": "0.02"}, processes=50, budget_s=1.0).comparison
    assert 1 <= found.baseline.runs < 50
    assert [note.code for note in found.notes] == ["bench-budget"]
    found = measure({"NAP": "30"}, run_timeout_s=1.5, force=True).comparison
    assert found.change.candidate.status == "timeout"


def test_numbers_in_lines_are_times_of_steps(measure, tmp_path):
    (tmp_path / "says.py").write_text("import os\nfor _ in range(5): print('took', os.environ.get('MS', '2.5'), 'ms')")
    found = measure({"MS": "5"}, program="says.py", step_pattern=r"took (?P<ms>[\d.]+) ms", value_pattern="").comparison
    assert (found.source, found.baseline.step_ns, found.candidate.step_ns) == (StepSource.NUMBERS, 2.5e6, 5e6)
    assert found.values is None


@pytest.mark.slow
def test_steps_of_an_optimizer_are_found_without_a_pattern(measure, tmp_path):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    (tmp_path / "training.py").write_text(TRAINING)
    argv = (sys.executable, str(tmp_path / "training.py"))
    found = measure({"A": "1"}, argv=argv, step_pattern="", value_pattern="").comparison
    assert (found.source, found.baseline.steps) == (StepSource.OPTIMIZER, 2)
    assert found.baseline.peak_bytes > 50e6


def test_a_side_is_settings_and_a_policy(tmp_path):
    write_policy(
        tmp_path / "p.json",
        PolicyFile((PolicyRule("math", seq=8),), "cpu", None, torch_version="1", cudnn_version=None),
    )
    side = parse_program_side(f"A=1 B='x y' {tmp_path / 'p.json'}")
    assert side == ProgramSide((("A", "1"), ("B", "x y")), tmp_path / "p.json")
    assert side.label == "A=... B=... p.json"
    environment = side.environment()
    assert (environment["B"], environment["NSYSPROF_POLICY"]) == ("x y", str(tmp_path / "p.json"))
    for text in ("python3", "a.json b.json", "A=1 'B"):
        with pytest.raises(UsageError, match="not a valid side"):
            parse_program_side(text)
    with pytest.raises(PolicyError):
        parse_program_side(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"candidate": ProgramSide()}, "Both sides are the same"),
        ({"processes": 1}, "One turn"),
        ({"argv": ("no-such-program-here",)}, "was not found"),
        ({"step_pattern": "("}, "not a valid regular expression"),
        ({"value_pattern": "loss"}, "needs a group"),
        ({"fail_on": "slower"}, "not a valid rule"),
        ({"fail_on": "step:3%"}, "needs a trace"),
        ({"step_range": "["}, "not a valid regular expression"),
        ({"step_range": "a", "step_pattern": "b"}, "both define a step"),
        ({"resume": True}, "needs the folder"),
    ],
)
def test_requests_without_sense_are_refused(fields, says):
    own = {"argv": ("true",), "baseline": ProgramSide(), "candidate": ProgramSide((("A", "1"),)), **fields}
    with pytest.raises(UsageError, match=says):
        bench_program(ProgramBenchRequest(**own))
