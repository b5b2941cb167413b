"""Classes and modes of the program answer calls of attention as they do without the hook."""

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

from nsysprof.workload.program_start import attention_facts  # noqa: E402
from nsysprof.workload.program_start.attention_calls import fast_path  # noqa: E402
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def recorder():
    calls = AttentionCalls(torch, attention_facts, (lambda name: None, lambda: None, "test"))
    return calls, calls.wrap_function(torch.nn.functional.scaled_dot_product_attention, "sdpa")


def counts(calls):
    return [row["forward"] for row in calls.to_json()["calls"]]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_class_of_the_program_that_has_its_own_attention_is_asked_by_the_function_that_it_knows(recorder, place):
    calls, attention = recorder

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is attention:
                return "own", len(args), kwargs
            return super().__torch_function__(function, types, args, kwargs)

    q = torch.ones(1, 2, 4, 8)
    tensors = [q, q, q, torch.ones(4, 4)]
    plain = attention(*tensors)
    tensors[place] = tensors[place].as_subclass(Own)
    for _ in range(3):
        said, number, named = attention(*tensors[:3], attn_mask=tensors[3], scale=0.5)
        assert (said, number, named.keys()) == ("own", 3, {"attn_mask", "scale"})
    assert attention(q, q, q, torch.ones(4, 4)).equal(plain)
    assert sum(counts(calls)) == 2


def test_a_mode_of_the_program_sees_the_call_alone_and_what_it_calls_is_counted(recorder):
    calls, attention = recorder
    seen = []

    class Own(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {})) if len(seen) < 5 else None

    q = torch.ones(1, 2, 4, 8, requires_grad=True)
    expected = attention(q, q, q)
    with Own():
        results = [attention(q, q, q, None, 0.0) for _ in range(6)]
    assert seen == [attention] * 6
    assert [result is None for result in results] == [False] * 4 + [True] * 2
    assert results[0].equal(expected)
    assert sum(counts(calls)) == 5


def test_a_mode_of_torch_changes_nothing(recorder):
    calls, attention = recorder
    q = torch.ones(1, 2, 4, 8)
    with torch.device("cpu"):
        for _ in range(4):
            attention(q, q, q)
    assert counts(calls) == [4]


@pytest.mark.parametrize("wrong", [{"dropout_p": "text"}, {"attn_mask": False}, {"causal": True}, {"scale": "text"}])
def test_a_class_or_mode_of_the_program_is_not_asked_before_torch_has_refused_the_other_arguments(recorder, wrong):
    _, attention = recorder
    asked = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function)

    class OwnMode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            asked.append(function)

    plain = torch.ones(1, 2, 4, 8)
    own = plain.as_subclass(Own)
    for function in (torch.nn.functional.scaled_dot_product_attention, attention):
        with pytest.raises(TypeError):
            function(own, plain, plain, **wrong)
        with OwnMode(), pytest.raises(TypeError):
            function(plain, plain, plain, **wrong)
    assert asked == []
    assert attention(own, plain, plain) is None
    assert asked == [attention]


@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_torch_refuses_of_plain_tensors_is_refused(recorder, monkeypatch, is_compiled):
    calls, _ = recorder
    if not is_compiled:
        monkeypatch.setattr(fast_path, "compiled", None)
    original = torch.nn.functional.scaled_dot_product_attention
    attention = calls.wrap_function(original, "sdpa")
    q = torch.ones(1, 2, 4, 8)
    refused = [
        ((q, q), {}), ((q, q, q, None, 0.0, False, None), {}), ((q, q, q), {"query": q}), ((q, q, None), {}),
        *(((q, q, q), {name: value}) for name, value in (
            ("attn_mask", False), ("attn_mask", 0.0), ("attn_mask", True), ("dropout_p", None), ("dropout_p", "0"),
            ("is_causal", None), ("is_causal", 0.5), ("scale", "1"), ("enable_gqa", None), ("mask", None))),
    ]  # fmt: skip
    for _ in range(3):  # before a call of the same form is known, and afterwards
        for args, kwargs in refused:
            with pytest.raises((TypeError, RuntimeError)) as theirs:
                original(*args, **kwargs)
            with pytest.raises(theirs.type):
                attention(*args, **kwargs)
        attention(q, q, q)
        attention(q, q, q, attn_mask=None, dropout_p=0.0, is_causal=False)


def test_a_class_gets_the_arguments_as_the_program_gave_them(recorder):
    _, attention = recorder
    given = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            given.append((len(args), sorted(kwargs or {})))

    plain = torch.ones(1, 2, 4, 8)
    own = plain.as_subclass(Own)
    for function in (torch.nn.functional.scaled_dot_product_attention, attention):
        function(plain, own, plain, None, 0.0, is_causal=False, scale=None)
    assert given[0] == given[1]
