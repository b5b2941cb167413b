"""Typed reading of JSON: what is wrong is named by file and field, whatever the file holds."""

import json
import unicodedata
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.errors import PolicyError, TraceError
from nsysprof.files.plain_file import decode_json, encode_json, plain_json, read_json


@dataclass(frozen=True)
class Inner:
    count: int
    ratio: float = 1.0


@dataclass(frozen=True)
class Outer:
    name: str
    inner: tuple[Inner, ...] = ()


def read(path, **options):
    return read_json(path, Outer, kind="a thing of ours", advice="Make another.", **options)


def test_a_round_trip(tmp_path):
    outer = Outer("caf\u00e9 \U0001f600", (Inner(3), Inner(2**70, 0.5)))
    (tmp_path / "x.json").write_bytes(encode_json(outer))
    assert read(tmp_path / "x.json") == outer
    assert decode_json(encode_json(outer), Outer) == outer


def test_a_number_that_is_not_finite_is_null():
    assert json.loads(encode_json({"a": float("nan"), "b": float("inf")})) == {"a": None, "b": None}


def test_bytes_that_are_not_utf8_survive(tmp_path):
    outer = Outer("/data/caf\udce9")
    (tmp_path / "x.json").write_bytes(encode_json(outer))
    assert read(tmp_path / "x.json") == outer


def test_the_error_names_the_file_the_field_and_what_to_do(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"name": "a", "inner": [{"count": 1}, {"count": "2"}]}')
    with pytest.raises(PolicyError) as caught:
        read(path, error=PolicyError)
    assert caught.value.text == f"{path} is not a thing of ours: inner[1].count: expected int, got str."
    assert caught.value.next_step == "Make another."


def test_a_file_that_cannot_be_read_or_is_too_large(tmp_path):
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(TraceError, match="not a plain file"):
        read(tmp_path)
    (tmp_path / "x.json").write_text('{"name": "' + "x" * 1000 + '"}')
    with pytest.raises(TraceError, match=r"too large for a thing of ours \(1,012 bytes\)"):
        read(tmp_path / "x.json", largest_bytes=1000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["name", "inner", "count"]), JSON) | JSON | st.binary(max_size=30))
def test_anything_is_a_thing_of_ours_or_one_error(tmp_path, data):
    path = tmp_path / "x.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    try:
        read(path)
    except TraceError as error:
        assert error.text.startswith(f"{path} is not a thing of ours: ")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_plain_json_is_laid_out_as_by_python(data):
    text = json.dumps(data, indent=1, ensure_ascii=False)
    assert json.dumps(json.loads(plain_json(data)), indent=1, ensure_ascii=False) == text
    if not any(unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for letter in text.replace("\n", "")):
        assert plain_json(data) == text + "\n"
