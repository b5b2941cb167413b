import pytest

from nsysprof.results.samples import OK, Block, event_over_graph, named_times, steady_samples

BLOCKS = [
    Block(0, process, 0, OK, values_ns=(900, 40, 42, 44, 46), other_caches_ns=(99, 20, 22, 24, 26), graph_ns=(21, 21),
          empty_ns=2)
    for process in range(2)
]  # fmt: skip


def test_the_two_states_of_the_caches_keep_their_names_whichever_was_judged():
    cold, warm = named_times(BLOCKS, flush=True), named_times(BLOCKS, flush=False)
    assert (cold["cold_ns"], cold["warm_ns"]) == (43, 23), "without the first sample of each block"
    assert (warm["cold_ns"], warm["warm_ns"]) == (23, 43)
    assert cold["empty_ns"] == 2


def test_what_was_not_measured_is_unknown():
    assert set(named_times([], flush=True).values()) == {None}
    assert named_times([Block(0, 0, 0, OK, values_ns=(5, 6))], flush=True)["warm_ns"] is None


def test_samples_over_replays_in_blocks_that_have_both():
    assert event_over_graph(BLOCKS) == pytest.approx(43 / 21)
    assert event_over_graph([Block(0, 0, 0, OK, values_ns=(5,)), *BLOCKS]) == pytest.approx(43 / 21)
    assert event_over_graph([Block(0, 0, 0, OK, values_ns=(5,))]) is None


def test_the_first_of_five_samples_does_not_count():
    assert [len(steady_samples(range(count))) for count in (1, 4, 5, 10)] == [1, 4, 4, 9]
