import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.case import BACKENDS, DTYPES, PASSES, Case, expand_grid
from nsysprof.errors import UsageError

CASES = st.builds(
    Case,
    backend=st.sampled_from([*BACKENDS, "pkg.mod:function"]),
    seq=st.integers(1, 10**6),
    batch=st.integers(1, 512),
    heads=st.integers(1, 128),
    head_dim=st.integers(1, 8192),
    dtype=st.sampled_from(DTYPES),
    causal=st.booleans(),
    pass_=st.sampled_from(PASSES),
    kv_heads=st.none() | st.integers(1, 64),
)


@given(CASES)
def test_json_round_trip(case):
    assert Case.from_json(case.to_json()) == case


def test_json_names_the_pass_as_users_do():
    assert Case("math", 8, pass_="bwd").to_json()["pass"] == "bwd"


def test_sizes_in_bytes():
    case = Case("math", 1024, batch=2, heads=8, head_dim=64, dtype="fp16")
    assert case.input_bytes == 3 * 2 * 8 * 1024 * 64 * 2
    assert case.score_bytes == 2 * 8 * 1024 * 1024 * 2


def test_fewer_heads_of_k_and_v_are_fewer_bytes():
    whole, grouped = Case("math", 1024, heads=8), Case("math", 1024, heads=8, kv_heads=2)
    assert (grouped.key_heads, whole.key_heads) == (2, 8)
    assert grouped.output_bytes == whole.output_bytes == 8 * 1024 * 64 * 2
    assert grouped.input_bytes == (8 + 2 + 2) * 1024 * 64 * 2


def test_the_json_of_older_captures_has_no_kv_heads():
    case = Case("math", 8)
    assert "kv_heads" not in case.to_json()
    assert Case.from_json(case.to_json()).kv_heads is None
    assert Case("math", 8, kv_heads=2).to_json()["kv_heads"] == 2


def test_kv_heads_cross_the_heads_and_equal_cases_are_one():
    cases = expand_grid(["math"], [8], heads=[4, 8], kv_heads=[2, 4])
    assert [(case.heads, case.kv_heads) for case in cases] == [(4, 2), (4, None), (8, 2), (8, 4)]
    assert expand_grid(["math"], [8], heads=[8], kv_heads=[8]) == [Case("math", 8, heads=8)]


def test_grid_is_the_product_in_the_order_given_without_repeats():
    cases = expand_grid(["flash", "math"], [2, 1, 2])
    assert [(c.backend, c.seq) for c in cases] == [("flash", 2), ("flash", 1), ("math", 2), ("math", 1)]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (dict(backends=["quick"], seqs=[1]), "Unknown backend 'quick'"),
        (dict(backends=[], seqs=[1]), "--backend names nothing"),
        (dict(backends=["math"], seqs=[]), "--seq names nothing"),
        (dict(backends=["math"], seqs=[0]), "--seq 0"),
        (dict(backends=["math"], seqs=[-4]), "--seq -4"),
        (dict(backends=["math"], seqs=[1], dtypes=["int8"]), "Unknown dtype 'int8'"),
        (dict(backends=["math"], seqs=[1], passes=["up"]), "Unknown pass 'up'"),
        (dict(backends=["math"], seqs=[1], heads=[0]), "--heads 0"),
        (dict(backends=["math"], seqs=[1], heads=[8, 6], kv_heads=[4]), "--kv-heads 4 does not divide --heads 6"),
        (dict(backends=["math"], seqs=[1], kv_heads=[0]), "--kv-heads 0"),
        (dict(backends=["a.b:c d"], seqs=[1]), "Unknown backend"),
    ],
)
def test_nonsense_is_refused_with_the_next_step(arguments, word):
    with pytest.raises(UsageError, match=word) as caught:
        expand_grid(**arguments)
    assert caught.value.next_step
