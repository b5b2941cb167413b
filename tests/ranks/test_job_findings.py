"""What a job would save: as much as its slowest rank is ready sooner; and what its communication costs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_facts import CommunicationRow, Exchanges, JobFacts
from nsysprof.ranks.job_findings import communication_rows, find_in_job, pipeline_bubbles
from nsysprof.ranks.summarize import summarize_rank
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.results.findings import Finding
from tests.ranks.replay.data_parallel import Training

NONE = pd.DataFrame(columns=list(STRAGGLERS.names))
MS = 1_000_000


def a_rank(own_ms, computed_ms=None, wall_ms=100, rows=(), findings=(), **more):
    own = [round(time * MS) for time in np.broadcast_to(own_ms, 20)]
    computed = [round(time * MS) for time in np.broadcast_to(own_ms if computed_ms is None else computed_ms, 20)]
    return JobFacts(
        per="step", walls_ns=(wall_ms * MS,) * 20, own_ns=tuple(own), computed_ns=tuple(computed),
        communication=tuple(rows), findings=tuple(findings), link_bytes_per_s=450e9, **more,
    )  # fmt: skip


def a_finding(code, saving_ms, place="forward"):
    return Finding(1, code, place, "", 1, 0, saving_ms * MS, saving_ms * MS, saving_ms * MS, "step", "Text.", "Do.")


def a_row(kind="AllReduce", calls=10.0, size=100 << 20, exposed_ms=10, hidden_ms=0, rate=None):
    return CommunicationRow("backward", kind, "NCCL", calls, size, rate, hidden_ms * MS, exposed_ms * MS)


def savings(facts, stragglers=NONE):
    return {item.code: item.saving_ns / MS for item in find_in_job(facts, stragglers)}


def test_ranks_that_do_the_same_save_what_the_slowest_saves():
    facts = {0: a_rank(80, findings=[a_finding("launch-bound", 5)]),
             1: a_rank(90, findings=[a_finding("launch-bound", 20)])}  # fmt: skip
    (item,) = find_in_job(facts, NONE)
    # Rank 0 does the same work, so it is taken to save the same share; what it waited less for was in its own replay.
    assert (item.saving_ns, item.ranks, item.range) == (20 * MS, "0, 1", "forward")


def test_the_others_limit_what_one_rank_saves():
    assert savings({0: a_rank(85), 1: a_rank(90, findings=[a_finding("host-bound", 20)])}) == {"host-bound": 5}


def test_a_switch_of_the_program_is_one_finding_wherever_ranks_have_most_of_it():
    def job(code):
        return {0: a_rank(70, findings=[a_finding(code, 30, "backward")]),
                1: a_rank(90, findings=[a_finding(code, 50, "forward")])}  # fmt: skip

    (item,) = find_in_job(job("no-tensor-cores"), NONE)
    assert (item.ranks, item.range, item.saving_ns) == ("0, 1", "forward", 50 * MS)
    # Other code is slow in each of two ranges: rank 0, which waits, saves nothing, and it limits what rank 1 saves.
    (item,) = find_in_job(job("host-bound"), NONE)
    assert (item.ranks, item.range, item.saving_ns) == ("1", "forward", 20 * MS)


def test_a_switch_with_a_finding_for_each_range_keeps_them_apart():
    both = [a_finding("layout-conversion", 10, "forward"), a_finding("layout-conversion", 20, "backward")]
    facts = {rank: a_rank(80, findings=both) for rank in range(2)}
    assert [(item.range, item.saving_ns) for item in find_in_job(facts, NONE)] == [
        ("backward", 20 * MS), ("forward", 10 * MS)
    ]  # fmt: skip


def test_what_bf16_would_save_of_reductions_in_fp32_is_an_option(tmp_path):
    training = Training(reduces_always=True, transfer_ns=900_000, buckets=8)
    details = [summarize_rank(RankSource(n, path)).detail for n, path in enumerate(training.write(tmp_path))]
    facts, graphs = ({n: getattr(detail, name) for n, detail in enumerate(details)} for name in ("facts", "graph"))
    (item,) = (item for item in find_in_job(facts, NONE, graphs) if item.code == "fp32-messages")
    # Sizes are unknown here: 15 us of each are taken not to depend on them.
    half = replace(training, transfer_ns=15_000 + 885_000 // 2)
    assert item.saving_ns == pytest.approx(training.step_ns() - half.step_ns(), rel=0.05)
    assert item.text.startswith("An option, not a fault: ranks add up fp32 (AllReduce)")
    for graph in graphs.values():
        graph.collectives["is_fp32"] = False
    assert "fp32-messages" not in [item.code for item in find_in_job(facts, NONE, graphs)]


def a_stage(computed_ms, parts, wall_ms, exchanges=None, rows=()):
    sent = Exchanges(parts + 1.0 if exchanges is None else exchanges, 10 * MS, MS)
    return a_rank(
        wall_ms, computed_ms, wall_ms, rows=[a_row("SendRecv", parts + 1.0, exposed_ms=wall_ms - computed_ms), *rows],
        passes=20 * parts, optimizer_steps=20, exchanges=sent,
    )  # fmt: skip


def test_uneven_stages_and_the_ends_of_a_pipeline_are_found():
    """The slowest stage computes 80 ms, and one of four micro-batches of the other stage comes before and after."""
    job = {0: a_stage(80, 4, 90), 1: a_stage(40, 4, 90)}
    assert savings(job) == {"uneven-work": (80 - 60) * 0.75, "exposed-communication": 7.5}
    texts = {item.code: item.text for item in find_in_job(job, NONE)}
    assert "rank 0 for 80.0 ms, rank 1 for 40.0 ms, on average 60.0 ms" in texts["uneven-work"]
    assert "2 stages cuts a step into 4 micro-batches" in texts["exposed-communication"]
    assert "uneven-work" not in savings({0: a_stage(80, 4, 100), 1: a_stage(80, 4, 100)})


def test_a_pipeline_that_its_hosts_hold_up_or_that_is_none_is_not_judged_by_its_stages():
    assert savings({0: a_stage(30, 4, 90), 1: a_stage(20, 4, 90)}) == {}
    # An all-to-all of each layer, and reductions of tensor parallelism, are no pipeline's.
    for more in ({"exchanges": 64.0}, {"rows": [a_row(calls=32.0, exposed_ms=0)]}):
        job = {0: a_stage(80, 4, 90, **more), 1: a_stage(40, 4, 90, **more)}
        assert "uneven-work" not in savings(job)


def test_what_a_rank_saves_that_waits_is_nothing():
    assert savings({0: a_rank(60, findings=[a_finding("host-bound", 20)]), 1: a_rank(90)}) == {}


def test_the_saving_of_communication_is_taken_from_a_replay_of_all_ranks(tmp_path):
    training = Training(reduces_always=True, transfer_ns=900_000)
    details = [summarize_rank(RankSource(n, path)).detail for n, path in enumerate(training.write(tmp_path))]
    facts, graphs = ({n: getattr(one, name) for n, one in enumerate(details)} for name in ("facts", "graph"))
    (item,) = [item for item in find_in_job(facts, NONE, graphs) if item.code == "redundant-communication"]
    truth = training.step_ns() - replace(training, reduces_always=False).step_ns()
    assert item.saving_ns == pytest.approx(truth, rel=0.1)
    # Without the slowest rank the replay cannot stand for the job.
    slowest = max(facts, key=lambda rank: sum(facts[rank].own_ns))
    others = {rank: graph for rank, graph in graphs.items() if rank != slowest}
    assert savings(facts)["redundant-communication"] == next(
        found.saving_ns / MS for found in find_in_job(facts, NONE, others) if found.code == "redundant-communication"
    )


def test_ranks_that_wait_for_their_hosts_gain_nothing_by_a_faster_link(tmp_path):
    training = Training(kernel_ns=100_000, transfer_ns=900_000, host_ns=3_000_000)
    details = [summarize_rank(RankSource(n, path)).detail for n, path in enumerate(training.write(tmp_path))]
    facts, graphs = ({n: getattr(one, name) for n, one in enumerate(details)} for name in ("facts", "graph"))
    told = [{item.code for item in find_in_job(facts, NONE, known)} for known in ({}, graphs)]
    assert ["exposed-communication" in codes for codes in told] == [True, False]


def test_a_stage_that_waits_for_its_neighbour_has_a_bubble():
    # Rank 0 sends at once: 4 messages of 1 ms. Rank 1 waits for each of them for 5 ms.
    first = a_rank(60, exchanges=Exchanges(4.0, 4 * MS, 1 * MS))
    second = a_rank(40, exchanges=Exchanges(4.0, 24 * MS, 6 * MS))
    assert pipeline_bubbles({0: first, 1: second, 2: a_rank(50)}) == {0: 0, 1: 20 * MS}
    assert pipeline_bubbles({0: a_rank(50)}) == {}


def test_waiting_for_others_is_no_finding_of_the_job():
    assert savings({0: a_rank(60, findings=[a_finding("collective-wait", 40)]), 1: a_rank(90)}) == {}


@pytest.mark.parametrize(
    ("rounds", "steps", "expected"), [(80, 20, 15.0), (20, 20, None), (0, 20, None), (80, 0, None)]
)
def test_gradients_that_are_reduced_too_often(rounds, steps, expected):
    more = {"rounds": rounds, "optimizer_steps": steps, "reduced_ns": (20 * MS, 10 * MS)}
    facts = {rank: a_rank(80, 75, rows=[a_row(exposed_ms=20, hidden_ms=10)], **more) for rank in range(2)}
    assert savings(facts).get("redundant-communication") == expected


def test_small_messages_are_named_by_size_and_by_use_of_the_link():
    def job(row):
        return {rank: a_rank(70, 68, rows=[row]) for rank in range(2)}

    assert savings(job(a_row(calls=200.0, size=200 * 40_000, exposed_ms=20)))["small-messages"] == pytest.approx(12)
    assert "small-messages" not in savings(job(a_row(calls=10.0, size=10 * 40_000, exposed_ms=20)))
    assert "small-messages" not in savings(job(a_row(calls=50.0, size=50 << 24, exposed_ms=20)))
    slow_link = a_row(calls=200.0, size=200 << 22, exposed_ms=20, rate=6e9)
    assert "small-messages" in savings(job(slow_link))
    assert "small-messages" not in savings(job(replace(slow_link, bus_bytes_per_s=300e9)))


def test_exposed_communication_needs_computation_to_hide_behind():
    rows = [a_row(exposed_ms=30)]
    assert savings({rank: a_rank(70, 60, rows=rows) for rank in range(2)})["exposed-communication"] == 15
    assert "exposed-communication" not in savings({rank: a_rank(70, 3, rows=rows) for rank in range(2)})


def turns(spread_ms, ranks=4, seed=1, computed=True):
    rng = np.random.default_rng(seed)
    own = 80 + spread_ms * rng.standard_normal((ranks, 20))
    return {rank: a_rank(own[rank], own[rank] if computed else 60) for rank in range(ranks)}


def test_ranks_that_take_turns_have_uneven_work():
    facts = turns(12)
    own = np.array([fact.own_ns for fact in facts.values()])
    gained = (own.max(axis=0) - own.mean(axis=0)).mean() - (own.mean(axis=1).max() - own.mean())
    assert savings(facts)["uneven-work"] == pytest.approx(gained / MS)


def test_late_hosts_and_one_slow_rank_are_no_uneven_work():
    assert "uneven-work" not in savings(turns(12, computed=False))
    assert "uneven-work" not in savings({0: a_rank(95), 1: a_rank(70), 2: a_rank(70)})


def test_even_jobs_are_accused_in_at_most_5_percent():
    """A thousand jobs of two to sixteen ranks whose steps differ by 2 %, as on a usual machine."""
    accused = sum(bool(savings(turns(1.6, 2 + seed % 15, seed))) for seed in range(1000))
    assert accused <= 50


def test_a_straggler_costs_its_share_of_a_step():
    line = dict.fromkeys(STRAGGLERS.names) | {
        "rank": 1, "cost_ns": 1_000, "cost_low_ns": 900, "cost_high_ns": 1_100, "cost_pct": 20.0, "range": "load",
        "last_in": 9, "collectives": 10, "excess_ns": 5_000_000, "where": "host",
    }  # fmt: skip
    (item,) = find_in_job({0: a_rank(60), 1: a_rank(90)}, pd.DataFrame([line]))
    assert (item.code, item.ranks, item.range) == ("straggler", "1", "load")
    assert [item.saving_low_ns, item.saving_ns, item.saving_high_ns] == [18 * MS, 20 * MS, 22 * MS]


def test_one_rank_is_no_job():
    assert find_in_job({0: a_rank(80, findings=[a_finding("launch-bound", 5)])}, NONE) == ()


def test_the_link_is_known_on_one_host_alone():
    facts = {0: a_rank(80, rows=[a_row(rate=45e9)])}
    assert communication_rows(facts, one_host=True)[0]["share_of_link_pct"] == pytest.approx(10)
    assert communication_rows(facts, one_host=False)[0]["share_of_link_pct"] is None
