import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nsysprof.errors import InterruptedCaptureError, NsysprofError, OutputError, TraceError
from nsysprof.files import result_folder
from nsysprof.files.folder_state import FolderKind, check_folder, read_state, require_whole, write_state
from nsysprof.files.plain_file import VERSION
from nsysprof.files.result_folder import claim_folder

KIND = FolderKind("analysis", "an", "summary.json", ("summary.json", "kernels.csv", "*.png"))
SLOW = FolderKind("bench", "a", "samples.json", ("samples.json", "logs"), is_slow=True)
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks and locks of POSIX")


def write(folder, kind=KIND, text="new", *, force=True, extra=()):
    with claim_folder(folder, kind, force=force) as claimed:
        for name in (kind.proof, "kernels.csv", *extra):
            (claimed.path / name).write_text(text)
        claimed.commit()


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file() and path.name != "folder.json"}


def test_a_folder_is_made_with_its_parents_and_says_that_it_is_whole(tmp_path):
    out = tmp_path / "a" / "out"
    write(out, force=False)
    assert contents(out) == {"summary.json": "new", "kernels.csv": "new"}
    assert read_state(out) == {
        "format_version": 1,
        "nsysprof_version": VERSION,
        "kind": "analysis",
        "whole": True,
        "files": ["kernels.csv", "summary.json"],
    }
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_an_older_result_goes_as_a_whole_and_the_users_own_files_stay(tmp_path):
    out = tmp_path / "out"
    write(out, text="old", extra=("extra.csv", "figure.png"))
    (out / "notes.txt").write_text("mine")
    (out / "papers").mkdir()
    (out / "papers" / "thesis.tex").write_text("years")
    (out / "link").symlink_to("papers/thesis.tex")
    out.chmod(0o750)
    with pytest.raises(OutputError, match="already holds an analysis"):
        write(out, force=False)
    write(out)
    assert contents(out) == {"summary.json": "new", "kernels.csv": "new", "notes.txt": "mine", "link": "years"}
    assert (out / "papers" / "thesis.tex").read_text() == "years"
    assert (out / "link").is_symlink()
    assert out.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_an_older_version_is_known_by_its_files(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text("old")
    (tmp_path / "out" / "roofline.png").write_text("old")
    write(tmp_path / "out")
    assert contents(tmp_path / "out") == {"summary.json": "new", "kernels.csv": "new"}


@pytest.mark.parametrize("force", [True, False])
def test_a_folder_of_other_things_is_never_taken(tmp_path, force):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    with pytest.raises(OutputError, match="did not write it as an analysis"):
        write(tmp_path / "thesis", force=force)
    write(tmp_path / "bench", SLOW)
    with pytest.raises(OutputError, match="did not write it as an analysis"):
        write(tmp_path / "bench", force=force)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="is a file"):
        write(tmp_path / "file", force=force)
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "file" / "out", force=force)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench", "file", "thesis"]


@pytest.mark.parametrize("ended", [KeyboardInterrupt, NsysprofError])
def test_a_run_that_fails_leaves_the_older_result_and_nothing_else(tmp_path, ended):
    out = tmp_path / "out"
    write(out, text="old")
    with pytest.raises(ended), claim_folder(out, KIND, force=True) as claimed:
        (claimed.path / "summary.json").write_text("half")
        raise ended("no")
    assert contents(out) == {"summary.json": "old", "kernels.csv": "old"}
    with pytest.raises(ended), claim_folder(tmp_path / "x" / "new", KIND, force=True):
        raise ended("no")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_was_measured_for_hours_is_kept_where_the_run_fails(tmp_path):
    out = tmp_path / "out"
    write(out, SLOW, "old")
    with pytest.raises(InterruptedCaptureError, match=str(out / "x")), claim_folder(out, SLOW, force=True) as claimed:
        (claimed.path / "samples.json").write_text("some")
        raise InterruptedCaptureError(f"See {claimed.path / 'x'}")
    assert contents(out) == {"samples.json": "some"}


def test_a_killed_measurement_says_so_and_does_not_refuse_for_ever(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "logs").mkdir()
    (out / "folder.json").write_text('{"kind": "bench", "whole": false}')
    with pytest.raises(TraceError, match="is incomplete"):
        require_whole(out)
    check_folder(out, SLOW, force=False)  # it had measured nothing
    (out / "samples.json").write_text("some")
    with pytest.raises(OutputError, match="a bench that was not finished"):
        check_folder(out, SLOW, force=False)
    write(out, SLOW)
    require_whole(out)
    assert contents(out) == {"samples.json": "new", "kernels.csv": "new"}


