import pytest

from nsysprof.app.inputs.options import CAUSAL, NAMES, RANKS, SIZES, Option, OptionField
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("text", "ranks"), [("", ()), ("0,8-11", (0, 8, 9, 10, 11)), ("3, 3 ,1-2", (1, 2, 3)), ("5-5", (5,))]
)
def test_ranks_and_spans_of_ranks(text, ranks):
    assert RANKS.read(text, "--ranks") == ranks


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1-2-3"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="is not a valid rank") as caught:
        RANKS.read(text, "--ranks")
    assert "0,8-11" in caught.value.next_step


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [(NAMES, "math, flash", ("math", "flash")), (SIZES, "16,32", (16, 32)), (CAUSAL, "both", (True, False))],
)
def test_the_default_is_shown_as_it_would_be_typed(form, text, value):
    assert form.read(text, "--some") == value
    assert form.read(form.show(value), "--some") == value


def test_a_size_that_is_no_number_is_refused_with_the_name_of_its_option():
    field = OptionField("seqs", str, Option("Lengths.", ("--seq",), form=SIZES), (16,))
    with pytest.raises(UsageError, match="--seq '1k' is not an integer"):
        field.read("16,1k")
    assert (field.flag, field.typed_default) == ("--seq", "16")
