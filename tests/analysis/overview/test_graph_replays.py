import pytest

from nsysprof.analysis.overview.graph_replays import ShortReplays, find_short_replays
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


def find(tmp_path, replays, *, name="cudaGraphLaunch_v10000", more=(), high=2):
    """replays: for each replay the graph and the nodes that were recorded."""
    builder = TraceBuilder()
    for extra in more:
        builder.call(1, 2, 900, extra)
    for number, (graph, nodes) in enumerate(replays, 1):
        builder.call(1000 * number, 1000 * number + 10, number, name)
        for node in nodes:
            at = 1000 * number + 100 + 60 * node
            builder.kernel(at, at + 50, number, node=((high + graph) << 32 if high else 0) + node + 1)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        return find_short_replays(read_tables(trace))


def test_graphs_of_different_sizes_lack_nothing(tmp_path):
    assert find(tmp_path, [(0, range(3)), (1, range(5)), (0, range(3)), (1, range(5))]) is None


@pytest.mark.parametrize("dropped", [0, 2])
def test_a_dropped_node_is_found_whichever_it_is(tmp_path, dropped):
    left = [node for node in range(3) if node != dropped]
    assert find(tmp_path, [(0, range(3)), (0, left), (0, range(3))]) == ShortReplays(1, 3, 1, are_last=False)


def test_replays_that_each_lost_another_node_are_judged_by_all_of_them(tmp_path):
    assert find(tmp_path, [(0, (1, 2)), (0, (0, 2)), (0, (0, 1))]) == ShortReplays(3, 3, 3, are_last=False)


def test_the_last_replay_may_have_been_cut_off(tmp_path):
    assert find(tmp_path, [(0, range(3)), (0, range(3)), (0, range(1))]) == ShortReplays(1, 3, 2, are_last=True)


@pytest.mark.parametrize("how", [{"more": ["cudaGraphNodeSetEnabled_v11060"]}, {"high": 0}])
def test_graphs_that_vary_or_have_no_number_are_not_judged(tmp_path, how):
    assert find(tmp_path, [(0, range(3)), (0, range(1)), (0, range(3))], **how) is None


def test_a_real_trace_has_all_nodes(trace_path):
    with open_trace(trace_path("graph_node")) as trace:
        assert find_short_replays(read_tables(trace)) is None
