"""What a job of several ranks would take with one of them like the others, and what cannot be asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nsysprof.app.inputs.reading_requests import WhatIfRequest
from nsysprof.app.whatif import what_if
from nsysprof.errors import UsageError
from tests.analysis.programs import Program
from tests.conftest import REPOSITORY
from tests.ranks.replay.data_parallel import US, Training

TRACES = REPOSITORY / "traces/h200-programs"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    for rank in range(2):
        shutil.copy(TRACES / f"fsdp-slow0_rank{rank}.sqlite.xz", folder / f"rank{rank}.sqlite.xz")
    return folder


def test_a_recorded_job_without_its_slow_rank(job: Path) -> None:
    found = what_if(WhatIfRequest(job, like_peers=0)).found
    (answer,) = found.answers
    assert (found.per, answer.option) == ("job", "--like-peers 0")
    assert answer.low_ns < answer.step_ns < answer.high_ns < found.replayed_ns
    # It sleeps for 30 ms in each of 16 steps.
    assert found.replayed_ns - answer.step_ns > 15 * 30e6


def test_questions_that_a_job_or_one_trace_cannot_answer(job: Path) -> None:
    for request, says in (
        (WhatIfRequest(job, like_peers=5), "no rank 5"),
        (WhatIfRequest(job, pin_copies=True, like_peers=0), "the other changes apply to one trace"),
        (WhatIfRequest(job, ranks_count=4, like_peers=0), "the other changes apply to one trace"),
        (WhatIfRequest(job, pin_copies=True, link_scale=2), "cannot be replayed together"),
        (WhatIfRequest(job, no_sync=("forward",)), "names a range"),
        (WhatIfRequest(job, no_sync=("all",)), "--no-sync would change nothing"),
        (WhatIfRequest(job, bucket_mb=25), "sizes of this job's messages are unknown"),
        (WhatIfRequest(job / "rank0.sqlite.xz", bucket_mb=25), "several ranks"),
        (WhatIfRequest(job / "nowhere", ranks_count=8), "several ranks"),
        (WhatIfRequest(job / "rank0.sqlite.xz", like_peers=0), "several ranks"),
        (WhatIfRequest(job / "nowhere", like_peers=0), "several ranks"),
    ):
        with pytest.raises(UsageError, match=says):
            what_if(request)


def test_a_job_with_other_communication(tmp_path: Path) -> None:
    training = Training(reduces_always=True, transfer_ns=900 * US)
    training.write(tmp_path)
    found = what_if(WhatIfRequest(tmp_path, no_sync=("all",), link_scale=2, ranks_count=64)).found
    assert [answer.option for answer in found.answers] == ["--no-sync", "--link-scale 2", "--ranks 64"]
    assert (found.per, found.steps, found.last_step) == ("step", 6, 5)
    quiet, faster, more = (answer.step_ns for answer in found.answers)
    assert max(quiet, faster) < found.replayed_ns < more
    assert any("projection" in text for text in found.assumptions)
    assert found.to_json()["answers"][0]["option"] == "--no-sync"


@pytest.mark.parametrize(
    ("trace", "reason"),
    [("sdpa22", "recorded no work"), ("sdpa23", "ranges that did work have none"), ("pools", "no CUDA API calls")],
)
def test_a_trace_whose_findings_are_unknown_is_not_replayed(trace: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be replayed.*{reason}"):
        what_if(WhatIfRequest(REPOSITORY / f"traces/{trace}.sqlite.xz", kernels=(("e", 0.5),)))


def test_factors_that_no_time_can_have_are_refused(job: Path) -> None:
    for kernels in ((("gemm", -1.0),), (("gemm", float("nan")),), (("gemm", float("inf")),), (("", 0.5),)):
        with pytest.raises(UsageError, match="is not a change"):
            what_if(WhatIfRequest(job / "rank0.sqlite.xz", kernels=kernels))


def test_counted_ranges_are_known_by_the_name_of_their_family(tmp_path: Path) -> None:
    program = Program()
    for step in range(8):
        begin = program.now
        for _ in range(20):
            program.launch(200_000)
        program.wait()
        program.step(begin, f"step{step}")
    trace = program.builder.write(tmp_path / "t.sqlite")
    for text in ("step#", "step"):
        found = what_if(WhatIfRequest(trace, ranges=((text, 0.5),))).found
        assert found.together.step_ns < 0.6 * found.replayed_ns
    with pytest.raises(UsageError) as raised:
        what_if(WhatIfRequest(trace, ranges=(("step3", 0.5),)))
    assert "step#" in raised.value.next_step
