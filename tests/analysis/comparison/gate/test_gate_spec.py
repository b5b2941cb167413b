import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.comparison.gate.gate import (
    GateRule,
    known_metrics,
    margin_of,
    parse_gate,
    refuse_traced,
)
from nsysprof.analysis.sampling.significance import MARGIN_PCT
from nsysprof.errors import UsageError


def test_the_rules_of_the_documentation():
    assert parse_gate("slower:3%,launches:+1,vram:+5%") == (
        GateRule("slower:3%", "slower", 3.0, True),
        GateRule("launches:+1", "launches", 1.0, False),
        GateRule("vram:+5%", "vram", 5.0, True),
    )


@pytest.mark.parametrize(
    ("text", "metric", "limit", "percent"),
    [
        ("faster:10%", "faster", 10, True),
        ("bytes:1MiB", "moved", 1 << 20, False),
        ("memcpy:+2 GB", "copied", 2 * 10**9, False),
        ("kernel-time:5%", "kernel_time", 5, True),
        ("kernel_time:1.5us", "kernel_time", 1500, False),
        ("gaps:2ms", "gaps", 2_000_000, False),
        ("kernels:0.5", "kernels", 0.5, False),
        ("step:3%", "step", 3, True),
        ("step:+2ms", "step", 2_000_000, False),
    ],
)
def test_units(text, metric, limit, percent):
    (rule,) = parse_gate(text)
    assert (rule.metric, rule.limit, rule.percent) == (metric, limit, percent)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("slower", "'slower' is not a valid rule"),
        ("slower:3%,", "'' is not a valid rule"),
        ("slower:-3%", "is not a valid rule"),
        ("slower:3%%", "is not a valid rule"),
        ("slower:3", "needs a percentage"),
        ("slower:0%", "would always fail"),
        ("speed:3%", "unknown metric 'speed'"),
        ("launches:1MiB", "has the unit 'MiB'"),
        ("vram:100", "needs a unit"),
        ("vram:5ms", "has the unit 'ms'"),
        ("launches:1e9", "unit 'e'"),
        ("step:3", "'step:3' needs a unit"),
        ("slower:3%,slower:5%", "two rules for slower"),
        ("copied:1%,memcpy:2%", "two rules for copied"),
        ("__import__:1%", "unknown metric"),
    ],
)
def test_what_is_no_gate(text, says):
    with pytest.raises(UsageError, match=says.replace("(", r"\(")) if says != "unit 'e'" else pytest.raises(UsageError):
        parse_gate(text)


def test_the_margin_is_the_limit_of_the_latency_or_else_of_a_step():
    assert margin_of(parse_gate("step:4%,slower:2%")) == 2
    assert margin_of(parse_gate("launches:+1,step:4%")) == 4
    assert margin_of(parse_gate("step:+4ms")) == MARGIN_PCT
    assert margin_of(()) == MARGIN_PCT


def test_rules_about_traces_are_refused_where_nothing_is_traced():
    refuse_traced(parse_gate("slower:3%,faster:3%,vram:5%"))
    for text in ("step:3%", "launches:+1", "finding:any"):
        with pytest.raises(UsageError, match=f"'{text.replace('+', '.')}' needs a trace"):
            refuse_traced(parse_gate(f"slower:3%,{text}"))


@given(st.text(max_size=40))
def test_any_text_is_rules_or_a_usage_error(text):
    try:
        rules = parse_gate(text)
    except UsageError as error:
        assert error.next_step
    else:
        assert all(rule.limit > 0 for rule in rules)


def test_every_known_metric_takes_a_percentage():
    assert all(parse_gate(f"{name}:1%") for name in known_metrics())
