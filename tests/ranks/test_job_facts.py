"""A rank's trace says how its steps divide into own work and communication, and how often gradients are reduced."""

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_facts import collect_facts
from nsysprof.ranks.job_findings import find_in_job
from nsysprof.ranks.overlap import measure_overlap
from nsysprof.ranks.summarize import summarize_rank
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder
from tests.ranks.replay.data_parallel import Training

US = 1_000


def facts_of(path):
    with open_trace(path) as trace:
        tables = read_tables(trace)
    names = kernel_names(tables)
    is_comm = (names.category == "communication")[names.numbers(tables.work.variant[: tables.work.kernels])]
    return collect_facts(tables, names, attribute(tables), measure_overlap(tables.work, is_comm))


def test_sends_and_receives_are_told_apart_from_collectives(tmp_path):
    trace, now, correlation = TraceBuilder(), 1_000_000, 1
    trace.gpu()
    for step in range(8):
        begin = now
        for micro in range(10):
            wait = 900 * US if micro else 100 * US
            parts = (("gemm", 7, 0, 500 * US), ("ncclDevKernel_SendRecv", 8, 500 * US, wait))
            for name, stream, after, length in parts:
                trace.call(now + after - 10 * US, now + after - 8 * US, correlation)
                trace.kernel(now + after, now + after + length, correlation, name, stream=stream)
                correlation += 1
            now += 500 * US + wait + 20 * US
        trace.range(begin - 20 * US, now, f"step{step}")
        now += 100 * US
    facts = facts_of(trace.write(tmp_path / "t.sqlite"))
    assert facts.exchanges is not None
    assert facts.exchanges.calls == 10
    assert facts.exchanges.exposed_ns == (100 + 9 * 900) * US
    assert facts.exchanges.quick_ns == 100 * US
    assert facts_of(Training().write(tmp_path)[0]).exchanges is None


def a_job(tmp_path, reduces, steps=8, micro=4):
    """Return a training of some micro-steps, which reduces gradients in those that `reduces` says."""
    trace, now, correlation = TraceBuilder(), 1_000_000, 1
    trace.gpu()

    def kernel(name, start, length):
        nonlocal correlation
        trace.call(start - 10 * US, start - 8 * US, correlation)
        trace.kernel(start, start + length, correlation, name, stream=8 if "nccl" in name else 7)
        correlation += 1

    for _ in range(steps):
        begin = now
        for number in range(micro):
            for name in (
                "embedding",
                "sm90_xmma_gemm_bf16",
                "sm90_xmma_gemm_bf16",
                "nll_loss_forward",
                "softmax_bw",
            ):
                kernel(name, now, 400 * US)
                now += 400 * US
            if reduces(number):
                for _ in range(3):
                    kernel("ncclDevKernel_AllReduce_Sum_f32", now, 100 * US)
                    now += 100 * US
        kernel("FusedAdamMathFunctor", now + 3_000 * US, 300 * US)
        now += 3_400 * US
        trace.range(begin - 20 * US, now, "step")
        now += 100 * US
    return facts_of(trace.write(tmp_path / "t.sqlite"))


@pytest.mark.parametrize(("reduces", "times"), [(lambda _: True, 4), (lambda number: number == 3, 0)])
def test_reductions_are_counted_by_pass(tmp_path, reduces, times):
    facts = a_job(tmp_path, reduces)
    assert facts.optimizer_steps >= 4
    assert facts.rounds == pytest.approx(times * facts.optimizer_steps, abs=times)


def test_steps_divide_into_own_time_and_exposed_communication(trace_path):
    for rank in range(2):
        facts = facts_of(trace_path(f"h200-programs/fsdp-even_rank{rank}"))
        walls, own = np.array(facts.walls_ns), np.array(facts.own_ns)
        exposed = sum(row.exposed_ns for row in facts.communication)
        assert (walls - own).mean() == pytest.approx(exposed, rel=0.001)
        assert (np.array(facts.computed_ns) <= walls).all()
        assert facts.rounds == facts.optimizer_steps > 0


def test_a_trace_without_steps_has_no_facts_of_steps(trace_path):
    facts = facts_of(trace_path("sdpa"))
    assert (facts.walls_ns, facts.communication) == ((), ())


def test_why_sizes_of_messages_are_unknown_is_a_note_of_the_rank(trace_path):
    leaf = summarize_rank(RankSource(0, trace_path("h200-programs/fsdp-even_rank0")))
    (note,) = [note for note in leaf.partial.rows[0].notes if note.code == "collective-sizes-unknown"]
    assert "no NVTX payload" in note.text
    assert [row.message_bytes for row in leaf.detail.facts.communication] == [None] * 3


@pytest.mark.parametrize("reduces_always", [False, True])
def test_activations_that_ranks_add_up_are_no_gradients(tmp_path, reduces_always):
    """Tensor parallelism adds up activations after each layer, of forward and backward passes alike."""
    training = Training(adds_up=True, reduces_always=reduces_always, steps=8, layers=16)
    facts = facts_of(training.write(tmp_path)[0])
    assert facts.passes == pytest.approx(3 * facts.optimizer_steps, abs=3)
    assert facts.rounds == (facts.passes if reduces_always else 0)
    codes = [item.code for item in job_findings(tmp_path)]
    assert ("redundant-communication" in codes) == reduces_always


def job_findings(folder):
    details = [summarize_rank(RankSource(rank, path)).detail for rank, path in enumerate(sorted(folder.glob("rank*")))]
    facts = dict(enumerate(detail.facts for detail in details))
    graphs = {rank: detail.graph for rank, detail in enumerate(details) if detail.graph is not None}
    return find_in_job(facts, pd.DataFrame(columns=list(STRAGGLERS.names)), graphs)
