import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.range_name import format_range, parse_range, varied_keys
from nsysprof.attention.shape import Case
from tests.attention.test_shape_case import CASES


def test_plain_grid_names_backend_and_sequence_only():
    cases = [Case("math", seq=1024), Case("flash", seq=2048)]
    assert varied_keys(cases) == ()
    assert format_range(cases[0]) == "RUN::math::S1024"


def test_varied_dimensions_are_named():
    cases = [Case("flash", seq=1024, batch=8, head_dim=128, pass_="bwd"), Case("flash", seq=1024)]
    keys = varied_keys(cases)
    assert format_range(cases[0], keys) == "RUN::flash::S1024::B=8::D=128::pass=bwd"


def test_kv_heads_are_named_where_they_vary():
    cases = [Case("flash", seq=1024, kv_heads=2), Case("flash", seq=1024)]
    assert [format_range(case, varied_keys(cases)) for case in cases] == [
        "RUN::flash::S1024::KV=2",
        "RUN::flash::S1024::KV=8",
    ]
    assert varied_keys([Case("flash", seq=1024, heads=4), Case("flash", seq=1024)]) == ("H",)


def test_the_length_of_keys_is_named_where_it_differs_from_that_of_queries():
    cases = [Case(name, seq=1, kv_seq=4096) for name in ("flash", "math")]
    assert [format_range(case, varied_keys(cases)) for case in cases] == [
        "RUN::flash::S1::K=4096",
        "RUN::math::S1::K=4096",
    ]
    assert varied_keys([Case("flash", seq=64), Case("flash", seq=128)]) == ()
    parsed = parse_range("RUN::flash::S1::K=4096")
    assert parsed is not None
    assert (parsed.seq, parsed.variant) == (1, "K=4096")


@given(st.lists(CASES, min_size=1, max_size=8, unique=True))
def test_names_are_unique_in_their_grid_and_parse_back(cases):
    keys = varied_keys(cases)
    names = [format_range(case, keys) for case in cases]
    assert len(set(names)) == len(cases)
    for case, name in zip(cases, names, strict=True):
        parsed = parse_range(name)
        assert parsed is not None
        assert (parsed.backend, parsed.seq) == (case.backend, case.seq)
        assert [key for key, _ in parsed.extra] == list(keys)


@given(st.text())
def test_any_text_parses_or_is_none(text):
    parsed = parse_range(text)
    assert parsed is None or text.startswith("RUN::")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "RUN",
        "RUN::",
        "RUN::math",
        "RUN::math::1024",
        "RUN::math::S0",
        "RUN::math::S-1",
        "RUN::math::S1024::",
        "RUN::math::S1024::B=1::B=2",
        "RUN::math::S1024::colour=1",
        "RUN::math::S1024::dtype=int8",
        "RUN::__import__('os')::S1",
        "RUN::<script>::S1",
        "RUN::../../etc::S1",
        "RUN::math::S1 ",
        "run::math::S1",
        "RUN::math::S" + "9" * 600,
    ],
)
def test_everything_else_is_not_ours(name):
    assert parse_range(name) is None
