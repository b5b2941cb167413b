import json
import os

import pytest

from nsysprof.errors import OutputError, TraceError
from nsysprof.files.folder_state import (
    MARK,
    PART,
    STATE,
    FolderKind,
    check_folder,
    find_leftovers,
    is_leftover_inside,
    read_state,
    require_whole,
    write_state,
)  # fmt: skip

KIND = FolderKind("analysis", "an", "summary.json", ("summary.json",))
OTHER = FolderKind("bench", "a", "samples.json", ("samples.json",))


def test_what_is_written_is_read_back(tmp_path):
    write_state(tmp_path, KIND, ["summary.json", STATE], whole=True)
    state = read_state(tmp_path)
    assert (state["kind"], state["whole"], state["files"]) == ("analysis", True, ["summary.json"])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_state_that_cannot_be_read_is_none(tmp_path, text):
    (tmp_path / STATE).write_text(text)
    assert read_state(tmp_path) is None


def test_a_folder_is_free_ours_or_another_ones(tmp_path):
    check_folder(tmp_path / "new", KIND, force=False)
    (tmp_path / "summary.json").touch()
    with pytest.raises(OutputError, match="already holds an analysis"):
        check_folder(tmp_path, KIND, force=False)
    check_folder(tmp_path, KIND, force=True)
    with pytest.raises(OutputError, match="did not write it as a bench"):
        check_folder(tmp_path, OTHER, force=True)
    with pytest.raises(OutputError, match="is a file"):
        check_folder(tmp_path / "summary.json", KIND, force=True)


def test_only_a_complete_folder_is_read(tmp_path):
    require_whole(tmp_path)
    write_state(tmp_path, KIND, [], whole=False)
    with pytest.raises(TraceError, match="incomplete"):
        require_whole(tmp_path)
    (tmp_path / STATE).write_text(json.dumps({"whole": "yes"}))
    with pytest.raises(TraceError, match="incomplete"):
        require_whole(tmp_path)


def test_leftovers_come_newest_first_and_other_files_do_not(tmp_path):
    names = [f".out.{digit * 16}.{PART}" for digit in "ab"]
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (100 + age, 100 + age))
    (tmp_path / f".other.{'c' * 16}.{PART}").mkdir()
    (tmp_path / "out").mkdir()
    assert [path.name for path in find_leftovers(tmp_path / "out")] == names[::-1]
    assert is_leftover_inside(f".x.{MARK}")
    assert not is_leftover_inside(f"x.{PART}")
