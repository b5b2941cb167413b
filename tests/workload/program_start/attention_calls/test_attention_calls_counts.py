"""Calls are counted by line and shape, whatever came before them, and the fast comparison sees each difference."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start import attention_facts  # noqa: E402
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def recorder():
    names = []
    calls = AttentionCalls(torch, attention_facts, (names.append, lambda: None, "test"))
    return names, calls, calls.wrap_function(torch.nn.functional.scaled_dot_product_attention, "sdpa")


def counts(calls, *names):
    return [tuple(call[name] for name in (*names, "forward")) for call in calls.to_json()["calls"]]


def test_a_cache_that_grows_has_a_row_for_each_length(recorder):
    names, calls, attention = recorder
    q = torch.randn(1, 2, 1, 8)
    for length in (5, 6, 7, 6):
        cache = torch.randn(1, 2, length, 8)
        for _layer in range(3):
            attention(q, cache, cache)
    assert counts(calls, "seq_kv") == [(5, 3), (6, 6), (7, 3)]
    assert [name.split("::K=")[1].split("::")[0] for name in names] == list("555666777666")


def test_a_longer_call_is_described_as_if_it_were_the_first(recorder):
    _, calls, attention = recorder
    q, turned = torch.randn(1, 4, 1, 8), torch.randn(1, 1, 4, 8).transpose(1, 2)

    def cache(length, heads=4, value=8):
        return torch.randn(1, heads, length, 8), torch.randn(1, heads, length, value)

    key, value = cache(13)
    given = [
        (q, *cache(5)), (turned, *cache(6)), (q, *cache(7, heads=2)), (q, *cache(8, heads=2)), (q, *cache(9, value=16)),
        (q, *cache(10, value=16)), (q, key.transpose(1, 2).contiguous().transpose(1, 2), value), (q, *cache(11)),
        (q, *cache(12)), (q[0], key[0, :, :3], value[0, :, :3]),
    ]  # fmt: skip
    for args in given:
        attention(*args, enable_gqa=True)
    rows = calls.to_json()["calls"]
    assert len(rows) == len(given)
    for args, row in zip(given, rows, strict=True):
        facts = attention_facts.facts_of("sdpa", args, {}, None)
        assert {name: row[name] for name in facts} == facts


def test_lines_and_shapes_that_take_turns_are_told_apart(recorder):
    _, calls, attention = recorder
    q, wide = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 16)
    for _ in range(5):
        attention(q, q, q)
        attention(wide, wide, wide)
        attention(wide, wide, wide, is_causal=True)
    found = counts(calls, "head_dim", "causal")
    assert found == [(8, False, 5), (16, False, 5), (16, True, 5)]


def each_difference():
    q = torch.randn(1, 2, 4, 8)
    mask = torch.zeros(4, 4)
    learned = torch.zeros(4, 4, requires_grad=True)
    yield (q, q, q), {}
    yield (q.double(), q.double(), q.double()), {}
    yield (q[:, :, :3], q, q), {}
    yield (q, q[:, :, :3], q[:, :, :3]), {}
    yield (q, q, q), {"is_causal": True}
    yield (q, q, q), {"scale": 0.5}
    yield (q, q, q), {"dropout_p": 0.5}
    yield (q, q, q), {"attn_mask": mask}
    yield (q, q, q), {"attn_mask": mask > 0}
    yield (q, q, q), {"attn_mask": mask[None]}
    yield (q, q, q), {"attn_mask": learned}


def test_each_difference_is_seen(recorder):
    _, calls, attention = recorder
    given = list(each_difference())
    for _ in range(3):
        for args, kwargs in given:
            attention(*args, **kwargs)
    assert [forward for (forward,) in counts(calls)] == [3] * len(given)
    assert calls.to_json()["problems"] == []


def test_autocast_is_seen_within_the_same_line(recorder):
    _, calls, attention = recorder
    q = torch.randn(1, 2, 4, 8)
    for enabled in (False, True, True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            out = attention(q, q, q)
        assert (out.dtype is torch.bfloat16) == enabled
    assert counts(calls, "dtype") == [("fp32", 2), ("bf16", 2)]


def test_a_program_that_is_traced_after_it_ran_is_traced_as_without(recorder):
    _, calls, attention = recorder
    q = torch.randn(1, 2, 4, 8)

    def program(query):
        return attention(query, query, query)

    program(q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(program, q, check_trace=False)
    kinds = {node.kind() for node in traced.graph.nodes()}
    assert "aten::eq" not in kinds
    assert "aten::scaled_dot_product_attention" in kinds
    # Python compares sizes, which torch would trace; the compiled function reads numbers and records this call too.
    assert counts(calls) == [(1,) if calls.fast is None else (2,)]


def test_calls_before_a_fork_are_forgotten_after_it(recorder):
    _, calls, attention = recorder
    q = torch.randn(1, 2, 4, 8)
    for _ in range(4):
        attention(q, q, q)
    calls.clear()
    for _ in range(2):
        attention(q, q, q)
    assert counts(calls) == [(2,)]


def test_gradients_may_be_on_or_off_in_calls_of_one_form(recorder):
    _, calls, attention = recorder
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    for enabled in (True, False, True, True):
        with torch.set_grad_enabled(enabled):
            out = attention(q, q, q)
        if enabled:
            out.sum().backward()
    (call,) = calls.to_json()["calls"]
    assert (call["forward"], call["training"], call["backward"]) == (4, 3, 3)
