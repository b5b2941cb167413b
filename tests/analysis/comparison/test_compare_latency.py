import json
import lzma
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from nsysprof.analysis.comparison.compare_latency import Settings, compare_latencies, units_needed
from nsysprof.results.comparison import SAME_SAMPLES, LatencyVerdict, Measured
from tests.analysis.noise import captured, measured
from tests.conftest import REPOSITORY

ALARMS = (LatencyVerdict.FASTER, LatencyVerdict.SLOWER)


def compare(old, new, **settings):
    """old, new: a list of inputs, each a list of cases."""
    sides = [[{str(index): case for index, case in enumerate(each)} for each in side] for side in (old, new)]
    names = {str(index): f"case {index}" for index in range(len(old[0]))}
    return compare_latencies(*sides, names, Settings(**settings))


def verdicts(found):
    return [change.verdict for change in found.changes]


def alarmed(comparisons):
    return sum(any(verdict in ALARMS for verdict in verdicts(found)) for found in comparisons)


def most_by_chance(comparisons, level=0.05):
    """Return what a true rate of `level` exceeds once in a thousand."""
    return int(stats.binom.ppf(0.999, comparisons, level))


@pytest.mark.parametrize(
    "noise",
    [
        dict(between=0.01, block=0.004),
        pytest.param(dict(between=0.0, block=0.01), marks=pytest.mark.slow),
        pytest.param(dict(between=0.02, block=0.002, rho=0.9, drift=0.02), marks=pytest.mark.slow),
        pytest.param(dict(between=0.05, block=0.05, within=0.1), marks=pytest.mark.slow),
    ],
)
def test_benches_of_the_same_code_raise_no_alarm_more_often_than_stated(noise):
    rng = np.random.default_rng(1)
    runs = 40
    found = [
        compare([[measured(rng, **noise) for _ in range(6)]], [[measured(rng, **noise) for _ in range(6)]])
        for _ in range(runs)
    ]
    assert alarmed(found) <= most_by_chance(runs)


@pytest.mark.slow
def test_captures_of_the_same_code_raise_no_alarm_more_often_than_stated():
    rng = np.random.default_rng(2)
    runs = 40
    sides = [[[[captured(rng) for _ in range(6)] for _ in range(4)] for _ in "ab"] for _ in range(runs)]
    assert alarmed(compare(*pair) for pair in sides) <= most_by_chance(runs)
    # Single captures say nothing of other processes, so that they claim nothing.
    assert alarmed(compare(pair[0][:1], pair[1][:1]) for pair in sides) == 0


def test_samples_taken_one_by_one_would_have_raised_many():
    """What all this is for: the same data, with each sample as if it were a repetition."""
    rng = np.random.default_rng(3)
    below = 0
    for _ in range(100):
        old, new = (captured(rng, drift=0.01).processes[0][0] for _ in "ab")
        below += stats.mannwhitneyu(old, new).pvalue < 0.05
    assert below > 50


@pytest.mark.slow
def test_a_slow_process_now_and_then_is_no_slower_code():
    """As cuDNN at S=2048 on an H200: one process in some takes 6 % longer, whatever the code."""
    rng = np.random.default_rng(4)
    runs = 40
    found = [
        compare([[measured(rng, slow=0.2) for _ in range(6)]], [[measured(rng, slow=0.2) for _ in range(6)]])
        for _ in range(runs)
    ]
    assert alarmed(found) <= most_by_chance(runs)


