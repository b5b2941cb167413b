"""The batch grammar is vLLM's, and a slip is answered with what was probably meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.shape import BatchGroup, parse_batch_specs
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        ("q2k", [(1, 2048, 2048)]),
        ("8q1s1k", [(8, 1, 1024)]),
        ("q1ks4k", [(1, 1024, 4096)]),
        ("q4s1000", [(1, 4, 1000)]),
        ("2q2k_32q1s1k", [(2, 2048, 2048), (32, 1, 1024)]),
        ("16q4s1k_q4s1k_16q4s1k", [(16, 4, 1024), (1, 4, 1024)]),
    ],
)
def test_the_grammar(spec, groups):
    assert parse_batch_specs([spec]) == [BatchGroup(*group) for group in groups]


def test_several_batches_have_each_group_once():
    assert parse_batch_specs(["q2k", "8q1s1k", "2q2k_8q1s1k"]) == [
        BatchGroup(1, 2048, 2048), BatchGroup(8, 1, 1024), BatchGroup(2, 2048, 2048)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        ("8s1k", "8q1s1k"),
        ("8Q1S1K", "8q1s1k"),
        ("8q1kv1k", "8q1s1k"),
        ("8xq1s1k", "8q1s1k"),
        ("2q2k+32q1s1k", "2q2k_32q1s1k"),
        ("2q2k__32q1s1k", "2q2k_32q1s1k"),
        ("2k", "q2k"),
        ("8qs1k", "8q1s1k"),
        ("q1kb", "q1k"),
    ],
)
def test_a_slip_names_the_nearest_that_works(spec, near):
    with pytest.raises(UsageError, match="--batch-spec: ") as caught:
        parse_batch_specs([spec])
    assert f"Did you mean {near}?" in caught.value.next_step
    parse_batch_specs([near])


@pytest.mark.parametrize("spec", ["", "q", "0q1", "8q0s1k", "decode", "8q1s", "q1.5k", "8q1s1m", "q9999999999"])
def test_what_no_slip_explains_shows_the_grammar(spec):
    with pytest.raises(UsageError, match=r"is not \[COUNT\]qQUERIES\[k\]\[sKEYS\[k\]\]") as caught:
        parse_batch_specs([spec])
    assert "8q1s1k decodes 8 sequences" in caught.value.next_step


def test_fewer_keys_than_queries_are_refused():
    with pytest.raises(UsageError, match="1,024 keys are fewer than the 2,048 queries") as caught:
        parse_batch_specs(["4q2ks1k"])
    assert "4q2ks2k, or 4q1ks2k?" in caught.value.next_step


@given(st.text(alphabet="0189qsk_kv", max_size=12))
def test_any_text_is_read_or_refused(spec):
    try:
        groups = parse_batch_specs([spec])
    except UsageError:
        return
    assert all(group.keys >= group.queries >= 1 and group.sequences >= 1 for group in groups)
