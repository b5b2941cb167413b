"""Shapes that the search left open follow their neighbours, or what torch chose in the program."""

import pandas as pd
import pytest

from nsysprof.analysis.attention_tuning.winning_rules import fill_groups, settle_own_choices
from nsysprof.analysis.sampling.tune import Choice
from nsysprof.attention.shape import make_case, row_of_case
from tests.analysis.attention_tuning.test_program_gain import program


def test_shapes_between_the_ends_of_a_group_follow_them_where_they_agree():
    shapes = program(*({"seq_q": 1, "seq_kv": 100 + step, "mask": "none"} for step in range(10)))
    last, first = (use.shape for use in shapes.chosen.chosen)
    agree = [Choice(last, "flash", "winner", 1.0, 1.1), Choice(first, "flash", "winner", 1.0, 1.1)]
    filled = fill_groups(shapes.chosen, agree)
    assert sorted(choice.shape.kv_seq for choice in filled) == list(range(100, 110))
    assert {choice.backend for choice in filled} == {"flash"}
    assert len(fill_groups(shapes.chosen, [agree[0], Choice(first, "auto", "tie", 1.0, 1.0)])) == 2


@pytest.mark.parametrize(
    ("tied", "ran", "why"),
    [
        ("auto", "cudnn", "own choice"),
        ("auto, flash", "cudnn", "inconclusive"),
        ("auto", "flash", "inconclusive"),
        ("auto", None, "inconclusive"),
    ],
)
def test_what_torch_chose_in_the_program_is_no_open_question(tied, ran, why):
    shapes = program({"backend_ran": ran})
    (shape,) = (use.shape for use in shapes.chosen.chosen)
    winners = pd.DataFrame([{**row_of_case(make_case("cudnn", shape)), "tied": tied}])
    (settled,) = settle_own_choices(shapes.captured, [Choice(shape, "auto", "inconclusive", 1.0, 1.0)], winners)
    assert settled.why == why
