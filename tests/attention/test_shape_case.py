import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.mask import BACKENDS, DTYPES, KV_DTYPES, PASSES
from nsysprof.attention.shape import SHAPE_COLUMNS, Case, Shape, case_of_row, expand_grid, make_case
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import decode_json, encode_json, json_value

CASES = st.builds(
    Case,
    backend=st.sampled_from([*BACKENDS, "pkg.mod:function", "hub:owner/a-kernel"]),
    seq=st.integers(1, 10**6),
    batch=st.integers(1, 512),
    heads=st.integers(1, 128),
    head_dim=st.integers(1, 8192),
    dtype=st.sampled_from(DTYPES),
    causal=st.booleans(),
    pass_=st.sampled_from(PASSES),
    kv_heads=st.integers(0, 64),
    head_dim_v=st.integers(0, 512),
    softcap=st.sampled_from([0.0, 50.0, 12.5]),
    sinks=st.booleans(),
    kv_dtype=st.sampled_from(KV_DTYPES),
    page_size=st.sampled_from([0, 16, 256]),
)


@given(CASES)
def test_json_round_trip(case):
    assert decode_json(encode_json(case), Case) == case


def test_json_names_the_pass_as_users_do():
    assert json_value(Case("math", seq=8, pass_="bwd"))["pass"] == "bwd"


def test_a_case_is_a_backend_and_a_shape():
    flash, math = Case("flash", seq=8, heads=4), Case("math", seq=8, heads=4)
    assert flash.shape == math.shape == Shape(seq=8, heads=4)
    assert flash != math
    assert make_case("flash", math.shape) == flash
    assert case_of_row({"backend": "flash", **json_value(math.shape)}) == flash
    assert tuple(json_value(math.shape)) == SHAPE_COLUMNS


def test_sizes_in_bytes():
    case = Case("math", seq=1024, batch=2, heads=8, head_dim=64, dtype="fp16")
    assert case.input_bytes == 3 * 2 * 8 * 1024 * 64 * 2


def test_fewer_heads_of_k_and_v_are_fewer_bytes():
    whole, grouped = Case("math", seq=1024, heads=8), Case("math", seq=1024, heads=8, kv_heads=2)
    assert (grouped.kv_heads, whole.kv_heads) == (2, 8)
    assert grouped.output_bytes == whole.output_bytes == 8 * 1024 * 64 * 2
    assert grouped.input_bytes == (8 + 2 + 2) * 1024 * 64 * 2


def test_the_json_of_older_captures_has_no_kv_heads():
    old = decode_json('{"backend": "math", "seq": 8, "heads": 4, "pass": "fwd"}', Case)
    assert old == Case("math", seq=8, heads=4, kv_heads=4)
    assert (old.kv_heads, old.own_kv_heads) == (4, None)
    assert Case("math", seq=8, kv_heads=2).own_kv_heads == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"backend": "math", "seq": 8.0}', "seq: expected int, got float"),
        ('{"backend": "math", "seq": 0}', "seq: expected int >= 1"),
        ('{"backend": "a b", "seq": 8}', "backend: expected str matching regex"),
        ('{"backend": "math", "seq": 8, "dtype": "fp8"}', "dtype: expected str matching regex"),
        ('{"backend": "math"}', "the field seq is missing"),
    ],
)
def test_a_case_that_is_none_names_its_field(text, says):
    with pytest.raises(ValueError, match=says):
        decode_json(text, Case)


def test_kv_heads_cross_the_heads_and_equal_cases_are_one():
    cases = expand_grid(["math"], [8], heads=[4, 8], kv_heads=[2, 4])
    assert [(case.heads, case.kv_heads) for case in cases] == [(4, 2), (4, 4), (8, 2), (8, 4)]
    assert expand_grid(["math"], [8], heads=[8], kv_heads=[8]) == [Case("math", seq=8, heads=8)]


def test_keys_of_another_length_cross_the_lengths_of_q():
    cases = expand_grid(["math"], [1, 64], kv_seqs=[64, 4096])
    assert [(case.seq, case.kv_seq) for case in cases] == [(1, 64), (1, 4096), (64, 64), (64, 4096)]
    assert [case.own_kv_seq for case in cases] == [64, 4096, None, 4096]
    assert expand_grid(["math"], [64], kv_seqs=[64]) == expand_grid(["math"], [64])
    with pytest.raises(UsageError, match="--kv-seq 0 is not a valid size"):
        expand_grid(["math"], [64], kv_seqs=[0])


def test_grid_is_the_product_in_the_order_given_without_repeats():
    cases = expand_grid(["flash", "math"], [2, 1, 2])
    assert [(c.backend, c.seq) for c in cases] == [("flash", 2), ("flash", 1), ("math", 2), ("math", 1)]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (dict(backends=["quick"], seqs=[1]), "Unknown backend 'quick'"),
        (dict(backends=[], seqs=[1]), "--backend is empty"),
        (dict(backends=["math"], seqs=[]), "--seq is empty"),
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
