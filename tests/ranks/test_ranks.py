"""What many traces say together: stragglers by name and range, clocks, overlap, what is missing or foreign."""

from __future__ import annotations

import dataclasses
import io
import pickle
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nsysprof.errors import TraceError, UsageError
from nsysprof.ranks.collective_waits.collectives import MOST
from nsysprof.ranks.engine import plan_tasks, prepare_parts, renumber, run_serially
from nsysprof.ranks.identity import drop_copies, find_sources, number_ranks
from nsysprof.ranks.overview import overview
from nsysprof.ranks.summarize import (
    MOST_RANGES,
    OTHER_RANGES,
    RankSource,
    merge_partials,
    read_detail,
    read_part,
    summarize_rank,
)
from nsysprof.report.pages.ranks import ranks_report, straggler_lines
from nsysprof.results.rank_results import RanksAnalysis
from tests.builders.build_trace import TraceBuilder
from tests.conftest import REPOSITORY
from tests.ranks.job import MS, slow_in_backward, write_job
from tests.ranks.replay.data_parallel import Training


def analyze(inputs: list[Path], out: Path, *, by_order: bool = False) -> RanksAnalysis:
    sources, copies = drop_copies(find_sources(inputs, None), by_order=by_order)
    tasks = plan_tasks(sources, out)
    prepare_parts(out, tasks, fresh=False)
    merged = run_serially(tasks, lambda _more, _name: None).merged
    ranks = number_ranks(merged.rows, {source.position: source.path for source in sources}, by_order=by_order)
    details = [detail for task in tasks if (detail := read_detail(task.part)) is not None]
    return overview(renumber(merged, ranks), details, {}, copies)


def codes(found: RanksAnalysis) -> set[str]:
    return {note.code for note in found.notes}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> RanksAnalysis:
    folder = tmp_path_factory.mktemp("job")
    return analyze(write_job(folder / "in", 6, slow_in_backward), folder / "out")


def test_the_straggler_is_named_with_its_range(job: RanksAnalysis) -> None:
    worst = job.stragglers.iloc[0]
    assert set(job.stragglers["rank"]) == {2}
    assert (worst["range"], worst["where"], worst["evidence"]) == ("backward", "GPU", "collectives")
    assert (worst["last_in"], worst["collectives"]) == (12, 12)
    assert worst["excess_ns"] == 12 * 2 * MS
    # The first collective is not counted: it waits for whoever started last.
    assert worst["late_ns"] == worst["exposed_late_ns"] == 11 * 2 * MS
    assert job.straggler_evidence == "collectives"


