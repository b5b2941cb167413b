"""What becomes of a tuning's answers; the search itself is played by a stand-in."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from nsysprof.app.optimizing import tune_uses as module
from nsysprof.app.optimizing.tune_uses import tune_uses
from nsysprof.app.progress import SILENT
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, read_policy
from nsysprof.attention.shape import Shape, make_case, row_of_case
from nsysprof.errors import InterruptedCaptureError, UsageError
from nsysprof.results.program_runs import UNDECIDED, AttentionUse

GAIN = SimpleNamespace(saved_pct=8.0, text="It saves 8 %.", refused=("3 calls are not tuned: dropout.",), ratios=())


def use(seq, **fields):
    return AttentionUse("train.py:8", Shape(seq=seq, pass_="fwdbwd", **fields), 12, "flash", 100, 40.0)


@pytest.fixture
def search(monkeypatch, tmp_path):
    """Return a function that makes the search answer with these rules, or raise what is given, and runs it."""

    def run(uses, rules=(), error=None, budget_s=100.0, cells=(), resume=False, complete=True, replayed=()):
        def tune(request, _progress):
            if error is not None:
                raise error
            request.out.mkdir(exist_ok=True)
            choices = PolicyFile(tuple(rules), "cuda", "GPU", "2.11", "9.1") if rules else None
            rows = [{**row_of_case(case), "rank": None, "launch_share": None, **answer} for case, answer in cells]
            table = pd.DataFrame(rows, columns=None if rows else ["backend", "rank", "launch_share"])
            tuning = SimpleNamespace(choices=choices, program=GAIN, replayed=frozenset(replayed))
            results, ended = SimpleNamespace(table=table), SimpleNamespace(complete=complete)
            return SimpleNamespace(failure=None, tuning=tuning, results=results, run=ended)

        monkeypatch.setattr(module, "tune", tune)
        return tune_uses(uses, tmp_path, tmp_path, budget_s, SILENT, resume=resume)

    return run


def rule(backend, seq, why="winner", over=1.25, **fields):
    return PolicyRule(backend, seq=seq, pass_="fwdbwd", why=why, over_auto=over, **fields)


def test_only_winners_are_in_the_policy(search):
    rules = [rule("cudnn", 64), rule("flash", 128, "tie", 1.02), rule("auto", 256, over=1.0)]
    found = search([use(64), use(128), use(256), use(512)], rules)
    assert {each.seq: each.backend for each in read_policy(found.policy).rules} == {
        64: "cudnn",
        128: "auto",
        256: "auto",
    }
    assert [each.in_policy for each in found.tuned] == [True, False, False]
    assert [each.not_tuned for each in found.uses] == ["", "", "", "it was not tuned"]
    assert found.saved_pct == 8.0
    assert found.remarks == ("It saves 8 %.", "3 calls are not tuned: dropout.")


def test_a_rule_does_not_count_for_calls_that_are_not_tuned(search):
    """Another line has the same shape with a mask that backends take."""
    strided = replace(use(64), site="swin.py:3", not_tuned="the keys of the mask do not lie side by side in memory")
    found = search([strided, use(64)], [rule("cudnn", 64)])
    assert [each.site for each in found.tuned] == ["train.py:8"]
    assert found.uses == (strided, use(64))


def test_what_a_larger_budget_cannot_decide_is_told(search):
    cells = [(make_case("auto", Shape(seq=64, pass_="fwdbwd")), {"status": "ok", "reason": "", "launch_share": 0.9})]
    (tuned,) = search([use(64)], [rule("auto", 64, UNDECIDED)], cells=cells).tuned
    assert (tuned.needs_budget, tuned.search_ended, tuned.launch_share) == (False, True, 0.9)


def test_the_page_says_which_shapes_were_judged_by_replays_and_no_share_of_launching_for_them(search):
    shape = Shape(seq=64, pass_="fwdbwd")
    cells = [(make_case("auto", shape), {"status": "ok", "reason": "", "launch_share": 0.9})]
    found = search([use(64)], [rule("auto", 64, UNDECIDED)], cells=cells, replayed=[shape])
    assert found.tuned[0].launch_share is None
    assert "replayed as a CUDA graph" in found.remarks[-1]


@pytest.mark.parametrize(
    ("why", "statuses", "told"),
    [
        ("tie", {64: "ok"}, None),
        (UNDECIDED, {64: "ok"}, "1 shape was not decided"),
        (UNDECIDED, {64: "ok", 128: "not_run"}, "2 shapes were not decided"),
        ("tie", {64: "not_run"}, None),
    ],
)
def test_a_search_that_its_budget_ended_says_what_resuming_would_decide(search, why, statuses, told):
    cells = [
        (make_case("auto", Shape(seq=seq, pass_="fwdbwd")), {"status": status, "reason": ""})
        for seq, status in statuses.items()
    ]
    remarks = search([use(64), use(128)], [rule("auto", 64, why)], cells=cells, complete=False).remarks
    if told is None:
        assert remarks == ("It saves 8 %.", "3 calls are not tuned: dropout.")
    else:
        assert remarks[-1] == f"Tuning had 100 s, in which {told}: `--resume --out FOLDER` goes on with them."


def test_without_a_winner_there_is_no_policy(search):
    assert search([use(64)], [rule("flash", 64, "tie", 1.0)]).policy is None


def test_an_older_search_counts_where_no_time_is_left(search, tmp_path):
    (tmp_path / "search").mkdir()
    (tmp_path / "search/samples.json").write_text("{}")
    assert search([use(64)], [rule("flash", 64)], budget_s=0.0, resume=True).policy is not None
    assert search([use(64)], [rule("flash", 64)], budget_s=0.0).policy is None


def test_a_mask_counts_by_its_kind_and_the_order_in_memory_does_not(search):
    found = search(
        [use(64, mask="bool:b11k", layout="bshd", kv_seq=80)], [rule("cudnn", 64, mask="bool:b11k", kv_seq=80)]
    )
    assert [each.backend for each in found.tuned] == ["cudnn"]
    assert search([use(64, mask="bool:b11k")], [rule("cudnn", 64)]).tuned == ()


def test_a_shape_that_no_backend_could_run_says_why(search):
    starved = {"status": "out_of_memory", "reason": "Tried to allocate 20 GiB"}
    cells = [(make_case(backend, use(512).shape), starved) for backend in ("math", "auto")]
    found = search([use(64), use(512)], [rule("flash", 64)], cells=cells)
    assert [each.not_tuned for each in found.uses] == ["", "out of memory: Tried to allocate 20 GiB"]
    found = search([use(512)], cells=cells)
    assert [each.not_tuned for each in found.uses] == ["out of memory: Tried to allocate 20 GiB"]
    open_cells = [cells[0], (cells[1][0], {"status": "not_run", "reason": ""})]
    assert search([use(512)], cells=open_cells).uses[0].not_tuned == "it was not tuned"


def test_a_tuning_that_is_impossible_is_a_remark(search):
    found = search([use(64)], error=UsageError("Nothing of the attention can be tuned: dropout.", "Change it."))
    assert (found.policy, found.remarks) == (None, ("Nothing of the attention can be tuned: dropout.",))
    assert search([use(64)], budget_s=1.0).remarks == ("No time was left for tuning: give a larger --budget.",)
    with pytest.raises(InterruptedCaptureError):
        search([use(64)], error=InterruptedCaptureError("Interrupted."))