@pytest.fixture(scope="module")
def h200():
    """Of 20 cases on an H200, each measured as 20 copies in 3 processes: the blocks by case, copy and process."""
    packed = (REPOSITORY / "analysis/h200-tune/self-check/samples.json.xz").read_bytes()
    data = json.loads(lzma.decompress(packed))
    copies = data["plan"]["copies"]
    blocks = defaultdict(list)
    for block in data["blocks"]:
        blocks[block["cell"] // copies, block["cell"] % copies, block["process"]].append(tuple(block["values_ns"]))
    return blocks


def drawn(blocks, rng, copies, shift, factor=1.0):
    """Each case measured in three processes; `shift` keeps those of the two sides apart."""
    sides = []
    for case in range(20):
        processes = [blocks[case, int(rng.choice(copies)), (number + shift) % 3] for number in range(3)]
        scaled = tuple(tuple(tuple(int(ns * factor) for ns in each) for each in process) for process in processes)
        sides.append(Measured("ok", processes=scaled))
    return sides


@pytest.mark.slow
def test_on_real_samples_of_an_h200_the_same_code_raises_no_alarm_in_100_comparisons(h200):
    rng = np.random.default_rng(5)
    found = [
        compare([drawn(h200, rng, range(10), 0)], [drawn(h200, rng, range(10, 20), 1)]) for _ in range(25)
    ]  # 500 cases
    assert alarmed(found) <= most_by_chance(25)
    decided = [change for each in found for change in each.changes if change.verdict is LatencyVerdict.SAME]
    assert len(decided) > 300, "and most of them are decided"


def test_on_real_samples_of_an_h200_five_percent_are_found(h200):
    rng = np.random.default_rng(6)
    for factor, verdict in ((1.05, LatencyVerdict.SLOWER), (1 / 1.05, LatencyVerdict.FASTER)):
        found = compare([drawn(h200, rng, range(10), 0)], [drawn(h200, rng, range(10, 20), 1, factor)])
        assert verdicts(found).count(verdict) >= 17
        assert not [each for each in verdicts(found) if each in ALARMS and each is not verdict]


def test_the_interval_covers_the_truth():
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(30):
        noise = dict(between=0.01, block=0.005)
        found = compare(
            [[measured(rng, **noise) for _ in range(6)]], [[measured(rng, 103_000, **noise) for _ in range(6)]]
        )
        hits += sum(change.low <= 1.03 <= change.high for change in found.changes)
    assert hits >= 0.93 * 180


def test_identical_samples_never_differ_however_they_were_taken():
    rng = np.random.default_rng(8)
    for make in (measured, captured):
        cases = [make(rng) for _ in range(5)]
        found = compare([cases], [cases])
        assert verdicts(found) == [LatencyVerdict.SAME] * 5
        assert {(change.ratio, change.low, change.high, change.reason) for change in found.changes} == {
            (1.0, 1.0, 1.0, SAME_SAMPLES)
        }


def test_one_process_a_side_claims_only_what_exceeds_the_assumed_noise():
    rng = np.random.default_rng(9)
    calm = dict(rho=0.3, drift=0.0, between=0.001)
    found = compare([[captured(rng, **calm)]], [[captured(rng, 105_000, **calm)]])
    (change,) = found.changes
    assert (found.floor_pct, found.floor_from, change.verdict) == (10.0, "assumed", LatencyVerdict.INCONCLUSIVE)
    assert "one process" in change.reason
    assert "4 captures of each side" in change.next_step
    far = compare([[captured(rng, **calm)]], [[captured(rng, 150_000, **calm)]])
    assert far.changes[0].verdict is LatencyVerdict.SLOWER
    known = compare([[captured(rng, **calm)]], [[captured(rng, 105_000, **calm)]], floor_pct=2.0)
    assert (known.floor_from, known.changes[0].verdict) == ("given", LatencyVerdict.SLOWER)


def test_more_runs_decide_what_few_could_not():
    rng = np.random.default_rng(10)
    few, many = (
        compare([[captured(rng)] for _ in range(count)], [[captured(rng, 104_000)] for _ in range(count)])
        for count in (1, 8)
    )
    assert few.changes[0].verdict is LatencyVerdict.INCONCLUSIVE
    assert many.changes[0].verdict is LatencyVerdict.SLOWER
    assert (many.unit, many.changes[0].baseline.inputs) == ("run", 8)


def test_what_was_said_to_be_enough_is_enough():
    rng = np.random.default_rng(11)
    noise = dict(between=0.03, block=0.005)
    # Each side is one run, and runs of the same code are assumed to differ by up to 2 %.
    needed = units_needed(0.03, 5.0, 1, np.log1p(0.02) / 1.96)
    found = [
        compare([[measured(rng, processes=needed, **noise)]], [[measured(rng, 105_000, processes=needed, **noise)]])
        .changes[0]
        .verdict
        for _ in range(40)
    ]
    assert found.count(LatencyVerdict.SLOWER) >= 24  # 80 % of 40, less what chance takes


@pytest.mark.parametrize("cases", [4, 100])
def test_one_slower_case_is_found_however_many_are_the_same(cases):
    """No smallest p of ranks is corrected: six blocks a side cannot give less than 0.002, which 25 cases would undo."""
    rng = np.random.default_rng(16)
    calm = dict(processes=3, blocks=2, between=0.003, block=0.002)
    shared = [measured(rng, **calm) for _ in range(2 * cases)]
    found = compare(
        [[measured(rng, **calm), *shared[:cases]]], [[measured(rng, 115_000, **calm), *shared[cases:]]], floor_pct=2.0
    )
    assert found.changes[0].verdict is LatencyVerdict.SLOWER
    assert found.changes[0].p_blocks == pytest.approx(0.0022, abs=1e-4)
    assert sum(verdict in ALARMS for verdict in verdicts(found)) <= 2


def test_less_than_half_a_percent_is_no_difference_however_certain():
    rng = np.random.default_rng(17)
    calm = dict(processes=12, between=0.0002, block=0.0002, within=0.0002)
    for level, verdict in ((100_300, LatencyVerdict.SAME), (102_000, LatencyVerdict.SLOWER)):
        (change,) = compare([[measured(rng, **calm)]], [[measured(rng, level, **calm)]], floor_pct=0.1).changes
        assert change.verdict is verdict


def test_noise_between_processes_asks_for_more_of_them():
    rng = np.random.default_rng(15)
    old, new = (
        Measured("ok", processes=tuple(measured(rng, level, processes=1, between=0).processes[0] for level in levels))
        for levels in ((94_000, 100_000, 106_000), (96_000, 102_000, 108_000))
    )
    for margin, step in ((6.0, "{more} more (bench --processes)"), (3.0, "runs of each side")):
        (change,) = compare([[old]], [[new]], margin_pct=margin).changes
        assert change.verdict is LatencyVerdict.INCONCLUSIVE
        assert change.more > 10
        assert step.format(more=change.more) in change.next_step


def test_few_blocks_are_no_test():
    rng = np.random.default_rng(12)
    (change,) = compare([[measured(rng, processes=1, blocks=3)]], [[measured(rng)]]).changes
    assert change.verdict is LatencyVerdict.INCONCLUSIVE
    assert "3 blocks" in change.reason
    assert "--rounds" in change.next_step


def test_a_case_of_one_side_has_no_verdict():
    rng = np.random.default_rng(13)
    found = compare_latencies(
        [{"a": measured(rng), "b": Measured("out_of_memory", "tried 9 GiB")}],
        [{"b": measured(rng), "c": measured(rng)}],
        {"a": "a", "b": "b", "c": "c"},
        Settings(),
    )
    told = {change.case: (change.verdict, change.reason) for change in found.changes}
    assert told["a"] == (None, "absent in the candidate")
    assert told["b"] == (None, "out_of_memory in the baseline: tried 9 GiB")
    assert told["c"] == (None, "absent in the baseline")