def test_work_of_a_thread_without_ranges_is_of_the_range_open_in_its_process(job: RanksAnalysis) -> None:
    of_rank = job.rank_ranges[job.rank_ranges["rank"] == 0].set_index("range")
    assert of_rank.loc["backward", "compute_ns"] == 12 * 4 * MS
    assert of_rank.loc["forward", "compute_ns"] == 12 * (2 * MS - 100)
    assert of_rank.loc["backward", "comm_ns"] == 12 * (5 * MS // 2)
    assert of_rank.loc["step3", "compute_ns"] == 0


def test_clocks_of_unknown_hosts_are_tied_by_collectives(job: RanksAnalysis) -> None:
    assert [fit.how for fit in job.clocks] == ["reference"] + ["collectives"] * 5
    assert [fit.offset_ns for fit in job.clocks] == [rank * 37 * MS for rank in range(6)]
    assert {(fit.anchors, fit.residual_ns) for fit in job.clocks[1:]} == {(12, 0)}


def test_compute_communication_and_idle_add_up(job: RanksAnalysis) -> None:
    row = job.rows[0]
    assert row.compute_ns == 12 * (6 * MS - 100)
    assert (row.overlap_ns, row.comm_ns) == (0, row.exposed_comm_ns)
    assert row.span_ns == row.compute_ns + row.comm_ns + row.idle_ns
    assert job.imbalance_pct == pytest.approx(100 * (8 / (38 / 6) - 1), rel=1e-3)


def test_counted_names_are_one_range_over_ranks(job: RanksAnalysis) -> None:
    """Six ranks of twelve steps: the totals stay, and the rank that took longest is that of all steps together."""
    counted = job.ranges[job.ranges["range"].str.startswith("step")]
    assert len(counted) == 12
    folded = job.range_families.set_index("range")
    assert set(folded.index) == {"step#", "forward", "backward"}
    assert folded.loc["step#", "instances"] == 72
    assert folded.loc["step#", "total_ns"] == counted["total_ns"].sum()
    assert folded.loc["step#", ["min_ns", "max_ns"]].tolist() == [counted["min_ns"].min(), counted["max_ns"].max()]
    assert folded.loc["step#", "rank_least_ns"] >= counted["rank_least_ns"].sum()


def test_an_outlier_is_marked_with_what_is_unlike(job: RanksAnalysis) -> None:
    assert set(job.outliers) == {2}
    assert "compute +33 %" in job.outliers[2]


def test_quantiles_are_of_all_instances(job: RanksAnalysis) -> None:
    line = job.kernels.set_index("short_name").loc["gemm_backward"]
    assert (line["instances"], line["ranks"], line["slowest_rank"]) == (72, 6, 2)
    # One instance in six takes 6 ms: a quantile of six ranks' medians would not know that 5/6 of all take 4 ms.
    assert (line["med_ns"], line["q75_ns"], line["p95_ns"], line["max_ns"]) == (4 * MS, 4 * MS, 6 * MS, 6 * MS)
    raw = np.array([4 * MS] * 60 + [6 * MS] * 12)
    assert line["stddev_ns"] == pytest.approx(raw.std(ddof=1))


def test_one_host_goes_by_its_sessions_starts_with_the_residual_of_collectives(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 3, hosts=["node"] * 3, utc_error_ns=lambda rank: rank * 1000)
    found = analyze(paths, tmp_path / "out")
    assert [fit.how for fit in found.clocks[1:]] == ["utc", "utc"]
    assert [(fit.offset_ns, fit.residual_ns) for fit in found.clocks[1:]] == [
        (37 * MS + 1000, 1000),
        (74 * MS + 2000, 2000),
    ]
    assert "node" not in str(found.rows)


def test_hosts_whose_clocks_disagree_go_by_collectives(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 2, hosts=["one", "two"], utc_error_ns=lambda rank: rank * 2_000 * MS)
    (_, fit) = analyze(paths, tmp_path / "out").clocks
    assert (fit.how, fit.offset_ns) == ("collectives", 37 * MS)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"steps": 5}, "too few"),
        ({"collective": "ncclDevKernel_SendRecv"}, "no NCCL collective"),
        ({"drift": lambda rank, step: rank * step * MS}, "do not end together"),
    ],
)
def test_a_clock_that_cannot_be_established_is_refused(tmp_path: Path, options: Any, reason: str) -> None:
    found = analyze(write_job(tmp_path / "in", 2, hosts=["one", "two"], **options), tmp_path / "out")
    (_, fit) = found.clocks
    assert fit.offset_ns is None
    assert reason in fit.reason
    assert "no-common-clock" in codes(found)


def test_ranks_with_other_numbers_of_collectives_do_not_match(tmp_path: Path) -> None:
    write_job(tmp_path / "a", 2, steps=12)
    write_job(tmp_path / "b", 2, steps=13)
    found = analyze([tmp_path / "a/rank0.sqlite", tmp_path / "b/rank1.sqlite"], tmp_path / "out")
    assert "differ from the other's, in kernels or in number" in found.clocks[1].reason


def test_without_collectives_the_straggler_is_who_computes_longer(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 4, slow_in_backward, collective="ncclDevKernel_SendRecv", hosts=list("abcd"))
    found = analyze(paths, tmp_path / "out")
    worst = found.stragglers.iloc[0]
    assert (worst["rank"], worst["evidence"], worst["range"]) == (2, "own work", "backward")
    assert "; of fewer than 6 ranks, nothing tells whether by chance" in straggler_lines(found)[0]
    assert pd.isna(worst["collectives"])


