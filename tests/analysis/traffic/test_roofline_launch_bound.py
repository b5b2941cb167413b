import pytest

from nsysprof.analysis.traffic.roofline import is_bench_launch_bound, is_launch_bound
from nsysprof.results.samples import OK, Block

STEADY, SCATTERED = (100, 101, 99), (100, 150, 60)


@pytest.mark.parametrize(
    ("kernel_ns", "latency_ns", "bound"),
    [(74, 100, True), (75, 100, False), (None, 100, False), (10, None, False), (0, 0, False)],
)
def test_kernels_that_fill_too_little_of_a_call(kernel_ns, latency_ns, bound):
    assert is_launch_bound(kernel_ns, latency_ns) is bound


@pytest.mark.parametrize(
    ("shares", "values", "bound"),
    [
        ((0.75,), SCATTERED, True),
        ((0.75,), STEADY, False),  # a flush hides the launching
        ((0.75,), (200, 100, 101, 99, 100), False),  # the first sample of a block does not count
        ((0.74,), SCATTERED, False),
        ((None,), SCATTERED, False),
        ((0.9, 0.8, 0.1), SCATTERED, True),  # the median decides
        ((0.9, 0.1, 0.1), SCATTERED, False),
        ((None, 0.8), SCATTERED, True),
    ],
)
def test_launching_that_takes_most_of_a_call_and_shows(shares, values, bound):
    blocks = [Block(0, i, 0, OK, values_ns=values, launch_share=share) for i, share in enumerate(shares)]
    assert is_bench_launch_bound(blocks) is bound


def test_a_replay_as_a_graph_decides_where_there_is_one():
    assert is_launch_bound(99, 100, 1.34)
    assert not is_launch_bound(1, 100, 1.33)
    blocks = [Block(0, 0, 0, OK, values_ns=STEADY, graph_ns=(70, 70), launch_share=0.1)]
    assert is_bench_launch_bound(blocks)
    assert not is_bench_launch_bound([Block(0, 0, 0, OK, values_ns=SCATTERED, graph_ns=(90,), launch_share=0.9)])