def test_a_resumed_run_takes_up_what_a_killed_one_left_else_the_folder(tmp_path):
    out = tmp_path / "out"
    write(out, SLOW, "old")
    with claim_folder(out, SLOW, force=False, resume=True) as claimed:
        assert (claimed.path / "samples.json").read_text() == "old"
        assert not claimed.goes_on
    left = tmp_path / ".out.0123456789abcdef.nsysprof-part"
    left.mkdir()
    (left / "samples.json").write_text("killed")
    with claim_folder(out, SLOW, force=False, resume=True) as claimed:
        assert (claimed.path / "samples.json").read_text() == "killed"
        claimed.commit()
    assert contents(out)["samples.json"] == "killed"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_run_that_was_killed_before_it_measured_anything_is_begun_anew(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write_state(out, SLOW, [], whole=False)
    (out / "logs").mkdir()
    with claim_folder(out, SLOW, force=False, resume=True) as claimed:
        (claimed.path / "samples.json").write_text("new")
        claimed.commit()
    assert contents(out)["samples.json"] == "new"


@posix
def test_two_runs_at_once_into_one_folder(tmp_path):
    out = tmp_path / "out"
    with claim_folder(out, KIND, force=True):
        with pytest.raises(OutputError, match=r"Another run is writing .*out"):
            write(out)
        write(tmp_path / "other")
    write(out)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@posix
def test_of_many_that_race_each_folder_is_of_one(tmp_path):
    refused = []

    def race(number):
        for _ in range(15):
            try:
                write(tmp_path / "out", text=str(number))
            except OutputError as error:
                refused.append(error.text)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(contents(tmp_path / "out").values())) == 1
    assert all("Another run is writing" in text for text in refused)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("how", ["mount", "current folder", "parent"])
def test_a_folder_that_must_stay_where_it_is_is_filled_in_place(tmp_path, monkeypatch, how):
    out = tmp_path / "out"
    write(out, text="old", extra=("figure.png",))
    (out / "notes.txt").write_text("mine")
    before = out.stat().st_ino
    if how == "mount":
        monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == out)
    elif how == "parent":
        monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    else:
        monkeypatch.chdir(out)
    write(out)
    assert contents(out) == {"summary.json": "new", "kernels.csv": "new", "notes.txt": "mine"}
    assert out.stat().st_ino == before
    assert read_state(out)["whole"] is True


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    write(tmp_path / "real", text="old")
    (tmp_path / "latest").symlink_to("real")
    write(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert contents(tmp_path / "real")["summary.json"] == "new"


def test_without_a_way_to_exchange_the_older_is_set_aside_and_put_back_if_need_be(tmp_path, monkeypatch):
    monkeypatch.setattr(result_folder, "_renameat2", lambda: None)
    out = tmp_path / "out"
    write(out, text="old")
    write(out)
    assert contents(out) == {"summary.json": "new", "kernels.csv": "new"}
    out.rename(tmp_path / ".out.0123456789abcdef.nsysprof-old")  # killed just there
    with pytest.raises(OutputError, match="already holds"):
        write(out, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_planted_leftover_is_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    (tmp_path / ".out.0123456789abcdef.nsysprof-part").symlink_to("thesis")
    write(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "thesis"]
    assert (tmp_path / "thesis" / "thesis.tex").exists()


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from tests.builders.kill_everywhere import kill_at_step
from tests.files.test_result_folder import KIND, SLOW, contents, write
from nsysprof.files import result_folder
from nsysprof.files.folder_state import read_state

if {fallback}:
    result_folder._renameat2 = lambda: None
root = Path({root!r})
out = root / "out"
kind = {kind}
step = 0
while True:
    write(out, kind, "old", extra=("figure.png",))
    (out / "notes.txt").write_text("mine")
    if not kill_at_step(lambda: write(out, kind, "new"), step, root):
        break
    if not {fallback}:
        whole = contents(out)
        assert whole.pop("notes.txt") == "mine", (step, whole)
        assert set(whole.values()) in ({{"old"}}, {{"new"}}), (step, whole)
        assert len(whole) == (3 if "old" in whole.values() else 2), (step, whole)
        assert read_state(out)["whole"]
    write(out, kind, "again")  # and nothing refuses
    assert set(contents(out).values()) == {{"again", "mine"}}
    assert [path.name for path in root.iterdir()] == ["out"], (step, sorted(root.iterdir()))
    step += 1
assert step > 15, step
print("fine")
"""


@posix
@pytest.mark.parametrize("kind", ["KIND", "SLOW"])
@pytest.mark.parametrize("fallback", [False, True])
def test_killed_at_any_file_system_call_a_folder_is_the_older_or_the_newer(tmp_path, kind, fallback):
    script = KILLED.format(tests=str(Path(__file__).parents[2]), root=str(tmp_path), kind=kind, fallback=fallback)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr


def test_paths_in_our_own_records_are_those_of_the_folder(tmp_path):
    kind = FolderKind("capture", "a", "manifest.json", (), with_paths=("manifest.json",))
    out = tmp_path / "out"
    with claim_folder(out, kind, force=False) as claimed:
        (claimed.path / "manifest.json").write_text(json.dumps({"argv": ["nsys", str(claimed.path / "nsys")]}))
        claimed.commit()
    assert json.loads((out / "manifest.json").read_text()) == {"argv": ["nsys", str(out / "nsys")]}
