import pytest

from nsysprof.cli.terminal.program_output import parse_ranks
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("text", "ranks"), [("", ()), ("0,8-11", (0, 8, 9, 10, 11)), ("3, 3 ,1-2", (1, 2, 3)), ("5-5", (5,))]
)
def test_ranks_and_spans_of_ranks(text, ranks):
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1-2-3"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="is not a valid rank") as caught:
        parse_ranks(text)
    assert "0,8-11" in caught.value.next_step
