"""Processes of one job write one folder: the older result stays whole until the last of them has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from nsysprof.errors import OutputError, ToolFailedError
from nsysprof.files import folder_lock
from nsysprof.files.folder_state import CAPTURE, STATE, find_leftovers, read_state
from nsysprof.files.result_folder import JointFolder, claim_folder, join_folder
from tests.builders.kill_everywhere import kill_at_step

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")
RANKS = 3


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_PATIENCE_S", 0.1)


def join(folder: Path, rank: int, job: str = "new", *, force: bool = True) -> AbstractContextManager[JointFolder]:
    return join_folder(
        folder,
        CAPTURE,
        job,
        force=force,
        is_taken=lambda path: (path / "ranks" / f"rank{rank}.json").exists(),
        has_all=lambda path: len(list((path / "ranks").glob("*.json"))) >= RANKS,
    )


def fill(joint: JointFolder, rank: int, job: str) -> None:
    """Write what a rank writes at its end; the first one writes the manifest, with a path in it."""
    (joint.path / "ranks").mkdir(exist_ok=True)
    (joint.path / "ranks" / f"rank{rank}.json").write_text(job)
    if rank == 0:
        (joint.path / "manifest.json").write_text(f'"{joint.path}/ranks of {job}"')


def run(folder: Path, job: str, ranks: Iterator[int] | range = range(RANKS), *, force: bool = True) -> None:
    """Let ranks run one after the other, each alone."""
    for rank in ranks:
        with join(folder, rank, job, force=force) as joint:
            fill(joint, rank, job)


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != STATE]
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(files)}


def whole(folder: Path, job: str, **more: str) -> dict[str, str]:
    ranks = {f"ranks/rank{rank}.json": job for rank in range(RANKS)}
    return dict(sorted({"manifest.json": f'"{folder}/ranks of {job}"', **ranks, **more}.items()))


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_new_folder_is_written_at_once_and_whole_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "made" / "out"
    run(out, "new", range(2), force=False)
    assert contents(out).keys() >= {"manifest.json", "ranks/rank0.json", "ranks/rank1.json"}
    assert read_state(out) is None
    run(out, "new", range(2, 3), force=False)
    assert contents(out) == whole(out, "new")
    assert (read_state(out) or {})["whole"] is True
    assert hidden(tmp_path / "made") == []


def test_an_older_capture_stays_whole_until_the_last_rank_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, "old")
    (out / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="already holds a capture"), join(out, 0, force=False):
        pass
    with ExitStack() as stack:
        joints = [stack.enter_context(join(out, rank)) for rank in (1, 0, 2)]
        assert len({joint.path for joint in joints}) == 1
        for rank, joint in zip((1, 0, 2), joints, strict=True):
            assert contents(out) == whole(out, "old", **{"mine.txt": "mine"})
            fill(joint, rank, "new")
    assert contents(out) == whole(out, "new", **{"mine.txt": "mine"})
    assert (read_state(out) or {})["whole"] is True
    assert [joint.is_complete for joint in joints] == [True, False, False], "the last to leave completes it"
    assert hidden(tmp_path) == []


def test_a_job_of_the_same_name_replaces_its_own_older_capture_as_a_whole(tmp_path: Path) -> None:
    """Without a scheduler's number two runs of one command have the same name."""
    out = tmp_path / "out"
    run(out, "same")
    for rank in range(RANKS):
        with join(out, rank, "same") as joint:
            assert not joint.is_restarted
            fill(joint, rank, "same, but newer")
        kept = "same, but newer" if rank == RANKS - 1 else "same"
        assert contents(out) == whole(out, kept)


def test_a_job_whose_ranks_were_killed_leaves_the_older_capture_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, "old")
    with join(out, 0, "killed") as joint:
        fill(joint, 0, "killed")
    assert joint.is_left
    assert not joint.is_complete
    assert contents(out) == whole(out, "old")
    with join(out, 0, "killed") as again:
        assert not again.is_restarted, "nothing of the killed one is left"
    run(out, "new")
    assert contents(out) == whole(out, "new")
    assert hidden(tmp_path) == []


