"""Functions of autograd's nodes that are registered without handles, beside those of the program."""

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start.attention_calls import fast_path  # noqa: E402

pytestmark = pytest.mark.torch


def test_own_functions_run_beside_those_of_the_program_which_can_still_be_removed(monkeypatch):
    monkeypatch.setattr(torch.autograd.Function, "_register_hook", torch.autograd.Function._register_hook)
    seen = []

    hooks = fast_path.hooks_of(seen.append, lambda: seen.append("after"), "before")
    if hooks is None:
        pytest.skip("without the compiled part, torch makes its handles")
    before, after = hooks.make_functions()
    fast_path.keep_hooks(torch)
    start = torch.ones(2, requires_grad=True)
    for own_first in (True, False):
        result = start * 2.0
        node = result.grad_fn
        if not own_first:
            node.register_hook(lambda *_: seen.append("theirs"))
        assert node.register_prehook(before) is None
        # Beside a function of the program, torch makes a handle as ever.
        assert (node.register_hook(after) is None) == own_first
        if own_first:
            node.register_hook(lambda *_: seen.append("theirs"))
        node.register_hook(lambda *_: seen.append("removed")).remove()
        result.sum().backward()
    assert sorted(seen) == sorted(["before", "after", "theirs"] * 2)
