"""Command lines of sessions, and what `nsys sessions list` prints."""

import stat
from pathlib import Path

import pytest

from nsysprof.errors import ToolFailedError
from nsysprof.nsight.nsys import launch_argv, list_sessions, start_options, start_recording

LIST = """\
              ID         TIME                       STATE LAUNCH NAME
         1022238        00:04                    Launched      1 nsysprof-12
         1022239        00:07                  Collection      1 the other one
"""


def test_each_option_goes_where_nsys_takes_it():
    more = ("--trace=nvtx", "--sample=process-tree", "--trace-fork-before-exec=true")
    argv = launch_argv(Path("nsys"), "s", ["serve", "--sample=x"], more)
    assert argv[:3] == ["nsys", "launch", "--session-new=s"]
    assert argv[-2:] == ["serve", "--sample=x"]
    assert "--trace=nvtx" in argv
    assert "--trace=cuda,nvtx" not in argv
    assert "--trace-fork-before-exec=true" in argv
    assert not any(word.startswith("--sample=process") for word in argv)
    assert "--sample=process-tree" in start_options(more)
    assert "--sample=none" not in start_options(more)


@pytest.fixture
def fake(tmp_path):
    path = tmp_path / "nsys"
    path.write_text(f"#!/bin/sh\n[ $1 = start ] && exit 3\ncat <<'EOF'\n{LIST}EOF\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_sessions_by_name(fake):
    assert list_sessions(fake, {}) == {"nsysprof-12": "Launched", "the other one": "Collection"}


def test_a_session_that_is_gone_is_not_made_anew(fake, tmp_path):
    with pytest.raises(ToolFailedError, match="has no session for the held program"):
        start_recording(fake, "nsysprof-1", tmp_path / "r", (), {})
    with pytest.raises(ToolFailedError, match="exit code 3"):
        start_recording(fake, "nsysprof-12", tmp_path / "r", (), {})
