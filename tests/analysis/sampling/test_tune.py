import numpy as np
import pytest

from nsysprof.analysis.sampling.bench import summarize_bench, survivors, unsettled
from nsysprof.analysis.sampling.tune import (
    cells_to_confirm,
    cells_to_measure,
    choose_backends,
    decides_something,
    find_winners,
    insights,
    replace_by_again,
)
from nsysprof.attention.shape import Case
from nsysprof.results.samples import Block
from tests.analysis.blocks import make_blocks

BACKENDS = ("auto", "math", "flash")


def blocks_of(medians, count=12, **fields):
    rng = np.random.default_rng(1)
    return [
        block
        for cell, median in enumerate(medians)
        for block in make_blocks(rng, count, cell=cell, median=median, within=0.01, **fields)
    ]


def tuned(medians, seqs=(512,), **fields):
    cells = [Case(backend, seq=seq) for seq in seqs for backend in BACKENDS]
    results = summarize_bench(cells, [str(i) for i in range(len(cells))], blocks_of(medians, **fields), {}, {})
    return results, find_winners(results.table)


def near(value, count=6, spread=0.01):
    return np.random.default_rng(int(value)).normal(value, spread * value, count)


def test_what_is_far_behind_goes_after_one_block():
    medians = {"a": near(100, 1), "b": near(110, 1), "c": near(160, 1), "d": near(250, 1)}
    assert survivors(medians, ()) == ["a", "b", "c"]


def test_the_best_two_stay_whatever_comes():
    assert survivors({"a": near(100), "b": near(900), "c": near(901)}, {"b", "c"}) == ["a", "b"]


def test_what_the_test_calls_slower_goes():
    assert survivors({"a": near(100), "b": near(101), "c": near(115)}, {"c"}) == ["a", "b"]
    assert survivors({"a": near(100), "b": near(101), "c": near(115)}, ()) == ["a", "b", "c"]


def test_unsettled():
    assert unsettled({"a": near(100, 12), "b": near(150, 12)}, ()) == []
    assert unsettled({"a": near(100, 12), "b": near(150, 5)}, ()) == ["b"]
    assert unsettled({"a": near(100, 12), "b": np.array([])}, ()) == ["b"]
    assert unsettled({"a": near(100, 3)}, ()) == ["a"]
    assert unsettled({"a": near(100, 4)}, ()) == []


def test_what_is_dropped_on_the_way_is_slower_in_the_end_however_many_shapes_there_are():
    for shapes in (1, 60):
        cells = [Case(backend, seq=16 * (1 + s)) for s in range(shapes) for backend in BACKENDS]
        medians = (100e3, 120e3, 100.1e3) * shapes
        measured = {n: cells_to_measure(cells, blocks_of(medians, count=n), 12) for n in (4, 5, 6, 7, 8, 9, 10)}
        still = [n for n, chosen in measured.items() if any(cells[cell].backend == "math" for cell in chosen)]
        assert 10 not in still
        results = summarize_bench(cells, [str(i) for i in range(len(cells))], blocks_of(medians, count=12), {}, {})
        ours = results.table[results.table["backend"] == "math"]
        assert set(ours["verdict"]) == {"slower"}


def test_a_cell_that_failed_is_out_of_the_race():
    cells = [Case(backend, seq=512) for backend in BACKENDS]
    blocks = [*blocks_of((100, 100), count=1), Block(2, 0, 0, "crashed", "x")]
    assert cells_to_measure(cells, blocks, 12) == [0, 1]
    assert cells_to_measure(cells, [], 12) == [0, 1, 2]


def test_a_winner_needs_a_real_difference():
    _, winners = tuned((120e3, 400e3, 100e3))
    row = winners.iloc[0]
    assert (row["backend"], row["verdict"], row["runner_up"]) == ("flash", "winner", "auto")
    assert row["margin"] == pytest.approx(1.2, rel=0.02)
    assert row["over_auto"] == pytest.approx(1.2, rel=0.02)
    _, winners = tuned((100e3, 400e3, 100e3))
    assert winners.iloc[0]["verdict"] == "tie"


def test_the_policy_leaves_to_torch_what_nothing_beats():
    for medians, backend, why in (
        ((120e3, 400e3, 100e3), "flash", "winner"),
        ((100e3, 400e3, 100e3), "auto", "tie"),
        ((100e3, 400e3, 150e3), "auto", "winner"),
        ((200e3, 100e3, 100e3), None, "tie"),
    ):
        _, winners = tuned(medians)
        (choice,) = choose_backends(winners)
        assert choice.why == why
        assert choice.backend == backend or (backend is None and choice.backend in ("math", "flash"))


def test_a_shape_on_which_nothing_ran_has_no_choice():
    cells = [Case("math", seq=512)]
    results = summarize_bench(cells, ["0"], [Block(0, 0, 0, "out_of_memory", "x")], {}, {})
    winners = find_winners(results.table)
    assert winners.iloc[0]["verdict"] == "unknown"
    assert choose_backends(winners) == []
    assert insights(results.table, winners, None) == ["Nothing could be measured."]


def test_less_work_is_no_speedup():
    """A quarter of the sequence, a sixteenth of the work: a fifth of the time is slower and not five times faster."""
    medians = (63.5e3, 300e3, 63.5e3, 320.5e3, 2868e3, 320.5e3)
    results, winners = tuned(medians, seqs=(128, 512))
    said = [line for line in insights(results.table, winners, 1.0) if "sequence length" in line]
    assert len(said) == 1
    assert said[0].startswith("From sequence length 128 to 512 the best takes 5.0")
    assert said[0].endswith("faster per operation.")
    assert "for 16 times the operations: 3.1" in said[0]
    assert not any("speedup" in line for line in insights(results.table, winners, 1.0))


