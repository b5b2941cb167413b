import json

from nsysprof.errors import OutputError
from nsysprof.files.folder_state import OLD, FolderKind, read_state
from nsysprof.files.result_folder import must_stay, name_final_folder, put_in_place, remove_path, restore_older

KIND = FolderKind("capture", "a", "manifest.json", ("manifest.json",), with_paths=("manifest.json",))


def test_the_new_folder_names_its_final_path_and_keeps_the_users_files(tmp_path):
    real, path = tmp_path / "out", tmp_path / ".out.part"
    for folder, text in ((real, "old"), (path, json.dumps({"folder": str(path)}))):
        folder.mkdir()
        (folder / "manifest.json").write_text(text)
    (real / "notes.txt").write_text("mine")
    put_in_place(path, real, KIND)
    assert json.loads((real / "manifest.json").read_text()) == {"folder": str(real)}
    assert (real / "notes.txt").read_text() == "mine"
    assert read_state(real)["whole"] is True
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_was_set_aside_comes_back(tmp_path):
    aside = tmp_path / f".out.{'a' * 16}.nsysprof-{OLD.removeprefix('nsysprof-')}"
    aside.mkdir()
    (aside / "kept").touch()
    restore_older(tmp_path / "out")
    assert (tmp_path / "out" / "kept").exists()


def test_the_folder_in_which_somebody_works_stays(tmp_path, monkeypatch):
    folder = tmp_path / "out" / "inner"
    folder.mkdir(parents=True)
    assert not must_stay(folder)
    monkeypatch.chdir(folder)
    assert must_stay(folder)
    assert must_stay(folder.parent)


def test_removing_a_link_keeps_its_target(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    remove_path(tmp_path / "link")
    remove_path(tmp_path / "nothing")
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_an_error_names_the_folder_that_the_user_knows(tmp_path):
    error = OutputError(f"{tmp_path}/.part/x is full.", f"Empty {tmp_path}/.part.")
    name_final_folder(error, tmp_path / ".part", tmp_path / "out")
    assert str(error) == error.text == f"{tmp_path}/out/x is full."
    assert error.next_step == f"Empty {tmp_path}/out."
