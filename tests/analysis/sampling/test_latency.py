import numpy as np
import pytest

from nsysprof.analysis.sampling.latency import block_medians, interval_of_process, summarize_latency
from nsysprof.results.samples import Block
from tests.analysis.blocks import make_blocks


@pytest.mark.parametrize("between", [0.0, 0.02])
@pytest.mark.parametrize("blocks", [3, 5, 15])
def test_the_interval_of_one_process_holds_as_often_as_it_says(between, blocks):
    """Blocks, not samples: with 15 blocks that differ, an interval of pooled samples holds in a third."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(200):
        found = summarize_latency(make_blocks(rng, blocks, between=between, processes=1))
        assert found.interval_of == "blocks"
        held += found.low_ns <= 100_000 <= found.high_ns
    assert 0.91 <= held / 200 <= 0.99


def test_statistics_of_known_values():
    values = [100] * 98 + [300, 10_000]
    # The first sample of a block does not count.
    blocks = [Block(0, i // 2, i, "ok", started_ns=i, values_ns=(777, *values[i::4])) for i in range(4)]
    found = summarize_latency(blocks)
    assert (found.samples, found.blocks, found.processes) == (100, 4, 2)
    assert (found.median_ns, found.min_ns, found.max_ns) == (pytest.approx(100), 100, 10_000)
    assert found.outliers == 2
    assert found.mean_ns == pytest.approx(np.mean(values))
    assert found.stddev_ns == pytest.approx(np.std(values, ddof=1))
    assert found.cv_pct == pytest.approx(100 * found.stddev_ns / found.mean_ns)
    assert found.p95_ns == np.quantile(values, 0.95)
    assert found.p99_ns == np.quantile(values, 0.99)


def test_too_few_samples_give_no_interval_and_no_percentile():
    found = summarize_latency([Block(0, 0, 0, "ok", values_ns=(5, 7, 9))])
    assert (found.low_ns, found.high_ns, found.interval_of) == (None, None, "")
    assert (found.p95_ns, found.p99_ns, found.drift_pct) == (None, None, None)
    assert found.median_ns == 7
    one = summarize_latency([Block(0, 0, 0, "ok", values_ns=(5,))])
    assert (one.stddev_ns, one.cv_pct) == (None, None)


def test_two_blocks_of_one_process_are_judged_by_their_samples():
    found = summarize_latency([Block(0, 0, i, "ok", values_ns=(7, 5, 9, 6, 8)) for i in range(2)])
    assert (found.interval_of, found.low_ns, found.median_ns, found.high_ns) == ("samples", 5, 7, 9)


def test_values_that_are_all_equal():
    blocks = [Block(0, 0, i, "ok", started_ns=i, values_ns=(500,) * 10) for i in range(6)]
    found = summarize_latency(blocks)
    assert (found.low_ns, found.high_ns) == pytest.approx((500, 500))
    assert (found.stddev_ns, found.outliers) == (0, 0)
    assert (found.drift_pct, found.drift_p) == (0.0, 1.0)


def test_failed_blocks_do_not_count():
    assert summarize_latency([Block(0, 0, 0, "crashed", "it died")]) is None
    blocks = [Block(0, 0, 0, "ok", values_ns=(5, 7)), Block(0, 1, 0, "crashed")]
    assert list(block_medians(blocks)) == [6]
    assert summarize_latency(blocks).processes == 1


def test_a_drift_is_measured_and_none_is_not():
    rng = np.random.default_rng(3)
    rising = summarize_latency(make_blocks(rng, 15, drift=0.10, within=0.002))
    assert rising.drift_pct == pytest.approx(10, abs=2)
    assert rising.drift_p < 0.001
    level = summarize_latency(make_blocks(rng, 15, within=0.002))
    assert abs(level.drift_pct) < 1


def test_blocks_of_different_length_count_alike():
    blocks = [Block(0, 0, i, "ok", values_ns=(100 + i,) * (10 + i)) for i in range(5)]
    found = interval_of_process([np.asarray(block.values_ns, float) for block in blocks])
    low, high = found.low_ns, found.high_ns
    assert (found.kind, found.middle_ns) == ("blocks", pytest.approx(102, abs=0.02))
    # 102 ± 2.776 * sqrt(2.5 / 5), of the levels 100 to 104.
    assert (low, high) == pytest.approx((100.04, 103.96), abs=0.1)


def test_a_latency_lies_inside_its_own_interval_under_drift_and_clocks():
    """The median of all samples lay outside in 7 to 21 % of such cases: it is no middle of two clocks."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        clocks = np.log(1.2) * (rng.random(15) < 0.4) + np.linspace(0, 0.15, 15)
        blocks = [
            Block(0, i // 5, i, "ok", values_ns=tuple(np.exp(11.5 + level + rng.normal(0, 0.01, 10)).astype(int)))
            for i, level in enumerate(clocks)
        ]
        found = summarize_latency(blocks)
        assert found.low_ns <= found.median_ns <= found.high_ns


def test_graph_replays_have_statistics_of_their_own():
    blocks = [Block(0, 0, i, "ok", values_ns=(100,) * 6, graph_ns=(40,) * 6) for i in range(3)]
    assert summarize_latency(blocks, graph=True).median_ns == 40
    assert summarize_latency([Block(0, 0, 0, "ok", values_ns=(1,))], graph=True) is None