def test_many_shapes_of_the_same_code_have_hardly_a_winner():
    seqs = tuple(range(16, 16 * 41, 16))
    _, winners = tuned((100e3,) * 120, seqs=seqs, between=0.01)
    assert (winners["verdict"] == "winner").sum() <= 1


def searched_and_again(medians, again):
    """Return the winners of a search, of what was measured again, and of both together; None was not measured."""
    cells = [Case(backend, seq=512) for backend in BACKENDS]
    names = list(BACKENDS)
    first = summarize_bench(cells, names, blocks_of(medians), {}, {})
    later = [block for block in blocks_of([each or 1 for each in again], count=9) if again[block.cell] is not None]
    second = summarize_bench(cells, names, later, {}, {})
    table, shapes = replace_by_again(first.table, second.table)
    return cells_to_confirm(cells, first.table), table, find_winners(table, shapes)


def test_a_winner_is_measured_again_with_its_rival_and_torchs_own_choice():
    chosen, table, winners = searched_and_again((120e3, 400e3, 100e3), (105e3, None, 100e3))
    assert chosen == [0, 2], "flash, which is the fastest, and auto, which is second"
    row = winners.iloc[0]
    assert (row["backend"], row["verdict"], row["measured_again"]) == ("flash", "winner", True)
    assert row["over_auto"] == pytest.approx(1.05, rel=0.01), "not the 1.2 of the search"
    assert list(table["rank"]) == [2, 3, 1]
    assert any("measured again" in line for line in insights(table, winners, None))
    assert searched_and_again((150e3, 120e3, 100e3), (None,) * 3)[0] == [0, 1, 2], "torch's own choice, even as third"


def test_what_fresh_processes_do_not_confirm_has_no_winner_and_stays_with_torch():
    _, _, winners = searched_and_again((120e3, 400e3, 100e3), (100e3, None, 100.2e3))
    assert winners.iloc[0]["verdict"] == "tie"
    (choice,) = choose_backends(winners)
    assert choice.backend == "auto"


def test_a_shape_of_which_nothing_is_claimed_is_not_measured_again():
    chosen, _, winners = searched_and_again((100e3, 400e3, 100e3), (None, None, None))
    assert chosen == []
    assert not winners.iloc[0]["measured_again"]


def disturbed(shapes, stalls=0.0, processes=1.0):
    """Return what a tuning says where torch's own choice takes twice as long, on a machine that stalls or is noisy.

    stalls: the share of samples that stall. processes: how many times slower one process of math is, and one faster.
    """
    random, level = np.random.default_rng(0), {"auto": (2.0, 2.0, 2.0), "math": (1.0, processes, 1 / processes)}
    cells = [Case(backend, seq=64 * (shape + 1)) for shape in range(shapes) for backend in ("auto", "math")]
    blocks = [
        Block(cell, process, turn, "ok", started_ns=1000 * (5 * process + turn), values_ns=tuple(
            int(100_000 * level[cells[cell].backend][process] * (20 if random.random() < stalls else 1))
            for _ in range(10)
        ))
        for cell in range(len(cells)) for process in range(3) for turn in range(5)
    ]  # fmt: skip
    results = summarize_bench(cells, [str(case) for case in cells], blocks, {}, {})
    return results, results.table, find_winners(results.table)


def test_of_shapes_that_stall_nothing_is_computed_and_processes_are_not_said_to_help():
    results, table, winners = disturbed(2, stalls=0.4)
    lines = insights(table, winners, results.floor_pct)
    assert lines == [
        "Of 2 shapes: 2 are refused, as samples stall.",
        "Whether torch's own choice is beaten is unknown on 2 of 2 shapes, whose samples stall: measure them again "
        "where nothing else runs.",
    ]
    assert (results.floor_pct, results.floor_pairs) == (None, 0)
    assert table["to_beat_ns"].isna().all()
    assert not decides_something(choose_backends(winners))


def test_undecided_shapes_are_not_called_shapes_that_need_no_policy():
    _, table, winners = disturbed(2, processes=1.6)
    assert list(winners["verdict"]) == ["inconclusive"] * 2
    (line,) = [line for line in insights(table, winners, None) if "own choice" in line]
    assert "undecided on 2 of 2 shapes" in line
    assert "no policy is needed" not in line
    assert f"up to {winners['over_auto'].max():.3g} times" in line
    assert not decides_something(choose_backends(winners))


def test_a_policy_chooses_nothing_that_is_undecided_though_torchs_own_choice_was_not_measured():
    _, winners = tuned([100_000, 100_200, 100_100], (512,))
    unmeasured = winners.assign(verdict="inconclusive", backend="flash", tied="math", over_auto=None)
    assert [choice.backend for choice in choose_backends(unmeasured)] == ["auto"]


def test_shapes_whose_backends_tie_need_no_policy():
    results, winners = tuned([100_000, 100_000, 100_000] * 2, (512, 1024))
    if set(winners["verdict"]) == {"tie"}:
        assert any("no policy is needed" in line for line in insights(results.table, winners, None))
    assert decides_something(choose_backends(winners)) == ("inconclusive" not in set(winners["verdict"]))