def test_even_ranks_have_no_straggler_and_no_outlier(tmp_path: Path) -> None:
    found = analyze(write_job(tmp_path / "in", 6), tmp_path / "out")
    assert found.stragglers.empty
    assert found.outliers == {}
    assert found.imbalance_pct == 0


def write_overlapped(folder: Path, late_ns: list[int], *, hidden: int, steps: int = 12, start: int = 0) -> list[Path]:
    """Write the traces of ranks that compute and reduce in steps, and return their paths.

    Each step has 10 ms of computation and `hidden` more, and an AllReduce that each rank launches after 10 ms and its
    own late_ns. Moving the data takes 1 ms. Hosts wait for all of it and prepare the next step for 1 ms. The steps
    before `start` are not recorded.
    """
    folder.mkdir(exist_ok=True)
    builders, clock = [TraceBuilder() for _ in late_ns], 0
    for step in range(steps):
        computed, reduced, number = clock + 10 * MS + hidden, clock + 11 * MS + max(late_ns), 10 * step + 1
        for builder, late in zip(builders if step >= start else [], late_ns, strict=step >= start):
            launch = clock + 10 * MS + late - 10
            builder.range(clock, max(computed, reduced), "step")
            builder.call(clock + 10, clock + 20, number)
            builder.kernel(clock + 30, computed, number, "gemm")
            builder.call(launch, launch + 5, number + 1)
            builder.kernel(launch + 10, reduced, number + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=17)
            builder.call(launch + 20, max(computed, reduced), number + 2, "cudaDeviceSynchronize_v3020")
        clock = max(computed, reduced) + MS
    for builder in builders:
        builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (10**18,))
        builder.row("TARGET_INFO_SYSTEM_ENV", "name TEXT, value TEXT", ("Hostname", "one"))
    return [builder.write(folder / f"rank{rank}.sqlite") for rank, builder in enumerate(builders)]


@pytest.mark.parametrize(("hidden", "each"), [(0, 2 * MS), (MS, 2 * MS), (2 * MS, MS), (3 * MS, 0)])
def test_waiting_behind_computation_costs_nothing(tmp_path: Path, hidden: int, each: int) -> None:
    found = analyze(write_overlapped(tmp_path, [0, 2 * MS], hidden=hidden), tmp_path / "out")
    assert found.straggler_evidence == "collectives"
    if not each:
        assert found.stragglers.empty
        return
    worst = found.stragglers.iloc[0]
    # The first step and the last end are not judged.
    assert (worst["rank"], worst["late_ns"]) == (1, 11 * 2 * MS)
    assert (worst["cost_ns"], worst["cost_low_ns"], worst["cost_high_ns"]) == (10 * each,) * 3
    assert worst["cost_pct"] == pytest.approx(100 * each / (14 * MS))


def test_a_lag_that_a_host_once_had_costs_nothing_more(tmp_path: Path) -> None:
    """Two hosts that launch ahead of their GPUs, one 3 ms behind the other all the time, as in a job without waits."""
    builders = [TraceBuilder(), TraceBuilder()]
    for step in range(40):
        for rank, builder in enumerate(builders):
            launch, end = 10 * MS * step + 3 * MS * rank, 10 * MS * step + 3 * MS + 500_000
            builder.call(launch, launch + 5, step + 1)
            builder.kernel(launch + 10, end, step + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=17)
    paths = [builder.write(tmp_path / f"rank{rank}.sqlite") for rank, builder in enumerate(builders)]
    found = analyze(paths, tmp_path / "out")
    assert found.straggler_evidence == "collectives"
    assert found.stragglers.empty


def test_of_long_sequences_stretches_stand_for_the_rest(tmp_path: Path) -> None:
    steps = 2 * MOST
    worst = analyze(write_overlapped(tmp_path, [0, 2 * MS], hidden=0, steps=steps), tmp_path / "out").stragglers.iloc[0]
    assert worst["collectives"] == MOST
    assert worst["late_ns"] == pytest.approx(2 * MS * steps, rel=0.01)
    # Warm-up is not judged: the first sixteenth, and here what lies between it and the next stretch.
    assert worst["cost_ns"] == pytest.approx(2 * MS * steps * 15 / 16, rel=0.05)


