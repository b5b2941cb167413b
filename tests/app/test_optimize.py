"""The whole loop: on the CPU with a real program, and what is refused before anything runs."""

import json
import os
import signal
import sys
from dataclasses import replace

import pytest

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts
from nsysprof.analysis.attention_tuning.program_gain import judge_optimization
from nsysprof.analysis.sampling.significance import check_prediction, is_better, saves_memory
from nsysprof.app.measuring.program_request import OptimizeRequest
from nsysprof.app.optimize import optimize, plan_optimize, spare_tuning_s, tuning_budget_s
from nsysprof.app.optimizing.tune_uses import TunedProgram
from nsysprof.app.progress import Progress
from nsysprof.attention.shape import Shape
from nsysprof.capture.manifest import Manifest, Program, write_manifest
from nsysprof.errors import UsageError
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.program import answer_lines, optimize_report
from nsysprof.results.comparison import LatencyChange, LatencyVerdict, SideOfCase
from nsysprof.results.program_runs import (
    UNDECIDED,
    Attempt,
    AttentionUse,
    MemoryChange,
    MemoryKind,
    NotTried,
    Optimization,
    PredictedGain,
    ProgramComparison,
    ProgramSideSummary,
    Sameness,
    Suggestion,
    TunedUse,
)
from tests.analysis.programs import train
from tests.builders import run_command
from tests.builders.published_schema import as_published

TRAINING = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
layer = torch.nn.Linear(32, 96)
optimizer = torch.optim.SGD(layer.parameters(), 0.01)
for step in range(8):
    q, k, v = (part.view(1, 64, 2, 16).transpose(1, 2) for part in layer(torch.randn(1, 64, 32)).chunk(3, -1))
    loss = F.scaled_dot_product_attention(q, k, v, is_causal=True).pow(2).mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


def comparison(verdict, ratio=0.8, values=None):
    side = SideOfCase("ok", median_ns=10.0)
    change = LatencyChange("train.py", verdict, side, side, ratio=ratio, low=ratio - 0.02, high=ratio + 0.02)
    summary = ProgramSideSummary("as it is", 3, 0, 10.0, 10, 100, None)
    return ProgramComparison(("train.py",), summary, summary, "printed lines", change, values)


def optimization(*attempts, share=12.0, why="tie"):
    shape = Shape(seq=64)
    uses = (AttentionUse("train.py:8", shape, 3, "flash", 5, share),)
    tuned = () if why is None else (TunedUse("train.py:8", shape, "auto", why, None, share, False),)
    return judge_optimization(Optimization(("train.py",), uses, share, tuned, attempts, (), ()))


def attempt(found, predicted=None):
    return Attempt(
        "the policy",
        "it won",
        "nsysprof run --policy p -- PROGRAM",
        "with it",
        predicted,
        found,
        is_better(found),
        "bench-policy",
        check_prediction(predicted, found.change),
    )


def test_remedies_that_the_budget_had_no_time_for_are_said_first():
    left = (NotTried("TF32", "no fp32"), NotTried("torch.compile", "", 210), NotTried("a larger budget", "", 250))
    first, second = answer_lines(replace(optimization(), not_tried=left))
    assert first == "The budget had no time for torch.compile, a larger budget: give --budget 250 to try."
    assert second.startswith("Your program gains nothing from another backend")


def test_the_answer_is_the_gain_or_that_there_is_none():
    faster = attempt(comparison(LatencyVerdict.FASTER))
    assert answer_lines(optimization(faster)) == ("With the policy, a step is 20.0 % shorter [18.0 %, 22.0 %].",)
    page = render_markdown(optimize_report(optimization(faster)))
    assert "Without a change of the code:" in page
    assert "nsysprof run --policy p -- PROGRAM" in page
    in_code = render_markdown(optimize_report(optimization(replace(faster, setting=""))))
    assert "Without a change" not in in_code
    assert "In the code:" in in_code
    (none,) = answer_lines(optimization(attempt(comparison(LatencyVerdict.SAME, 1.0))))
    assert none == "Your program gains nothing from another backend; attention has 12.0 % of the kernels' time."
    assert "could not be decided" in answer_lines(optimization(why="inconclusive"))[0]
    assert "nothing is known" in answer_lines(optimization(why=None))[0]
    by_hand = judge_optimization(
        replace(optimization(why=None), suggestions=(Suggestion("unfused-attention", "Fuse it."),))
    )
    assert answer_lines(by_hand)[0].startswith("The program's attention runs in separate operations")
    failed = judge_optimization(replace(optimization(), failure="The program itself fails."))
    assert answer_lines(failed) == ("The program itself fails.",)
    assert "What ran" not in render_markdown(optimize_report(replace(failed, uses=())))
    (still_open,) = answer_lines(optimization(attempt(comparison(LatencyVerdict.INCONCLUSIVE, 0.99))))
    assert "more turns would decide" in still_open


