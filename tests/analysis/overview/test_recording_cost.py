from dataclasses import replace

import pytest

from nsysprof.analysis.overview.recording_cost import compare_walls, compare_with_plain, judge_cost, without_distorted
from nsysprof.files.plain_file import decode_json
from nsysprof.results.analysis import STEPS, RangeCost, RecordingCosts, cost_table
from nsysprof.results.findings import Finding, Findings
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_ranges, read_strings
from tests.builders.build_trace import TraceBuilder


def ranges(path, walls, name="step{}", *, twice=False):
    builder = TraceBuilder()
    at = 0
    for number, wall in enumerate(walls):
        builder.range(at, at + wall, name.format(number))
        if twice:
            builder.range(at, at + wall, name.format(number), kind=60)
        at += 10 * wall
    with open_trace(builder.write(path)) as trace:
        return read_ranges(trace, read_strings(trace))


def costs(tmp_path, recorded, plain, **more):
    return compare_with_plain(
        ranges(tmp_path / "r.sqlite", recorded, **more), ranges(tmp_path / "p.sqlite", plain, **more)
    )


def test_a_range_that_recording_slows_is_distorted(tmp_path):
    jitter = [0, 100, 50, 20, 80, 10, 60, 30, 40]
    recorded, plain = [90_000, *(12_000 + each for each in jitter)], [70_000, *(10_000 + each for each in jitter)]
    (cost,) = costs(tmp_path, recorded, plain)
    assert (cost.range, cost.instances, cost.plain_instances) == ("step#", 9, 9), "the first is a warm-up"
    assert (cost.wall_med_ns, cost.plain_wall_med_ns) == (12_040, 10_040)
    assert cost.slowdown_low < cost.slowdown < cost.slowdown_high
    assert cost.slowdown == pytest.approx(1.2, abs=0.01)
    assert cost.is_distorted
    assert cost_table([cost])["is_distorted"].tolist() == [True]


def test_costs_from_a_file_of_an_older_version_are_judged():
    text = (
        '{"format_version": 1, "costs": [{"range": "step#", "instances": 9, "plain_instances": 9, "wall_med_ns": 120, '
        '"plain_wall_med_ns": 100, "slowdown": 1.2, "slowdown_low": 1.15, "slowdown_high": 1.25}]}'
    )
    (cost,) = decode_json(text, RecordingCosts).costs
    assert judge_cost(cost).is_distorted
    assert not judge_cost(replace(cost, slowdown=1.09, is_distorted=True)).is_distorted


def test_noise_is_not_a_cost(tmp_path):
    noise = [10_000, 10_000, 30_000, 11_000, 25_000, 9_000, 12_000, 40_000]
    (cost,) = costs(tmp_path, [10_000, *(each * 2 for each in noise)], [10_000, *reversed(noise)])
    assert cost.slowdown > 1.1
    assert cost.slowdown_low < 1
    assert not cost.is_distorted


def test_few_instances_have_no_interval_and_are_not_judged(tmp_path):
    (cost,) = costs(tmp_path, [20_000, 20_000], [10_000, 10_000], name="all")
    assert (cost.slowdown, cost.slowdown_low, cost.is_distorted) == (2.0, None, False)


def test_a_range_of_both_styles_counts_once(tmp_path):
    (cost,) = costs(tmp_path, [20_000] * 5, [10_000] * 5, name="all", twice=True)
    assert (cost.instances, cost.plain_instances) == (5, 5)


def test_ranges_of_one_run_alone_are_left_out(tmp_path):
    assert (
        compare_with_plain(ranges(tmp_path / "r.sqlite", [5_000], "a"), ranges(tmp_path / "p.sqlite", [5_000], "b"))
        == ()
    )


def finding(rank, code, where, saving=100):
    return Finding(rank, code, where, "", 1, 0, saving, saving, saving, "step#", "text", "next")


def test_advice_on_the_cpu_is_left_out_where_recording_slows_it():
    slow = judge_cost(RangeCost("layer#", 9, 9, 120, 100, 1.2, 1.15, 1.25))
    found = Findings(
        items=(
            finding(1, "host-bound", "layer3", 300), finding(2, "sync", "layer3", 200),
            finding(3, "launch-bound", "other"),
        ),
        per="step#", step_ns=1000, usual_steps=9, warmup=1, steps=5, first_step=2, last_step=5, recorded_ns=1000,
        replayed_ns=1000, busy_ns=400, together_ns=550,
    )  # fmt: skip
    kept, gone = without_distorted(found, (slow,))
    assert [(item.rank, item.code) for item in kept.items] == [(1, "sync"), (2, "launch-bound")]
    assert gone == ("host-bound",)
    assert kept.together_ns == 300, "no more than what is left saves"
    fine = judge_cost(replace(slow, slowdown_low=0.9))
    assert without_distorted(found, (fine,)) == (found, ())
    whole, gone = without_distorted(found, (replace(slow, range="step#"),))
    assert [item.code for item in whole.items] == ["sync"], "the steps themselves are slowed"
    of_steps, gone = without_distorted(found, (replace(slow, range=STEPS),))
    assert [item.code for item in of_steps.items] == ["sync"], "so are steps that the output tells, and all in them"


def test_ranges_of_one_run_by_whether_they_were_recorded():
    plain = {f"step{number}": [(number, 10_000 + number)] for number in range(10)}
    recorded = {f"step{number}": [(number, 13_000 + number)] for number in range(10, 20)} | {"alone": [(1, 5_000)]}
    (cost,) = compare_walls(recorded, plain)
    assert (cost.range, cost.instances, cost.plain_instances, cost.is_distorted) == ("step#", 9, 9, True)