@pytest.mark.parametrize("parts", [((0, 12), (3, 15)), ((0, 12), (2, 13)), ((4, 12), (0, 14))])
def test_recorded_parts_of_one_host_are_matched_by_when_collectives_end(tmp_path: Path, parts: Any) -> None:
    paths = [
        write_overlapped(tmp_path / str(rank), [0, 2 * MS], hidden=0, start=start, steps=stop)[rank]
        for rank, (start, stop) in enumerate(parts)
    ]
    found = analyze(paths, tmp_path / "out")
    shared = min(stop for _, stop in parts) - max(start for start, _ in parts)
    worst = found.stragglers.iloc[0]
    assert (worst["rank"], worst["collectives"], worst["last_in"]) == (1, shared, shared)
    assert worst["late_ns"] == (shared - 1) * 2 * MS
    uneven = parts[0][1] - parts[0][0] != parts[1][1] - parts[1][0]
    assert ("uneven-ranks" in codes(found)) == uneven


def test_few_collectives_say_nothing_of_who_is_late(tmp_path: Path) -> None:
    found = analyze(write_overlapped(tmp_path / "three", [0, 2 * MS], hidden=0, steps=3), tmp_path / "out")
    assert found.straggler_evidence == "not replayed"
    assert found.stragglers.empty
    found = analyze(write_overlapped(tmp_path / "one", [0, 2 * MS], hidden=0, steps=1), tmp_path / "out1")
    assert found.straggler_evidence == "own work"


def test_a_straggler_whose_cost_is_unknown_is_named_with_the_reason(tmp_path: Path) -> None:
    found = analyze(write_job(tmp_path / "job", 3, slow_in_backward), tmp_path / "out")
    unknown = dict.fromkeys(("cost_ns", "cost_low_ns", "cost_high_ns", "cost_pct"))
    (line,) = straggler_lines(replace(found, stragglers=found.stragglers.assign(**unknown)))
    assert line.startswith(
        "Rank 2 is a straggler: without its delay the job would take less, but how much less is unkn"
    )
    assert "no steps were found" in line
    assert "Record fewer steps. It is last in 12 of 12 collectives; it falls behind in backward" in line


