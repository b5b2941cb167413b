import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_ns(842), "842 ns"),
        (units.format_ns(23_412), "23.4 us"),
        (units.format_ns(2_500_000_000), "2.50 s"),
        (units.format_bytes(4 << 20), "4 MiB"),
        (units.format_bytes(1_471_026_298), "1.37 GiB"),
        (units.format_count(1234), "1,234"),
        (units.format_count(0.5), "0.50"),
        (units.format_rate(4.02e12, "B/s"), "4.02 TB/s"),
        (units.format_interval_ns(52_540, 50_300, 54_460), "52.5 [50.3, 54.5] us"),
        (units.format_interval_ns(423_800, 0, 8_476_000), "0.424 [0, 8.48] ms"),
        (units.format_ns(999_600), "1.00 ms"),
        (units.format_ns(999_600, units.TABLE_DIGITS), "999.6 us"),
        (units.format_ns(23_412, units.TABLE_DIGITS), "23.41 us"),
        (units.format_bytes(1_471_026_298, units.TABLE_DIGITS), "1.370 GiB"),
        (units.format_factor(12.23), "12x"),
        (units.format_factor(9.97), "10x"),
        (units.format_factor(8.667), "8.7x"),
        (units.format_factor(1.04), "1.04x"),
        (units.format_factor(1.999), "2.0x"),
    ],
)
def test_numbers_as_text(text, expected):
    assert text == expected


@pytest.mark.parametrize(
    "render", [units.format_ns, units.format_bytes, units.format_count, units.format_ratio, units.format_factor]
)
@pytest.mark.parametrize("value", [None, float("nan")])
def test_unknown_is_a_dash(render, value):
    assert render(value) == units.UNKNOWN


@given(st.floats(1, 1e15))
def test_three_digits_are_kept(value):
    number, unit = units.format_ns(value).split(" ")
    scale = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number) * scale == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(
    ("baseline_ns", "candidate_ns", "expected"),
    [
        (64_410_000, 76_160_000, ("64.4 ms", "76.2 ms")),
        (64_410_000, 64_440_000, ("64.41 ms", "64.44 ms")),
        (64_410_000, 64_410_001, ("64.4 ms", "64.4 ms")),
        # "196 ms instead of 197 ms" would contradict "0.1 % shorter".
        (196_520_000, 196_310_000, ("196.5 ms", "196.3 ms")),
    ],
)
def test_values_that_are_compared_have_the_digits_that_tell_them_apart(baseline_ns, candidate_ns, expected):
    assert units.format_apart(units.format_ns, baseline_ns, candidate_ns) == expected
