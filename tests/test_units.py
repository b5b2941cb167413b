import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof import units
from nsysprof.units import sort_value

POSITIVE = st.floats(1e-3, 1e15)


@pytest.mark.parametrize(
    "write",
    [
        units.format_ns, units.format_bytes, units.format_count, units.format_ratio, units.format_percent,
        lambda value: units.format_rate(value, "B/s"), lambda value: units.format_interval_ns(value, value, value),
    ],
)  # fmt: skip
@given(one=POSITIVE, other=POSITIVE)
def test_texts_sort_as_their_numbers(write, one, other):
    assert sort_value(write(one)) == pytest.approx(one, rel=0.01, abs=0.006)
    if one < other * 0.98 - 0.01:
        assert sort_value(write(one)) < sort_value(write(other))


def test_bytes_with_an_error_bar():
    assert sort_value("738 GiB ± 12.7 GiB") == 738 * 2**30


@pytest.mark.parametrize(
    "text", [units.UNKNOWN, "", "math::S1024", "12 monkeys", "1.2.3", "--1", "S=1024", "9" * 400 + "x y"]
)
def test_other_texts_have_no_number(text):
    assert sort_value(text) is None
