"""The time of a search is shared by what the program spends on each shape."""

from nsysprof.analysis.attention_tuning.choose_shapes import cells_by_share
from nsysprof.attention.shape import make_case
from nsysprof.results.samples import Block
from tests.analysis.attention_tuning.test_program_gain import program


def test_the_next_cells_are_those_that_had_little_for_their_share():
    shapes = program({"kernel_total_ns": 9000}, {"seq_q": 64, "kernel_total_ns": 1000})
    heavy, light = (use.shape for use in shapes.chosen.chosen)
    cells = [make_case("auto", heavy), make_case("auto", light)]
    assert cells_by_share(shapes.chosen, cells, [0, 1], []) == [0, 1]
    blocks = [Block(cell, 0, 0, "ok", values_ns=(10**9,)) for cell in (0, 1)]
    assert cells_by_share(shapes.chosen, cells, [0, 1], blocks) == [0]
    assert cells_by_share(shapes.chosen, cells, [1], blocks) == [1]
