from dataclasses import replace

import pytest

from nsysprof.capture.manifest import Manifest, Program, read_manifest, write_manifest
from nsysprof.capture.rank import RankIdentity
from nsysprof.capture.user_program.program_plan import plan_program
from nsysprof.capture.user_program.rank_record import (
    claim_rank,
    count_ended,
    has_all_ranks,
    has_rank,
    merge_manifest,
    prepare_rank,
    read_records,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.errors import OutputError
from nsysprof.notes import Note, Severity
from nsysprof.nsight.run_tool import Step


def identity(rank, world_size=3):
    return RankIdentity(rank, world_size, rank, {"RANK": str(rank)})


def finish(folder, rank, *, job="j", code=0, world_size=3, **changes):
    """Let a rank join, run and end, as its process would."""
    prepare_rank(folder, rank, again=False)
    record = claim_rank(folder, identity(rank, world_size), job, rank)
    report_of(folder, rank).write_bytes(b"r")
    trace_of(folder, rank).write_bytes(b"t")
    record = replace(record, trace=replace(record.trace, exit_code=code), recorded=True, ended=True, **changes)
    write_record(folder, with_files(folder, record))


def merged(folder, asked=(), exit_code=None):
    own = Manifest((), (), "nsys", 0, "", "now", complete=True, program=Program(("p",), exit_code))
    return merge_manifest(own, read_records(folder), asked)


def test_the_manifest_is_that_of_all_ranks_in_their_order(tmp_path):
    note = Note("x", Severity.WARNING, "of rank 2")
    finish(tmp_path, 2, code=7, notes=(note,), steps=(Step("program", ("a",), 7, 5),))
    for rank in (0, 1):
        finish(tmp_path, rank)
    whole = merged(tmp_path)
    assert [(rank.rank, rank.trace, rank.report, rank.exit_code) for rank in whole.program.ranks] == [
        (0, "ranks/rank00000.sqlite", "ranks/rank00000.nsys-rep", 0),
        (1, "ranks/rank00001.sqlite", "ranks/rank00001.nsys-rep", 0),
        (2, "ranks/rank00002.sqlite", "ranks/rank00002.nsys-rep", 7),
    ]
    assert whole.complete
    assert whole.program.exit_code == 7
    assert whole.notes == [note]
    assert [step.name for step in whole.steps] == ["program of rank 2"]
    assert len({rank.host_token for rank in whole.program.ranks}) == 1
    write_manifest(tmp_path, whole)
    assert read_manifest(tmp_path) == whole


def test_it_is_not_complete_while_a_rank_runs_or_was_interrupted(tmp_path):
    finish(tmp_path, 0)
    finish(tmp_path, 1)
    assert not merged(tmp_path).complete
    assert merged(tmp_path, asked=(0, 1)).complete
    prepare_rank(tmp_path, 2, again=False)
    claim_rank(tmp_path, identity(2), "j", 2)
    running = merged(tmp_path)
    assert not running.complete
    assert running.program.ranks[2].trace is None
    assert running.program.exit_code is None
    assert count_ended(tmp_path) == 2


def test_a_rank_that_was_killed_has_ended_and_is_not_whole(tmp_path):
    finish(tmp_path, 0, code=None, world_size=1)
    assert not merged(tmp_path).complete
    assert merged(tmp_path).program.exit_code is None


def test_an_interrupted_rank_is_an_end_and_no_completion(tmp_path):
    finish(tmp_path, 0, world_size=1, interrupted=True)
    assert count_ended(tmp_path) == 1
    assert not merged(tmp_path).complete


def test_the_launchers_own_exit_status_counts_before_that_of_its_workers(tmp_path):
    finish(tmp_path, 0, code=3, world_size=1)
    assert merged(tmp_path, exit_code=1).program.exit_code == 1


def test_two_processes_of_one_rank(tmp_path):
    finish(tmp_path, 0)
    with pytest.raises(OutputError, match="already has a rank 0"):
        claim_rank(tmp_path, identity(0), "j", 0)
    prepare_rank(tmp_path, 1, again=False)
    claim_rank(tmp_path, identity(1), "j", 1)
    with pytest.raises(OutputError, match="already has a rank 1"):
        claim_rank(tmp_path, identity(1), "j", 1)


def test_a_rank_that_begins_again_leaves_nothing_of_its_first_attempt(tmp_path):
    finish(tmp_path, 0)
    finish(tmp_path, 1)
    assert has_rank(tmp_path, 0)
    prepare_rank(tmp_path, 0, again=True)
    assert not has_rank(tmp_path, 0)
    assert not trace_of(tmp_path, 0).exists()
    assert [record.trace.rank for record in read_records(tmp_path)] == [1]


@pytest.mark.parametrize(
    ("options", "missing"),
    [({}, 1), ({"ranks": (0, 1)}, 0), ({"ranks": (0, 2)}, 0), ({"per_rank": True}, 1)],
)
def test_all_ranks_have_ended(tmp_path, options, missing):
    """As a process of two knows it; the launcher of each has one worker."""
    plan = plan_program(["p"], **{"per_rank": False, **options})
    assert not has_all_ranks(tmp_path, identity(0, 2), plan)
    finish(tmp_path, 0)
    assert not has_all_ranks(tmp_path, identity(0, 2), plan)
    finish(tmp_path, 1)
    assert has_all_ranks(tmp_path, identity(0, 2), plan)
    assert has_all_ranks(tmp_path, identity(0, 3), plan) == (missing == 0)


def test_a_worker_that_torchrun_starts_again_sets_the_first_attempt_aside(tmp_path):
    finish(tmp_path, 0, code=5)
    record = claim_rank(tmp_path, identity(0), "j", 0, attempt=1)
    assert record.trace.attempt == 1
    assert not trace_of(tmp_path, 0).exists()
    assert (tmp_path / "ranks" / "attempt0" / "rank00000.sqlite").read_bytes() == b"t"
    assert [each.trace.attempt for each in read_records(tmp_path)] == [1]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"job": 1}'])
def test_half_a_record_is_left_out(tmp_path, text):
    finish(tmp_path, 0)
    (tmp_path / "ranks" / "rank00001.json").write_text(text)
    (tmp_path / "ranks" / "rankx.json").write_text(text)
    assert [record.trace.rank for record in read_records(tmp_path)] == [0]


def test_an_empty_trace_is_none(tmp_path):
    finish(tmp_path, 0)
    trace_of(tmp_path, 0).write_bytes(b"")
    found = with_files(tmp_path, read_records(tmp_path)[0])
    assert (found.trace.trace, found.trace.report) == (None, "ranks/rank00000.nsys-rep")


def test_machines_of_two_kinds_are_said(tmp_path):
    for rank, kind in enumerate(("a", "a", "b")):
        finish(tmp_path, rank, environment={"comparable_hash": kind})
    whole = merged(tmp_path)
    assert [note.code for note in whole.notes] == ["mixed-machines"]
    assert whole.environment == {"comparable_hash": "a"}
