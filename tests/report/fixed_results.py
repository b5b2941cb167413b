"""Small results whose numbers never change, for tests of what reports look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from nsysprof.analysis.comparison.compare_owners import compare_owners
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.sampling.significance import judge_history
from nsysprof.app import demo as demo_use_case
from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.analyze_snapshot import read_memory
from nsysprof.attention.eligibility import AttentionCall, EligibilityAnswer, Ran, parse_refusal
from nsysprof.attention.shape import Shape
from nsysprof.notes import Note, Severity
from nsysprof.report.document import Figure, Report
from nsysprof.report.figures.ranks import ranks_timeline_data
from nsysprof.report.pages.analysis import analysis_report, capture_report, demo_report, first_report
from nsysprof.report.pages.bench import BenchReport, bench_report, tuning_report, tuning_sections
from nsysprof.report.pages.bundle import Shared, bundle_report
from nsysprof.report.pages.compare import compare_report
from nsysprof.report.pages.history import history_report
from nsysprof.report.pages.machine import doctor_report, explain_report
from nsysprof.report.pages.memory import memory_comparison_report, memory_report
from nsysprof.report.pages.program import optimize_report, program_report, whatif_report
from nsysprof.report.pages.ranks import ranks_report
from nsysprof.report.pages.recording import recording_report
from nsysprof.results.allocator_memory import AllocatorMemory
from nsysprof.results.analysis import Analysis
from nsysprof.results.checks import Check, GateFinding, GateResult, Outcome, State
from nsysprof.results.comparison import (
    METRICS,
    PARTS,
    Difference,
    KernelFacts,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    RangeFacts,
    Side,
    SideOfCase,
    VersionComparison,
)
from nsysprof.results.findings import Finding, Findings, WhatIf, WhatIfAnswer
from nsysprof.results.latency_history import CaseHistory, HistoryPoint
from nsysprof.results.policy_use import PolicyUse
from nsysprof.results.program_runs import (
    Attempt,
    AttentionUse,
    Optimization,
    OptimizationAnswer,
    OptimizeStep,
    PredictedGain,
    Prediction,
    ProgramComparison,
    ProgramSideSummary,
    Sameness,
    Suggestion,
    TunedUse,
    ValueComparison,
)
from nsysprof.results.rank_results import ClockFit, Lanes, RankCollectives, RankRow, RanksAnalysis
from nsysprof.results.recorded_part import LatencyWindow, LatencyWindows, ProcessPart, RecordResult
from tests.builders.allocator_snapshot import SnapshotBuilder, frames
from tests.report import samples

MS = 1_000_000
WARNING = Note("gpu-throttled", Severity.WARNING, "The GPU was hot | throttled.", "Wait until it has cooled down.")


def small_trace(folder: Path) -> Analysis:
    """Return the analysis of a trace that a builder made, without what depends on the version of SQLite."""
    analysis = samples.analysis(folder)
    return replace(analysis, trace=replace(analysis.trace, path_name="trace.sqlite", bytes=8192, sha256="0" * 64))


def analyze_report(folder: Path, trace_path: Callable[[str], Path], name: str) -> Report:
    """Return the report of a committed trace, or of a builder's with a capture's record."""
    if name == "capture":
        analysis = small_trace(folder)
        figures = [Figure("timeline.png", "Timeline", b"png")]
        return analysis_report(analysis, samples.record(analysis), figures=figures)
    return analysis_report(analyze_trace(trace_path(name)), None)


def first(trace_path: Callable[[str], Path]) -> Report:
    """Return what comes first about a small training that was recorded on an H200, which has a finding."""
    return first_report(analyze_trace(trace_path("h200-ranges/layers-eager")))


def one_range(trace_path: Callable[[str], Path]) -> Report:
    """Return what comes first about one range of a trace alone."""
    return first_report(analyze_trace(trace_path("ddp_rank0"), range="backward"))


def one_step(trace_path: Callable[[str], Path]) -> Report:
    """Return what comes first about one step of a trace alone, which belongs to its warm-up."""
    return first_report(analyze_trace(trace_path("ddp_rank0"), step=0))


def demo(trace_path: Callable[[str], Path]) -> Report:
    """Return what `demo` shows, here of the same small training."""
    return demo_report(analyze_trace(trace_path("h200-ranges/layers-eager")), demo_use_case.ABOUT)


def end_of_capture(folder: Path) -> Report:
    """Return what `capture` says at its end."""
    record = samples.record(small_trace(folder))
    return capture_report(record.results, record.environment, record.notes)


def comparison() -> Report:
    """Return the report of a comparison of all kinds of changes, with a gate that failed."""
    return compare_report(compared(), [Figure("ratios.png", "Ratios", b"png")])


def compared() -> VersionComparison:
    """Return the comparison."""
    side = SideOfCase("ok", median_ns=100_000.0, samples=150, blocks=15, processes=3, inputs=1)
    slow = replace(side, median_ns=112_300.0)
    changes = (
        LatencyChange(
            "flash::S1024", LatencyVerdict.SAME, side, side, "", "", 1.001, 0.991, 1.012, 0.4, 0.5, 0.5, 0.02, 1.0,
        ),
        LatencyChange(
            "math::S1024", LatencyVerdict.SLOWER, side, slow, "", "", 1.123, 1.1, 1.14, 1e-5, 1e-4, 2e-4, 0.9, 1.0,
        ),
        LatencyChange(
            "cudnn::S1024", LatencyVerdict.INCONCLUSIVE, side, side, "the interval is wider than the margin",
            "measure 4 more processes", 1.02, 0.97, 1.07, 0.2, 0.2, 0.3, 0.1, 1.0, 3.0,
        ),
        LatencyChange("naive::S1024", None, side, SideOfCase("absent")),
    )  # fmt: skip
    old = {("step", ""): _facts(10, 4 << 20), ("gone", "torch"): _facts(1, None)}
    new = {("step", ""): _facts(12, 6 << 20), ("added", ""): _facts(2, 1 << 20)}
    finding = GateFinding("math::S1024", Outcome.REGRESSION, "12.3 % slower, more than 3 %", "Look at its kernels.")
    gate = (
        GateResult("slower:3%", Outcome.REGRESSION, 3, (finding,)),
        GateResult("launches:+1", Outcome.PASS, 1, ()),
    )
    sides = (
        Side(("old.zip",), ("capture",), {"gpu_name": "NVIDIA H200", "driver_version": "580.1"}),
        Side(("new.zip",), ("capture",), {"gpu_name": "NVIDIA H200", "driver_version": "590.4"}),
    )
    difference = Difference("driver_version", ("580.1",), ("590.4",))
    latency = LatencyComparison(changes, 1.2, "from 9 pairs of processes")
    ranges = compare_ranges([old], [new])
    method = ("Medians of untraced samples.",)
    return VersionComparison(*sides, (difference,), latency, ranges, gate, (WARNING,), forced=True, method=method)


def _facts(scale: int, vram: int | None) -> RangeFacts:
    parts = {**dict.fromkeys(PARTS, 0), "kernels_ns": 10_000 * scale, "gaps_ns": 500}
    metrics = {
        **dict.fromkeys(METRICS, 0), "launches": scale, "kernels": scale, "kernel_time": 10_000 * scale,
        "busy": 10_000 * scale, "wall": 10_000 * scale + 500, "vram": vram,
    }  # fmt: skip
    name = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int, T2)"
    kernels = {name: KernelFacts("elementwise", "vectorized_elementwise_kernel", scale, 10_000 * scale)}
    if scale == 12:
        kernels["gemm_new(int)"] = KernelFacts("gemm", "gemm_new", 1, 4_000)
    return RangeFacts(1, None, metrics, parts, kernels)


def bench() -> Report:
    """Return a bench of three backends, one of them much slower, and one that failed."""
    return bench_report(_bench(), [Figure("latency.png", "Latency", b"png")])


def _bench() -> BenchReport:
    return BenchReport(
        "a bench", bench_table(), 1.5, 9, {"flops": {"fp16": 7e14}, "bytes_per_s": 4e12},
        {"gpu_name": "NVIDIA H200", "torch_version": "2.13.0"}, [WARNING], ["Untraced."], "nsysprof bench --seq 512",
    )  # fmt: skip


def bench_table() -> pd.DataFrame:
    """Return the table of a bench, as results.csv has it."""
    rows = [
        _cell("flash", 50_000, rank=1, verdict="best", against_best=1.0),
        _cell("cudnn", 50_400, rank=2, verdict="tie", against_best=1.008),
        _cell("math", 611_500, rank=3, verdict="slower", against_best=12.23),
        {
            **_cell("efficient", None, rank=None, verdict="", against_best=None),
            "status": "ineligible",
            "reason": "too old",
        },
    ]
    return pd.DataFrame(rows)


def _cell(backend: str, median: int | None, **fields: object) -> dict[str, object]:
    known = median is not None
    return {
        "case": f"{backend}::S512", "backend": backend, "status": "ok", "reason": "", "seq": 512, "batch": 1,
        "heads": 8, "kv_heads": 8, "head_dim": 64, "dtype": "fp16", "causal": True, "pass": "fwd",
        "median_ns": median, "low_ns": median * 0.99 if known else None, "high_ns": median * 1.01 if known else None,
        "to_beat_ns": median * 0.99 / 1.015 if known else None,
        "graph_median_ns": None, "graph_low_ns": None, "graph_high_ns": None, "cv_pct": 1.25 if known else None,
        "p95_ns": median * 1.1 if known else None, "p99_ns": None, "samples": 120 if known else 0,
        "blocks": 12 if known else 0, "flops_per_s": 2.1e13 if known else None, "bytes_per_s": 4e10 if known else None,
        "peak_bytes": 3 << 20 if known else None, "measured_flops_pct": 3.0 if known else None,
        "datasheet_flops_pct": 2.1 if known else None, "measured_bytes_pct": 1.0 if known else None,
        "datasheet_bytes_pct": 0.8 if known else None, **fields,
    }  # fmt: skip


def _winners() -> pd.DataFrame:
    common = {"batch": 1, "heads": 8, "kv_heads": 8, "head_dim": 64, "dtype": "fp16", "causal": True, "pass": "fwd"}
    clear = {"backend": "flash", "verdict": "faster", "tied": "", "margin": 1.4, "runner_up": "cudnn", "over_auto": 1.1}
    tie = {"backend": "flash", "verdict": "tie", "tied": "cudnn", "margin": 3.2, "runner_up": "math", "over_auto": 1.0}
    times = {"median_ns": 50_000.0, "low_ns": 49_000.0, "high_ns": 51_000.0}
    return pd.DataFrame([{"seq": 512, **common, **times, **clear}, {"seq": 2048, **common, **times, **tie}])


def tune() -> Report:
    """Return the report of a tuning with costs and a policy."""
    insights = ["flash is the best of 1 of 2 shapes."]
    sections = tuning_sections(
        _winners(), insights, price=2.0, policy="policy.json", budget_note="Ended by its budget."
    )
    return bench_report(replace(_bench(), extra=sections))


def tune_terminal() -> Report:
    """Return what the terminal shows of it."""
    sections = tuning_sections(_winners(), ["flash wins."], price=None, policy=None, budget_note="")
    return tuning_report(sections, [WARNING])


def ranks() -> Report:
    """Return the report of three ranks, one of which is late and one of which could not be read."""
    return ranks_report(ranks_analysis())


def ranks_page() -> Report:
    """Return the same with its timeline, whose compressed columns no snapshot can hold."""
    found = ranks_analysis()
    return ranks_report(found, timeline=ranks_timeline_data(found))


def ranks_analysis() -> RanksAnalysis:
    """Return three ranks."""
    busy = {"compute_ns": 72 * MS, "comm_ns": 30 * MS, "overlap_ns": 10 * MS, "exposed_comm_ns": 20 * MS, "idle_ns": MS}
    read = {
        "rank_from": "manifest",
        "host": "a",
        "gpus": ("NVIDIA H200",),
        "nsys_version": "2026.1",
        "kernel_count": 700,
    }
    rows = (
        RankRow(0, "rank0.sqlite", 0, **read, **busy, memcpy_bytes=0, peak_vram_bytes=3 << 30),
        RankRow(
            1, "rank1.sqlite", 1, **read, **{**busy, "compute_ns": 96 * MS}, memcpy_bytes=0, peak_vram_bytes=3 << 30
        ),
        RankRow(2, "rank2.sqlite", 2, rank_from="manifest", reason="it is damaged"),
    )
    straggler = {
        "rank": 1, "evidence": "collectives", "last_in": 12, "collectives": 12, "late_ns": 22 * MS, "late_pct": 18.2,
        "exposed_late_ns": 20 * MS, "exposed_late_pct": 16.1, "cost_ns": 21 * MS, "cost_low_ns": 19 * MS,
        "cost_high_ns": 23 * MS, "cost_pct": 16.9, "range": "backward", "where": "GPU", "own_ns": 72 * MS,
        "typical_ns": 48 * MS, "excess_ns": 24 * MS, "excess_pct": 50.0,
    }  # fmt: skip
    spread = {
        "instances": 24, "total_ns": 120 * MS, "min_ns": 4 * MS, "q25_ns": 4 * MS, "med_ns": 5 * MS, "q75_ns": 6 * MS,
        "p99_ns": 6 * MS, "max_ns": 6 * MS, "imbalance_pct": 20.0, "slowest_rank": 1,
    }  # fmt: skip

    def frame(name: str) -> pd.DataFrame:
        return pd.DataFrame([{"name": name, "range": name, "domain": "", "short_name": name, "label": name, **spread}])

    return RanksAnalysis(
        rows=rows,
        clocks=(ClockFit(0, "reference", 0, 0, None, None), ClockFit(1, "collectives", -37 * MS, 12, 900, 4_000)),
        kernels=frame("void gemm<float>(int)"),
        ranges=frame("backward"),
        range_families=frame("backward"),
        range_kernels=pd.DataFrame(),
        api=frame("cudaLaunchKernel"),
        memops=frame("[CUDA memset]"),
        rank_ranges=pd.DataFrame(),
        stragglers=pd.DataFrame([straggler]),
        straggler_evidence="collectives",
        outliers={1: "24.00 ms more compute"},
        imbalance_pct=14.3,
        lanes={rank: _lanes(rank) for rank in (0, 1)},
        notes=(WARNING,),
        collectives={rank: _collectives(rank) for rank in (0, 1)},
        kernel_labels=("gemm<float>",),
    )


def _lanes(rank: int) -> Lanes:
    """Return that a rank computes except while rank 0 waits in NCCL, on a clock of its own."""
    waits = np.arange(40) % 10 > 6
    share = np.where(waits & (rank == 0), 0, 1).astype(np.float32)
    return Lanes(37 * MS * rank, 5 * MS, share, 1 - share)


def _collectives(rank: int) -> RankCollectives:
    """Return four collectives that both ranks leave together, to which rank 1 comes 14 ms later."""
    number = np.arange(4)
    end = 37 * MS * rank + 50 * MS * (number + 1)
    begin = end - (15 - 14 * rank) * MS
    return RankCollectives(("ncclDevKernel_AllReduce_Sum_f32_RING_LL#0",), np.zeros(4, np.int64), number, begin, end)


def explain() -> Report:
    """Return the report of a call that flash refuses and math runs."""
    call = AttentionCall(seq=16, kv_seq=16, heads=1, kv_heads=1, head_dim=8192, causal=False)
    refusal = (
        "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
        "Query.size(-1): 8192, Key.size(-1): 8192, Value.size(-1): 8192 instead."
    )
    kernels = ({"name": "gemm", "count": 2, "total_ns": 3000}, {"name": "softmax", "count": 1, "total_ns": 500})
    answers = [
        EligibilityAnswer(
            "flash", False, refusal, tuple(parse_refusal([refusal], call)), (replace_head_dim(call),), True, True
        ),
        EligibilityAnswer("math", True, built=True, supported=True, ran=Ran("ok", family="math", kernels=kernels)),
    ]
    facts = {"device": "cuda", "torch_version": "2.13.0", "gpu_name": "NVIDIA H200"}
    return explain_report([(call, answers)], facts)


def replace_head_dim(call: AttentionCall) -> AttentionCall:
    """Return the nearest call that flash takes."""
    return AttentionCall(seq=16, kv_seq=16, heads=1, kv_heads=1, head_dim=256, causal=call.causal)


def bundle(folder: Path) -> Report:
    """Return the text to paste for a bundle."""
    shared = Shared(
        "my run.zip", 12_345, "ab" * 32, "my run", has_trace=True, named=False, left_out=[("logs", "output")]
    )
    return bundle_report(shared, small_trace(folder), None, bench_table())


def findings() -> Findings:
    """Return two findings, the first at a known line of the program."""
    items = (
        Finding(1, "sync", "forward", "train.py:42", 3, 10, 20, 15, 25, "step", "It waits.", "Do not.", 92.0),
        Finding(2, "pageable-copy", "", "", 1, 0, 5, 4, 6, "step", "It copies.", "Pin."),
    )
    return Findings(
        items=items, per="train", step_ns=100, usual_steps=8, warmup=1, steps=3, first_step=2, last_step=3,
        recorded_ns=100, replayed_ns=100, busy_ns=50, together_ns=25, has_stacks=True,
    )  # fmt: skip


def whatif() -> Report:
    """Return the report of a change that helps, of one that makes a step longer, and of both."""
    answers = (
        WhatIfAnswer("--no-sync all", 8 * MS, 7_500_000, 9 * MS),
        WhatIfAnswer("--kernel gemm=3", 12_300_000, 12 * MS, 13 * MS),
    )
    together = WhatIfAnswer("all", 9_100_000, 9 * MS, 9_500_000)
    return whatif_report(what_if("train", answers, together, replayed_ns=10 * MS, recorded_ns=10_200_000))


def what_if(
    per: str, answers: tuple[WhatIfAnswer, ...], together: WhatIfAnswer, *, replayed_ns: int = 100,
    recorded_ns: int = 110,
) -> WhatIf:  # fmt: skip
    """Return answers about the replay of steps 2 and 3 of eight that take 120 ns each."""
    return WhatIf(
        per=per, step_ns=120, usual_steps=8, warmup=1, steps=3, first_step=2, last_step=3, recorded_ns=recorded_ns,
        replayed_ns=replayed_ns, answers=answers, together=together,
    )  # fmt: skip


def doctor() -> Report:
    """Return the report of a machine with a check in each state."""
    checks = (
        Check("python", State.OK, "Python 3.12.1"),
        Check("pyarrow", State.ABSENT, "not installed; it gives folders of Parquet", "pip install 'nsysprof[parquet]'"),
        Check("LD_PRELOAD", State.WARNING, "a | b: a library is loaded into every program", "Unset it."),
        Check("nsys", State.PROBLEM, "nsys does not run", "Install it again."),
    )
    return doctor_report(checks)


def program_runs() -> ProgramComparison:
    """Return a program whose candidate is faster with equal values, and whose gate passed."""
    sides = [
        ProgramSideSummary(label, 6, failed, step, 40, peak, 2 << 30, use)
        for label, failed, step, peak, use in (
            ("this environment", 0, 120.0 * MS, 1 << 30, None),
            (
                "NSYSPROF_POLICY=policy.json",
                1,
                90.0 * MS,
                900 << 20,
                PolicyUse(480, 12, 0, {}, ("12 calls had a mask",)),
            ),
        )
    ]
    change = LatencyChange(
        "train.py", LatencyVerdict.FASTER, SideOfCase("ok", "", 120.0 * MS), SideOfCase("ok", "", 90.0 * MS),
        ratio=0.75, low=0.74, high=0.77,
    )  # fmt: skip
    values = ValueComparison(Sameness.EQUAL, "", 40, 0.5, 0.02, 0.01)
    gate = (GateResult("slower:3%", "train.py", Outcome.PASS, "-25 %"),)
    return ProgramComparison(
        ("train.py",), *sides, "steps of the optimizer", change, values, gate, (WARNING,), ("How.",)
    )


def program() -> Report:
    return program_report(program_runs())


def optimize() -> Report:
    """Return the page of a program that gains from a policy, with a call that could not be tuned."""
    shape = Shape(seq=1024, batch=8, heads=16, head_dim=64, dtype="bf16", causal=True)
    uses = (
        AttentionUse("model.py:77", shape, 480, "math", 30 * MS, 25.0),
        AttentionUse("model.py:90", None, 12, None, None, None, "its mask is nested"),
    )
    tuned = (TunedUse("model.py:77", shape, "flash", "winner", 2.4, 25.0, True),)
    attempt = Attempt(
        "the policy", "attention in model.py:77", "nsysprof run --policy policy.json -- PROGRAM",
        'with nsysprof.policy("policy.json"):',
        PredictedGain(20.0, 17.5, 22.0, "step", "a replay of the trace"), program_runs(), True, "policy",
        Prediction.GAINED_MORE,
    )  # fmt: skip
    steps = (OptimizeStep("record", 12.5, "3 steps"), OptimizeStep("tune", 61.0, "1 shape"))
    suggestions = (Suggestion("pageable-copies", "Pin the copies."),)
    return optimize_report(
        Optimization(
            ("python", "train.py"),
            uses,
            25.0,
            tuned,
            (attempt,),
            suggestions,
            steps,
            (WARNING,),
            "p.json",
            answer=OptimizationAnswer.FASTER,
        )
    )


def history() -> Report:
    """Return three runs of a case, one of them under other conditions, and a case that failed."""
    points = [
        HistoryPoint(
            f"2026-01-{day:02}T10:00:00Z", "ok", median, 0.98 * median, 1.02 * median, 30, conditions, "H200, torch 2"
        )
        for day, median, conditions in ((1, 9000.0, "old"), (2, 1000.0, "new"), (3, 1500.0, "new"))
    ]
    failed = HistoryPoint("2026-01-04T10:00:00Z", "timeout", None, None, None, None, "new", "H200, torch 2")
    cases = (CaseHistory("flash S=512", tuple(points)), CaseHistory("math", (failed,)))
    return history_report("all.db", tuple(map(judge_history, cases)), {})


def recording() -> Report:
    """Return a recorded part of a server with a worker whose events nsys cannot see, and a slow-down of its steps."""
    before = LatencyWindow(20, 2_000_000_000, 1_500_000, 2_000_000, 1_400_000, 1_600_000)
    during = LatencyWindow(40, 5_000_000_000, 2_250_000, 2_900_000, 2_200_000, 2_300_000)
    after = LatencyWindow(0, 1_000_000_000, None, None, None, None)
    latency = LatencyWindows("lines of the program", "", before, during, after, (1.5, 1.25, None), None)
    processes = (
        ProcessPart(41, None, "server.py", "", 1200, 3, 40, 0, 5000, 77, trace=Path("server.py-41.sqlite")),
        ProcessPart(42, 41, "worker.py", "", 0, 0, 0, 0, 0, 0, unseen="it was forked after CUDA was used"),
    )
    result = RecordResult(
        Path("recording-1"), 5_123_456_789, 40, 321_000_000, 1_250_000_000, True, latency, processes, (WARNING,)
    )
    return recording_report(result)


def memory(folder: Path) -> Report:
    return memory_report(_memory(folder / "before.pickle", 96))


def memory_comparison(folder: Path) -> Report:
    sides = (_memory(folder / "before.pickle", 96), _memory(folder / "after.pickle", 160))
    return memory_comparison_report(compare_owners(*sides))


def _memory(path: Path, cache_mib: int) -> AllocatorMemory:
    built = SnapshotBuilder()
    built.reserve(512 << 20)
    built.alloc(64 << 20, frames("/w/model.py", 12, "build"))
    built.alloc(cache_mib << 20, frames("/w/cache.py", 40, "update"))
    built.free(built.alloc(32 << 20, frames("/w/train.py", 30, "loss")))
    return read_memory(built.write(path))