def with_less_memory(verdict, ratio):
    memory = (MemoryChange(MemoryKind.RESERVED, (54 << 30, 55 << 30), (7 << 30, 8 << 30)),)
    found = replace(comparison(verdict, ratio), memory=memory)
    return replace(attempt(found), name="the setting", setting="A=1", saves_memory=saves_memory(found))


@pytest.mark.parametrize(
    ("verdict", "ratio", "says"),
    [
        (LatencyVerdict.INCONCLUSIVE, 1.08, "Its time is undecided, and not shown to be worse: a step takes 108.0 % ["),
        (LatencyVerdict.SAME, 1.0, "A step takes the same time"),
    ],
)
def test_less_memory_is_a_result_of_its_own(verdict, ratio, says):
    found = optimization(with_less_memory(verdict, ratio))
    first, then = answer_lines(found)
    assert first.startswith("With the setting, it reserves 46 GiB (85 %) less memory: at most 8 GiB instead")
    assert "in all 2 runs of each side" in first
    assert says in first
    assert ("more turns would decide" in then) is (verdict is LatencyVerdict.INCONCLUSIVE)
    page = render_markdown(optimize_report(found))
    assert "What to use for less memory" in page
    assert "A=1" in page
    faster = optimization(attempt(comparison(LatencyVerdict.FASTER)), with_less_memory(verdict, ratio))
    assert answer_lines(faster)[1] == first
    slower = optimization(with_less_memory(LatencyVerdict.SLOWER, 1.3))
    assert "less memory" not in " ".join(answer_lines(slower))


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ((15.0, 19.0), "shorter; the measured interval meets that"),
        ((10.0, 17.5), "the measured gain is more than that"),
        ((23.0, 29.0), "the measured gain is less than that"),
    ],
)
def test_what_was_predicted_stands_beside_what_was_measured(bounds, says):
    predicted = PredictedGain(17.0, *bounds, "step", "the finding unfused-attention")
    page = render_markdown(optimize_report(optimization(attempt(comparison(LatencyVerdict.FASTER), predicted))))
    assert says in page
    assert "Before it was tried, the finding unfused-attention predicted a step to be 17.0 %" in page


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"budget_s": 1.0}, "too short"),
        ({"tries": ("",)}, "--try is empty"),
        ({"tries": ("python3",)}, "not a valid side"),
        ({"resume": True}, "needs the folder"),
        ({"argv": ("no-such-program-here",)}, "was not found"),
        ({"value_pattern": "loss"}, "needs a group"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(fields, says, tmp_path):
    with pytest.raises(UsageError, match=says):
        optimize(OptimizeRequest(**{"argv": ("true",), **fields}))
    with pytest.raises(UsageError, match="is not a capture"):
        plan_optimize(OptimizeRequest(("true",), captured=tmp_path))


@pytest.mark.parametrize(
    ("run_s", "trials", "budget_s"),
    [(2.0, 1, 88.0), (2.0, 3, 64.0), (30.0, 1, 40.0), (None, 1, 40.0)],
)
def test_tuning_has_what_the_attempts_leave_and_never_less_than_a_part(run_s, trials, budget_s):
    assert tuning_budget_s(100.0, run_s, trials, turns=3) == pytest.approx(budget_s)


def test_attention_that_takes_little_of_the_time_is_tuned_for_little_of_the_budget():
    """The remedies beside it need the rest: a program with 9.6 % of attention had no time left for torch.compile."""
    assert tuning_budget_s(200.0, 10.0, 6, turns=3, share_pct=9.6) == pytest.approx(19.2)
    assert tuning_budget_s(200.0, 10.0, 6, turns=3, share_pct=70.0) == pytest.approx(80.0)
    assert tuning_budget_s(200.0, 1.0, 2, turns=3, share_pct=9.6) == pytest.approx(188.0)
    # A process of this program needs 22 s until it has begun: nothing could be measured in 15.
    assert tuning_budget_s(150.0, 22.0, 6, turns=3, share_pct=6.7) == 0.0


@pytest.mark.parametrize(
    ("left_s", "run_s", "trials", "budget_s"),
    [(25.0, 5.0, 1, 15.0), (15.0, 5.0, 1, 15.0), (14.0, 5.0, 1, 5.6), (25.0, 2.0, 2, 10.0), (27.0, 2.0, 2, 15.0),
     (25.0, 1.0, 1, 19.0), (25.0, None, 1, 15.0), (24.0, None, 2, 9.6), (25.0, None, 2, 15.0), (-3.0, 2.0, 1, 0.0)],
)  # fmt: skip
def test_a_small_budget_tunes_before_it_is_known_whether_there_is_a_policy(left_s, run_s, trials, budget_s):
    """Only attempts that follow in any case (12 s each for runs of 2 s) come before the 15 s of a tuning."""
    assert tuning_budget_s(left_s, run_s, trials, turns=3) == pytest.approx(budget_s)


@pytest.mark.parametrize(
    ("left_s", "run_s", "trials", "budget_s"),
    [(100.0, 5.0, 0, 70.0), (100.0, 5.0, 1, 40.0), (50.0, 8.0, 0, 25.0), (50.0, 8.0, 1, 1.0), (100.0, None, 0, 40.0),
     (100.0, None, 1, 0.0)],
)  # fmt: skip
def test_what_no_attempt_needs_goes_to_shapes_that_are_undecided(left_s, run_s, trials, budget_s):
    assert spare_tuning_s(left_s, run_s, trials, turns=3) == pytest.approx(budget_s)


def test_an_undecided_shape_is_tuned_on_in_the_rest_of_the_budget(tmp_path, monkeypatch):
    """Which backend is fastest is decided in the second search only; the first one has used up its part."""
    budgets = []

    def tune_uses(uses, source, folder, budget_s, progress, *, resume):
        budgets.append((budget_s, resume))
        why = "tie" if resume else UNDECIDED
        return TunedProgram((TunedUse("", Shape(seq=64), "auto", why, 2.0, 10.0, False),), uses)

    uses = (AttentionUse("train.py:8", Shape(seq=64), 3, "flash", 5, 10.0),)
    monkeypatch.setattr("nsysprof.app.optimize.tune_uses", tune_uses)
    monkeypatch.setattr("nsysprof.app.optimize.read_program", lambda _: ProgramFacts(uses, 10.0, 0.0, {}))
    capture = tmp_path / "capture"
    capture.mkdir()
    train()[0].write(capture / "nsys.sqlite")
    write_manifest(
        capture,
        Manifest((), (), "nsys", 0, "", "2026-01-01T00:00:00+00:00", program=Program(("true",), 0), complete=True),
    )
    found = optimize(OptimizeRequest(("true",), captured=capture, out=tmp_path / "out", budget_s=200.0)).optimization
    assert [step.name for step in found.steps] == ["look", "capture", "analyze", "tune", "tune on", "try", "combine"]
    assert [resume for _, resume in budgets] == [False, True]
    assert [use.why for use in found.tuned] == ["tie"]


def test_a_lead_that_is_not_certain_is_told_where_more_budget_would_decide():
    shape = Shape(seq=49)
    tuned = tuple(TunedUse("", shape, "auto", UNDECIDED, over, share, False) for over, share in ((2.3, 40), (3.0, 1)))
    found = judge_optimization(replace(optimization(), tuned=tuned))
    lines = answer_lines(found)
    assert "could not be decided" in lines[0]
    assert "(40.0 % of the kernels' time), torch's own choice took 2.30 times as long" in lines[1]
    assert len(answer_lines(judge_optimization(replace(found, tuned=(replace(tuned[0], over_auto=1.05),))))) == 1
    assert "give more --budget" in lines[0]


def test_no_budget_is_asked_for_where_the_search_took_all_its_samples():
    use = TunedUse("", Shape(seq=77), "auto", UNDECIDED, 1.12, 4.4, False, search_ended=True, launch_share=0.977)
    first, second = answer_lines(judge_optimization(replace(optimization(), tuned=(use,))))
    assert "could not be decided by all samples of a search" in first
    assert "98 % of it is launching. `nsysprof tune --from capture --blocks 48`" in second
    assert "--budget" not in first + second


def test_the_steps_after_the_capture_end_in_a_page_that_resumes(tmp_path):
    """A program without torch, whose trace is built: analyzed, not tuned for want of time, tried in turn, told."""
    capture, out = tmp_path / "capture", tmp_path / "out"
    capture.mkdir()
    train()[0].write(capture / "nsys.sqlite")
    of_program = Program((sys.executable,), 0)
    write_manifest(
        capture, Manifest((), (), "nsys", 0, "", "2026-01-01T00:00:00+00:00", program=of_program, complete=True)
    )
    program = tmp_path / "train.py"
    program.write_text("import os; print('step', 1); print('loss', os.environ.get('LOSS', 1.0)); print('step', 2)")
    request = OptimizeRequest(
        (sys.executable, str(program)), budget_s=10.0, processes=2, value_pattern="loss (.+)", tries=("LOSS=2",),
        captured=capture, out=out,
    )  # fmt: skip
    found = optimize(request)
    assert found.failure is None
    (tried,) = found.optimization.attempts
    assert (tried.comparison.values.verdict, tried.is_better) == (Sameness.DIFFERENT, False)
    assert [step.name for step in found.optimization.steps] == ["look", "capture", "analyze", "try", "combine"]
    assert "attempt 1" in (out / "report.md").read_text()
    logs = sorted((out / "search" / "runs.json").read_bytes())
    assert "Or in the code" not in (out / "report.md").read_text()
    again = optimize(replace(request, resume=True)).optimization
    assert [step.earlier_s for step in again.steps] == [step.seconds for step in found.optimization.steps]
    assert "in the runs before" in (out / "report.md").read_text()
    assert sorted((out / "search" / "runs.json").read_bytes()) == logs


@pytest.mark.parametrize("step", ["look", "capture", "try"])
def test_a_run_that_is_killed_in_any_step_is_resumed(step, tmp_path):
    """SIGKILL leaves no time to write anything; what was finished before it is there."""

    class Kill(Progress):
        def tell(self, text):
            if text.startswith(step):
                os.kill(os.getpid(), signal.SIGKILL)

    capture, program = tmp_path / "capture", tmp_path / "train.py"
    capture.mkdir()
    train()[0].write(capture / "nsys.sqlite")
    of_program = Program((sys.executable,), 0)
    write_manifest(
        capture, Manifest((), (), "nsys", 0, "", "2026-01-01T00:00:00+00:00", program=of_program, complete=True)
    )
    program.write_text("print('step', 1); print('step', 2)")
    request = OptimizeRequest(
        (sys.executable, str(program)), budget_s=10.0, processes=2, tries=("LOSS=2",), captured=capture,
        out=tmp_path / "out",
    )  # fmt: skip
    child = os.fork()
    if child == 0:
        optimize(request, Kill())
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    found = optimize(replace(request, resume=True))
    assert found.failure is None
    assert [step.name for step in found.optimization.steps] == ["look", "capture", "analyze", "try", "combine"]
    assert (tmp_path / "out/report.html").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def built_capture(folder):
    """Return a capture whose trace is built, so that no program is recorded."""
    folder.mkdir()
    train()[0].write(folder / "nsys.sqlite")
    program = Program(("true",), 0)
    write_manifest(folder, Manifest((), (), "nsys", 0, "", "2026-01-01T00:00:00+00:00", program=program, complete=True))
    return folder


LOADING = """
import time, torch
torch.set_num_threads(1)
torch.backends.cuda.matmul.allow_tf32 = False

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(0.03)
        return torch.full((8,), float(index))

net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), 1e-4)
for x in torch.utils.data.DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    net(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_what_starves_a_training_is_found_proven_and_written_as_a_diff(tmp_path, monkeypatch):
    """Each sample sleeps, so that two workers halve a step on a busy machine too; the program prints nothing."""
    pytest.importorskip("torch", reason="needs the extra [torch]")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(LOADING)
    request = OptimizeRequest(
        (sys.executable, "train.py"), processes=2, budget_s=120.0, out=tmp_path / "out", margin_pct=5.0,
        captured=built_capture(tmp_path / "capture"),
    )  # fmt: skip
    result = optimize(request)
    assert result.failure is None
    found = result.optimization
    proven = found.proven
    assert proven is not None
    assert proven.is_confirmed
    assert "workers of the DataLoader" in proven.names
    assert proven.comparison.change.ratio < 0.75
    assert proven.comparison.values.verdict is Sameness.EQUAL
    assert "nsysprof run --remedies " in proven.setting
    assert "+for x in torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=" in proven.diff
    (workers,) = (item for item in found.attempts if item.name == "workers of the DataLoader")
    assert workers.took_effect
    assert workers.evidence.startswith("1 of 1 loaders have")
    assert {"TF32", "channels_last"} <= {item.name for item in found.not_tried}
    page = (tmp_path / "out" / "report.md").read_text()
    assert "confirmed by a repetition" in page
    assert "```diff" in page


@pytest.mark.parametrize(
    ("text", "says", "advice"),
    [
        ("raise SystemExit('no data here')", "it ended with exit code 1: no data here", "search/logs"),
        ("input('your name: ')", "EOFError", "It reads from a terminal"),
        pytest.param(
            "import time; time.sleep(60)", "does not end within the budget", "larger --budget", marks=pytest.mark.slow
        ),
    ],
)
def test_a_program_that_cannot_be_measured_ends_with_a_page_and_exit_code_11(text, says, advice, tmp_path):
    (tmp_path / "program.py").write_text(text)
    out = tmp_path / "out"
    done = run_command.run("optimize", "--budget", 10, "--out", out, "--", sys.executable, tmp_path / "program.py")
    assert done.returncode == 11
    assert says in done.stderr
    assert advice in done.stderr
    assert "Traceback" not in done.stderr
    assert says in (out / "report.md").read_text()
    assert json.loads((out / "optimize.json").read_text())["failure"]


def test_ctrl_c_leaves_a_folder_that_resumes(tmp_path):
    class Stop(Progress):
        def tell(self, text):
            if text.startswith("try"):
                raise KeyboardInterrupt

    capture = built_capture(tmp_path / "capture")
    request = OptimizeRequest(
        ("true",), budget_s=10.0, processes=2, tries=("A=2",), captured=capture, out=tmp_path / "out"
    )
    stopped = optimize(request, Stop())
    assert stopped.failure is not None
    assert stopped.failure.exit_code == 130
    assert (tmp_path / "out/report.html").is_file()
    again = optimize(replace(request, resume=True))
    assert again.failure is None
    assert [step.name for step in again.optimization.steps][-2:] == ["try", "combine"]


@pytest.mark.nsys
@pytest.mark.slow
def test_the_loop_closes_on_the_cpu(tmp_path, nsys):
    """A training on the CPU: its shape is found and tuned with math and flash, and the page gives an answer."""
    pytest.importorskip("torch", reason="needs the extra [torch]")
    (tmp_path / "train.py").write_text(TRAINING)
    out = tmp_path / "out"
    options = ["--nsys", nsys, "--budget", 150, "--processes", 2, "--value-pattern", "loss (.+)", "--out", out]
    done = run_command.run("optimize", *options, "--json", "--", sys.executable, tmp_path / "train.py")
    assert done.returncode == 0, done.stderr
    data = as_published("optimize", done.stdout)
    (use,) = data["uses"]
    assert (use["shape"]["seq"], use["shape"]["pass"], use["calls"], use["not_tuned"]) == (64, "fwdbwd", 8, "")
    (tuned,) = data["tuned"]
    assert tuned["backend"] in ("math", "flash", "auto")
    assert (out / "report.html").is_file()
    assert [step["name"] for step in data["steps"]][:4] == ["look", "capture", "analyze", "tune"]
    for tried in data["attempts"]:
        assert tried["comparison"]["values"]["verdict"] == "equal" or tried["lost"]
    again = run_command.run("optimize", *options, "--resume", "--json", "--", sys.executable, tmp_path / "train.py")
    assert json.loads(again.stdout)["steps"][1]["outcome"] == "kept from the run before"