def test_what_a_killed_job_left_goes_with_the_next_capture_of_one_process_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, "old")
    run(out, "killed", range(1))
    assert find_leftovers(out)
    with claim_folder(out, CAPTURE, force=True) as claimed:
        (claimed.path / "manifest.json").write_text("alone")
        claimed.commit()
    assert contents(out) == {"manifest.json": "alone"}
    assert hidden(tmp_path) == []


def test_an_incomplete_folder_is_replaced_by_force_alone(tmp_path: Path) -> None:
    """Also where the rank that writes the manifest was killed first."""
    out = tmp_path / "out"
    run(out, "killed", iter([1]))
    with pytest.raises(OutputError, match="already holds a capture"), join(out, 0, force=False):
        pass
    run(out, "new")
    assert contents(out) == whole(out, "new")


def test_two_jobs_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with join(out, 0, "first") as joint:
        with pytest.raises(OutputError, match="Another run is writing"), join(out, 0, "second"):
            pass
        with pytest.raises(OutputError, match="Another run is writing"), claim_folder(out, CAPTURE, force=True):
            pass
        fill(joint, 0, "first")
    alone = tmp_path / "alone"
    with (
        claim_folder(alone, CAPTURE, force=True),
        pytest.raises(OutputError, match="Another run is writing"),
        join(alone, 0),
    ):
        pass


def test_a_rank_that_begins_again_while_the_others_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with join(out, 0) as joint:
        fill(joint, 0, "new")
        with join(out, 1) as first:
            fill(first, 1, "new")
        with join(out, 1) as again:
            assert again.is_restarted
            assert again.path == out


def test_what_is_not_ours_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="did not write it as a capture"), join(tmp_path / "mine", 0):
        pass
    with pytest.raises(OutputError, match="is a file"), join(tmp_path / "mine" / "mine.txt", 0):
        pass
    assert contents(tmp_path / "mine") == {"mine.txt": "mine"}


def test_a_folder_that_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    run(out, "old")
    monkeypatch.chdir(out)
    run(Path(), "new", range(2))
    assert contents(out).items() >= whole(out, "old").items()
    run(Path(), "new", range(2, 3))
    assert contents(out) == whole(out, "new")


def test_an_error_of_the_last_rank_names_the_folder_that_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, "old")
    run(out, "new", range(2))
    with pytest.raises(ToolFailedError) as caught, join(out, 2) as joint:
        fill(joint, 2, "new")
        raise ToolFailedError(f"See {joint.path}/logs.", "Look.")
    assert caught.value.text == f"See {out}/logs."
    assert contents(out) == whole(out, "new")


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lock(_descriptor: int, **_: bool) -> None:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(folder_lock, "_lock", no_lock)
    out = tmp_path / "out"
    run(out, "old")
    with ExitStack() as stack:
        for rank in range(RANKS):
            fill(stack.enter_context(join(out, rank)), rank, "new")
    assert contents(out) == whole(out, "new")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_killed_at_every_step_of_the_last_rank(tmp_path: Path) -> None:
    """Whatever step of the file system it dies at, the older capture or the newer one is there as a whole."""
    out, last = tmp_path / "out", [False]

    def replace_it() -> None:
        run(out, "new")

    def is_one_of_both() -> None:
        found = contents(out)
        assert found in (whole(out, "old"), whole(out, "new"))
        assert (read_state(out) or {})["whole"] is True

    step = 0
    while not last[0]:
        run(out, "old")
        last[0] = not kill_at_step(replace_it, step, tmp_path)
        is_one_of_both()
        step += 1
    assert step > 30
    assert contents(out) == whole(out, "new")
    run(out, "old")
    assert hidden(tmp_path) == []
