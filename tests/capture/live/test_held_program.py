"""How a held program is found, and when it is not."""

import json
import os
from dataclasses import replace

import pytest

from nsysprof.capture.live import held_program
from nsysprof.capture.live.held_program import HELD, HeldProgram, find_held, publish, retract, started_ticks
from nsysprof.errors import UsageError


@pytest.fixture
def held(tmp_path, monkeypatch):
    monkeypatch.setattr(held_program, "_register", lambda _folder=None: tmp_path / "register")

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        return HeldProgram(
            1, str(folder), ("serve",), os.getpid(), started_ticks(os.getpid()), 1, "nsys", "session", (), None
        )

    return make


def test_by_folder_and_alone(held, tmp_path):
    one = held("one")
    publish(one)
    assert find_held(tmp_path / "one") == one == find_held(None)
    retract(one)
    with pytest.raises(UsageError, match="No held program was found"):
        find_held(None)
    with pytest.raises(UsageError, match="is not the folder of a held program"):
        find_held(tmp_path / "one")


def test_several_must_be_named(held, tmp_path):
    one = held("one")
    publish(one)
    two = replace(held("two"), holder_pid=os.getppid(), holder_started=started_ticks(os.getppid()))
    publish(two)
    with pytest.raises(UsageError, match="2 held programs were found"):
        find_held(None)
    assert find_held(tmp_path / "two") == two


def test_a_killed_holder_and_a_number_that_was_given_again(held, tmp_path):
    gone = replace(held("gone"), holder_started=1)
    publish(gone)
    with pytest.raises(UsageError, match="no longer held"):
        find_held(tmp_path / "gone")
    with pytest.raises(UsageError, match="No held program was found"):
        find_held(None)
    assert not list((tmp_path / "register").iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"format_version": 99}', "[]"])
def test_damaged_files(held, tmp_path, text):
    held("bad")
    (tmp_path / "bad" / HELD).write_text(text)
    with pytest.raises(UsageError):
        find_held(tmp_path / "bad")


def test_a_register_that_others_can_write_is_not_believed(held, tmp_path):
    publish(held("one"))
    (tmp_path / "register").chmod(0o777)
    with pytest.raises(UsageError, match="No held program was found"):
        find_held(None)


def test_a_folder_names_no_program_that_is_run(held, tmp_path):
    """Whoever unpacks a stranger's folder would have run his `nsys`, by the number of any process that runs."""
    publish(held("one"))
    strange = tmp_path / "strange"
    strange.mkdir()
    facts = {**vars(held("two")), "folder": str(strange), "nsys": str(strange / "x"), "argv": [], "start_options": []}
    (strange / HELD).write_text(json.dumps(facts))
    for pid in (os.getpid(), 2, os.getppid()):
        (strange / HELD).write_text(json.dumps({**facts, "holder_pid": pid}))
        with pytest.raises(UsageError, match="no longer held by this user"):
            find_held(strange)