def test_ranks_that_did_different_work_are_not_blamed_for_it(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        builder = TraceBuilder()
        for step in range(10 + 5 * rank):
            builder.range(1000 * step, 1000 * step + 900, "step")
            builder.launch(1000 * step + 10, step + 1)
        paths.append(builder.write(tmp_path / f"rank{rank}.sqlite"))
    found = analyze(paths, tmp_path / "out")
    assert found.stragglers.empty
    assert found.straggler_evidence == ""
    assert "uneven-ranks" in codes(found)
    (line,) = straggler_lines(found)
    assert "unknown" in line
    assert analyze(paths[:1], tmp_path / "one").straggler_evidence == ""


def test_a_rank_that_is_late_on_the_host_is_told_so(tmp_path: Path) -> None:
    paths = []
    for rank in range(3):
        builder, clock = TraceBuilder(), 0
        for step in range(12):
            load = 3 * MS if rank == 1 else MS
            builder.range(clock, clock + load, "load")
            builder.call(clock + load + 10, clock + load + 20, step + 1)
            builder.kernel(clock + load + 30, clock + 4 * MS, step + 1, "ncclDevKernel_AllGather_RING_LL")
            builder.call(clock + load + 40, clock + 4 * MS, 100 + step, "cudaStreamSynchronize_v3020")
            clock += 5 * MS
        paths.append(builder.write(tmp_path / f"rank{rank}.sqlite"))
    worst = analyze(paths, tmp_path / "out").stragglers.iloc[0]
    assert (worst["rank"], worst["range"], worst["where"]) == (1, "load", "host")
    assert worst["excess_ns"] == 24 * MS


def test_shares_survive_the_disk_and_the_wire(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 2)
    tasks = plan_tasks(find_sources(paths, None), tmp_path / "out")
    prepare_parts(tmp_path / "out", tasks, fresh=False)
    run_serially(tasks, lambda _more, _name: None)
    leaf, again = summarize_rank(tasks[1].source), read_part(tasks[1].part)
    assert again is not None
    assert again.partial.rows == leaf.partial.rows
    assert again.partial.durations.keys == leaf.partial.durations.keys
    for name in ("count", "total", "least", "most", "edges", "values", "times", "rounded"):
        assert np.array_equal(getattr(again.partial.durations, name), getattr(leaf.partial.durations, name)), name
    pd.testing.assert_frame_equal(again.detail.ranges, leaf.detail.ranges, check_dtype=False)
    assert again.detail.collectives is not None
    assert leaf.detail.collectives is not None
    assert np.array_equal(again.detail.collectives.end_ns, leaf.detail.collectives.end_ns)
    assert pickle.loads(pickle.dumps(leaf.partial)).rows == leaf.partial.rows


def test_rows_merge_in_any_order(tmp_path: Path) -> None:
    a, b, c = (summarize_rank(RankSource(number, path)).partial for number, path in enumerate(write_job(tmp_path, 3)))
    merge = merge_partials
    left, right = merge([merge([a, b]), c]), merge([c, merge([b, a])])
    assert left.rows == right.rows
    assert np.array_equal(left.durations.values, right.durations.values)
    assert np.array_equal(left.durations.times, right.durations.times)


def test_a_damaged_share_is_made_again(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 2)
    first = analyze(paths, tmp_path / "out")
    part = next((tmp_path / "out/parts").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    second = analyze(paths, tmp_path / "out")
    pd.testing.assert_frame_equal(first.kernels, second.kernels)
    assert part.stat().st_size > 100


def test_a_share_is_found_again_and_not_once_the_trace_has_changed(tmp_path: Path) -> None:
    (path, *_) = write_job(tmp_path / "in", 2)
    (task,) = plan_tasks([RankSource(0, path)], tmp_path / "out")
    before = task.part
    assert plan_tasks([RankSource(0, path)], tmp_path / "out")[0].part == before
    path.write_bytes(path.read_bytes() + b"x")
    assert plan_tasks([RankSource(0, path)], tmp_path / "out")[0].part != before


def test_a_process_without_threads_finds_the_same(trace_path: Any) -> None:
    source = RankSource(0, trace_path("ddp_rank1"))
    with_threads, without = (summarize_rank(dataclasses.replace(source, one_thread=way)) for way in (False, True))
    assert pickle.dumps(without.partial) == pickle.dumps(with_threads.partial)
    pd.testing.assert_frame_equal(without.detail.ranges, with_threads.detail.ranges)


def test_a_table_of_many_kernels_in_ranges_is_numbered_alike(trace_path: Any, monkeypatch: Any) -> None:
    source = RankSource(0, trace_path("ddp_rank1"))
    dense = summarize_rank(source).partial
    monkeypatch.setattr("nsysprof.ranks.summarize._MOST_CELLS", 0)
    assert pickle.dumps(summarize_rank(source).partial) == pickle.dumps(dense)


def test_a_trace_of_zero_bytes_costs_its_row_and_a_note(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 3)
    paths[1].write_bytes(b"")
    found = analyze(paths, tmp_path / "out")
    assert [row.is_read for row in found.rows] == [True, False, True]
    assert "0 bytes" in found.rows[1].reason
    assert "traces-unread" in codes(found)
    assert found.kernels["ranks"].max() == 2


def test_the_rank_that_is_left_of_a_job_is_not_said_to_have_no_findings(tmp_path: Path) -> None:
    paths = Training(reduces_always=True, transfer_ns=900_000).write(tmp_path / "in")
    paths[1].write_bytes(paths[1].read_bytes()[:30_000])
    found = analyze(paths, tmp_path / "out")
    assert not found.findings
    assert found.no_findings.startswith("only one of its traces was read")
    (lines,) = ranks_report(found).sections[0].parts
    assert lines.texts == (f"Findings of the job are unknown, because {found.no_findings}.",)


def test_missing_ranks_are_told(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 4)
    found = analyze([paths[0], paths[3]], tmp_path / "out")
    (note,) = [note for note in found.notes if note.code == "missing-ranks"]
    assert note.text.startswith("2 ranks are missing (1, 2)")
    assert [row.rank for row in found.rows] == [0, 3]


def test_two_traces_of_one_rank_are_refused_before_the_work(tmp_path: Path) -> None:
    first, second = write_job(tmp_path / "a", 2), write_job(tmp_path / "b", 2, steps=20)
    with pytest.raises(UsageError, match="Rank 0 has two traces"):
        analyze([first[0], second[0]], tmp_path / "out")
    found = analyze([first[0], second[0]], tmp_path / "out", by_order=True)
    assert [(row.rank, row.rank_from) for row in found.rows] == [(0, "order"), (1, "order")]
    assert "ranks-by-order" in codes(found)


def test_a_copy_of_a_rank_counts_once(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 2)
    copy = tmp_path / "rank0.sqlite"
    copy.write_bytes(paths[0].read_bytes())
    found = analyze([*paths, copy], tmp_path / "out")
    assert len(found.rows) == 2
    assert "copy-of-a-rank" in codes(found)


def test_two_traces_whose_environment_says_one_rank_are_refused(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        builder = TraceBuilder()
        builder.launch(10, 1, name=name)
        builder.fact("PROCESS_0:ENVIRONMENT_VARIABLE", "RANK=5")
        paths.append(builder.write(tmp_path / f"{name}.sqlite"))
    with pytest.raises(UsageError, match="Rank 5 has two traces"):
        analyze(paths, tmp_path / "out")


@pytest.mark.parametrize("way", ["environment", "NVTX", "file name"])
def test_where_a_rank_is_from(tmp_path: Path, way: str) -> None:
    paths = []
    for rank in (3, 12):
        builder = TraceBuilder()
        builder.launch(10, 1)
        if way == "environment":
            builder.fact("PROCESS_0:ENVIRONMENT_VARIABLE", f"SLURM_PROCID={rank}")
        if way == "NVTX":
            builder.range(0, 1, f"rank {rank}")
        paths.append(
            builder.write(tmp_path / (f"ddp_rank{rank:05d}.sqlite" if way == "file name" else f"{rank}x.sqlite"))
        )
    found = analyze(paths, tmp_path / "out")
    assert [(row.rank, row.rank_from) for row in found.rows] == [(3, way), (12, way)]


def test_ranks_of_different_jobs_are_told(tmp_path: Path) -> None:
    one = write_job(tmp_path / "a", 2)
    two = write_job(tmp_path / "b", 2, utc_error_ns=lambda _rank: 3600 * 1000 * MS)
    found = analyze([one[0], two[1]], tmp_path / "out")
    assert "different-jobs" in codes(found)
    assert "different-jobs" not in codes(analyze(one, tmp_path / "out2"))
    builder = TraceBuilder()
    builder.range(0, 500, "something else")
    builder.launch(10, 1)
    other = builder.write(tmp_path / "rank2.sqlite")
    assert "different-jobs" in codes(analyze([*one, other], tmp_path / "out3"))


def test_mixed_versions_of_nsys_are_told(tmp_path: Path) -> None:
    paths = write_job(tmp_path / "in", 2)
    builder = TraceBuilder("2022.4")
    builder.launch(10, 1)
    paths.append(builder.write(tmp_path / "rank2.sqlite"))
    (note,) = [note for note in analyze(paths, tmp_path / "out").notes if note.code == "mixed-nsys"]
    assert "2025.3.2.0 (2)" in note.text


def test_a_capture_lists_its_ranks(tmp_path: Path) -> None:
    import json

    paths = write_job(tmp_path / "ranks", 3, name="rank0000{}.sqlite")
    ranks = [
        {"rank": rank, "world_size": 4, "host_token": "h", "trace": f"ranks/{path.name}"}
        for rank, path in enumerate(paths)
    ]
    ranks.append({"rank": 3, "world_size": 4, "host_token": "h", "trace": "../../etc/passwd"})
    (tmp_path / "manifest.json").write_text(json.dumps({"format_version": 1, "ranks": ranks}))
    found = analyze([tmp_path], tmp_path / "out")
    assert [(row.rank, row.rank_from, row.world_size) for row in found.rows] == [(n, "manifest", 4) for n in range(4)]
    assert "is missing" in found.rows[3].reason
    assert {fit.how for fit in found.clocks[1:]} == {"utc"}


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="contains no trace"):
        find_sources([tmp_path], None)
    with pytest.raises(TraceError, match="does not exist"):
        find_sources([tmp_path / "nothing"], None)


def test_names_of_ranges_are_bounded(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number in range(MOST_RANGES + 50):
        builder.range(10 * number, 10 * number + (9 if number >= 50 else 1), f"step {number}")
    leaf = summarize_rank(RankSource(0, builder.write(tmp_path / "t.sqlite")))
    assert len(leaf.detail.ranges) == MOST_RANGES + 1
    assert OTHER_RANGES in set(leaf.detail.ranges["range"])
    assert [note.code for note in leaf.partial.rows[0].notes].count("many-range-names") == 1


def test_graphs_recorded_as_wholes_leave_the_split_unknown(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.call(100, 110, 2, "cudaGraphLaunch_v10000")
    builder.graph(120, 200, 2)
    (row,) = summarize_rank(RankSource(0, builder.write(tmp_path / "t.sqlite"))).partial.rows
    assert (row.compute_ns, row.comm_ns, row.exposed_comm_ns) == (None, None, None)
    assert row.gpu_busy_ns is not None


def test_real_training_on_two_gpus(trace_path: Any, tmp_path: Path) -> None:
    found = analyze([trace_path("ddp_rank0"), trace_path("ddp_rank1")], tmp_path / "out")
    worst = found.stragglers.iloc[0]
    assert (worst["rank"], worst["range"], worst["last_in"]) == (1, "backward", 135)
    (_, fit) = found.clocks
    # The sessions' starts on the one host say 30,334,761 ns: the collectives are right to 10 us.
    assert fit.offset_ns == pytest.approx(30_334_761, abs=20_000)
    assert fit.residual_ns is not None
    assert fit.residual_ns < 5_000


def test_a_captured_job_on_two_gpus_and_the_same_without_a_straggler(tmp_path: Path) -> None:
    found = analyze([REPOSITORY / "traces" / "h200-ddp"], tmp_path / "out")
    (worst,) = found.stragglers.to_dict("records")
    assert (worst["rank"], worst["range"], worst["where"]) == (1, "forward", "GPU")
    assert [fit.how for fit in found.clocks] == ["reference", "utc"]
    assert found.clocks[1].residual_ns is not None
    assert found.clocks[1].residual_ns < 50_000
    # By the program's own clock rank 0 took 9.00 s for it and 6.18 s without: the waiting is more than the cost.
    assert 1.9e9 < worst["exposed_late_ns"] < 2.82e9 < worst["late_ns"]
    even = analyze([REPOSITORY / "traces" / "h200-ddp-even"], tmp_path / "even")
    assert even.stragglers.empty
    assert even.straggler_evidence == "collectives"


@pytest.mark.nsys
def test_kernels_of_all_ranks_are_the_sum_of_nsys_stats(nsys: Path, trace_path: Any, tmp_path: Path) -> None:
    traces = [trace_path("ddp_rank0"), trace_path("ddp_rank1")]
    found = analyze(traces, tmp_path / "out").kernels.set_index("name")
    tables = []
    for trace in traces:
        argv = [str(nsys), "stats", "-q", "-r", "cuda_gpu_kern_sum", "-f", "csv", "-o", "-", str(trace)]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        tables.append(pd.read_csv(io.StringIO(said)))
    peer = pd.concat(tables).groupby("Name")
    assert set(found.index) == set(peer.groups)
    for ours, theirs, how in (
        ("instances", "Instances", "sum"), ("total_ns", "Total Time (ns)", "sum"),
        ("min_ns", "Min (ns)", "min"), ("max_ns", "Max (ns)", "max"),
    ):  # fmt: skip
        assert found[ours].astype("int64").to_dict() == peer[theirs].agg(how).astype("int64").to_dict(), ours
