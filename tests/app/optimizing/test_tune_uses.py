"""Which shapes are tuned, and what becomes of the answers; the search itself is played by a stand-in."""

from types import SimpleNamespace

import pytest

from nsysprof.app.optimizing import tune_uses as module
from nsysprof.app.optimizing.tune_uses import tune_uses
from nsysprof.app.progress import SILENT
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, read_policy, write_policy
from nsysprof.attention.shape import Shape
from nsysprof.errors import CaptureFailedError
from nsysprof.results.optimization import AttentionUse


def use(seq, share, **fields):
    return AttentionUse("train.py:8", Shape(seq=seq, pass_="fwdbwd", **fields), 12, "flash", 100, share)


@pytest.fixture
def answers(monkeypatch):
    """Play the search: a length has the answer (backend, why, over_auto), or raises what stands there."""
    given, asked = {}, []

    def tune(request, _progress):
        (seq,) = request.grid.seqs
        asked.append(seq)
        if isinstance(given[seq], Exception):
            raise given[seq]
        backend, why, over = given[seq]
        rule = PolicyRule(backend, seq=seq, pass_="fwdbwd", why=why, over_auto=over)
        request.out.mkdir()
        write_policy(request.out / "policy.json", PolicyFile((rule,), "cuda", "GPU", "2.11", "9.1"))
        return SimpleNamespace(failure=None, tuning=SimpleNamespace(policy=request.out / "policy.json"))

    monkeypatch.setattr(module, "tune", tune)
    return SimpleNamespace(given=given, asked=asked)


def test_only_winners_are_in_the_policy_and_the_gain_is_predicted(answers, tmp_path):
    answers.given.update({64: ("cudnn", "winner", 1.25), 128: ("flash", "tie", 1.02), 256: ("auto", "winner", 1.0)})
    found = tune_uses([use(64, 40.0), use(128, 20.0), use(256, 10.0)], tmp_path, 1000.0, SILENT)
    rules = {rule.seq: rule.backend for rule in read_policy(found.policy).rules}
    assert rules == {64: "cudnn", 128: "auto", 256: "auto"}
    assert [each.in_policy for each in found.tuned] == [True, False, False]
    assert found.predicted_pct == pytest.approx(40.0 * (1 - 1 / 1.25))
    tune_uses([use(64, 40.0), use(128, 20.0), use(256, 10.0)], tmp_path, 1000.0, SILENT)
    assert answers.asked == [64, 128, 256], "what an earlier search found is kept"


def test_without_a_winner_there_is_no_policy(answers, tmp_path):
    answers.given[64] = ("flash", "tie", 1.0)
    found = tune_uses([use(64, 40.0)], tmp_path, 1000.0, SILENT)
    assert (found.policy, found.predicted_pct) == (None, 0)


def test_a_shape_that_cannot_be_tuned_takes_no_other_turn(answers, tmp_path):
    answers.given.update({64: CaptureFailedError("CUDA out of memory."), 128: ("cudnn", "winner", 2.0)})
    found = tune_uses([use(64, 40.0), use(128, 20.0), use(256, 0.1)], tmp_path, 1000.0, SILENT)
    assert [each.not_tuned for each in found.uses] == ["CUDA out of memory", "", "its share is below 0.5 %"]
    assert found.policy is not None


def test_no_time_is_no_search(answers, tmp_path):
    found = tune_uses([use(64, 40.0)], tmp_path, 1.0, SILENT)
    assert answers.asked == []
    assert "budget" in found.uses[0].not_tuned
