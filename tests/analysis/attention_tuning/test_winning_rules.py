"""Which rules of a tuning become part of the program's policy."""

import pytest

from nsysprof.analysis.attention_tuning.winning_rules import has_won, keep_winners
from nsysprof.attention.policy_file import PolicyFile, PolicyRule


@pytest.mark.parametrize(
    ("backend", "why", "over", "wins"),
    [
        ("flash", "winner", 1.25, True),
        ("flash", "between", None, True),
        ("flash", "winner", 1.0, False),
        ("flash", "tie", 1.25, False),
        ("flash", "inconclusive", 1.25, False),
        ("auto", "winner", 1.25, False),
    ],
)
def test_a_rule_wins_with_another_backend_that_was_shown_to_be_faster(backend, why, over, wins):
    rule = PolicyRule(backend, seq=64, why=why, over_auto=over)
    assert has_won(rule) is wins
    kept = keep_winners(PolicyFile((rule,), "cuda", "GPU", "2.11", "9.1"))
    assert (kept is not None) is wins


def test_what_did_not_win_is_left_to_torch():
    rules = (PolicyRule("flash", seq=64, why="winner", over_auto=1.2), PolicyRule("math", seq=128, why="tie"))
    kept = keep_winners(PolicyFile(rules, "cuda", "GPU", "2.11", "9.1"))
    assert [(rule.seq, rule.backend) for rule in kept.rules] == [(64, "flash"), (128, "auto")]
