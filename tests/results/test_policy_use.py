"""What processes report of their policy, together."""

from nsysprof.results.policy_use import PolicyUse, add_uses


def test_a_policy_that_no_process_put_in_force_was_refused():
    refused = PolicyUse(reasons=("torch is 2, tuned on 1",))
    assert add_uses([refused, refused]).was_refused
    assert add_uses([refused, refused]).reasons == refused.reasons
    assert not add_uses([refused, PolicyUse(left=3)]).was_refused
    assert not PolicyUse().was_refused, "a program without a call of attention"
