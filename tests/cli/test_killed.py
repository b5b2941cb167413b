"""Each command that writes, killed at moments spread over its run: what is there is the older result or the newer.

NSYSPROF_TEST_KILLS sets how often, 25 where it is not set. Set it to 200, which takes half an hour, after a change to
how files are written; tests/files kills at every single step. All of this is slow. The commands run in forks of a
process that has loaded everything, so that no kill is spent on loading.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nsysprof.files.folder_state import STATE, read_state
from tests.builders.build_trace import TraceBuilder
from tests.builders.forked_commands import ForkedCommands
from tests.ranks.job import slow_in_backward, write_job

KILLS = int(os.environ.get("NSYSPROF_TEST_KILLS", "25"))
OLDER = b"\n# of the older run\n"
GRID = "--backends math --seq 32 --heads 2 --head-dim 16 --device cpu --no-check"
# What a command reads of its own older result; the others may hold anything.
READ_AGAIN = ("samples.json", "manifest.json", "summary.json", "ranks.json", "compare.json")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL"),
]

FOLDERS = {
    "analyze": "analyze {root}/in.sqlite --no-figures --out {out}",
    "ranks": "analyze {root}/job --workers 1 --no-figures --out {out}",
    "compare": "compare {root}/in.sqlite {root}/in.sqlite --no-figures --out {out}",
    "parquet": "export {root}/in.sqlite --parquet {out}",
    "bench": f"bench {GRID} --processes 1 --rounds 2 --block-samples 3 --seed 1 --no-figures --out {{out}}",
    "tune": f"tune {GRID} --budget 60 --block-samples 3 --seed 1 --no-figures --out {{out}}",
    "capture": f"capture {GRID} --profiler none --samples 3 --out {{out}}",
    "capture of a program": "capture --nsys {root}/nsys --out {out} -- true",
}
FILES = {
    "bundle": ("out.zip", "bundle {root}/in.sqlite --out {out}"),
    "perfetto": ("out.pftrace", "export {root}/in.sqlite --perfetto {out}"),
    "chrome": ("out.json", "export {root}/in.sqlite --chrome {out}"),
}


# Does what nsys does with the files, in no time.
NSYS = """#!/bin/sh
for word; do case "$word" in --output=*) out=${word#--output=};; esac; done
case "$1" in
  --version) echo "NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0";;
  profile) while [ "${1#--output=}" = "$1" ]; do shift; done; shift; "$@"; echo report > "$out.nsys-rep";;
  export) cp "${0%/*}/in.sqlite" "$out";;
esac
"""


def prepare(root: Path) -> None:
    (root / "nsys").write_text(NSYS)
    (root / "nsys").chmod(0o755)
    builder = TraceBuilder()
    for number in range(1, 40):
        builder.range(number * 1000, number * 1000 + 900, "step")
        builder.launch(number * 1000 + 10, number)
    builder.write(root / "in.sqlite")
    write_job(root / "job", 4, slow_in_backward, steps=4)


def files_of(folder: Path) -> list[Path]:
    """Return the files of ours, but for what says that they are whole."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != STATE)


def mark_as_older(folder: Path) -> list[Path]:
    marked = [path for path in files_of(folder) if path.name not in READ_AGAIN]
    for path in marked:
        if not is_older(path):
            path.write_bytes(path.read_bytes() + OLDER)
    return marked


def is_older(path: Path) -> bool:
    return path.read_bytes().endswith(OLDER)


def kill_often(
    commands: ForkedCommands,
    name: str,
    arguments: list[str],
    before: Callable[[], object],
    after: Callable[[], object],
    environment: dict[str, str] | None = None,
) -> None:
    """Kill KILLS runs of a command, each in another part of the time that it takes.

    before, after: what to do around each run.
    """
    seconds, chance, killed = finish(commands, arguments, environment), random.Random(name), 0
    for _ in range(4 * KILLS):
        before()
        code, said = commands.run(arguments, seconds * (killed + chance.random()) / KILLS, environment)
        assert code in (0, -9), said
        assert "nsysprof: " not in said
        after()
        killed += code == -9
        seconds *= 1 if code == -9 else 0.95  # it has ended before: another process has less to do now
        if killed == KILLS:
            return
    raise AssertionError(f"{killed} runs of {4 * KILLS} could be killed")


def finish(commands: ForkedCommands, arguments: list[str], environment: dict[str, str] | None = None) -> float:
    begin = time.monotonic()
    code, said = commands.run(arguments, None, environment)
    assert code == 0, said
    return time.monotonic() - begin


def hidden(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_the_older_or_the_newer(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    prepare(tmp_path)
    out = tmp_path / "out"
    arguments = FOLDERS[name].format(root=tmp_path, out=out).split()
    marked: list[Path] = []

    def before() -> None:
        marked[:] = mark_as_older(out)

    with ForkedCommands(tmp_path_factory.mktemp("log")) as commands:
        finish(commands, arguments)
        forced = with_force(arguments)
        kill_often(commands, name, forced, before, lambda: check_not_mixed(out, marked))
        finish(commands, forced)  # and nothing refuses
    assert hidden(tmp_path) == []


def test_the_last_rank_of_a_job_is_killed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Ranks that are started apart write one folder; the last one puts it in the place of the older capture."""
    prepare(tmp_path)
    out = tmp_path / "out"
    arguments = with_force(FOLDERS["capture of a program"].format(root=tmp_path, out=out).split())
    ranks = [{"PMI_RANK": str(rank), "PMI_SIZE": "2"} for rank in range(2)]
    marked: list[Path] = []
    with ForkedCommands(tmp_path_factory.mktemp("log")) as commands:

        def before() -> None:
            marked[:] = mark_as_older(out)
            finish(commands, arguments, ranks[0])
            assert [path for path in marked if is_older(path)] == marked

        finish(commands, arguments, ranks[0])
        kill_often(commands, "ranks", arguments, before, lambda: check_not_mixed(out, marked), ranks[1])
        for rank in ranks:
            finish(commands, arguments, rank)
    assert hidden(tmp_path) == []


def with_force(arguments: list[str]) -> list[str]:
    return [arguments[0], "--force", *arguments[1:]]


def check_not_mixed(out: Path, marked: list[Path]) -> None:
    state = read_state(out)
    assert state is not None
    assert state["whole"] is True
    still = [path for path in marked if path.exists() and is_older(path)]
    assert still in ([], marked), "a mixture of two runs"
    assert isinstance(state["files"], list)
    assert {str(each) for each in state["files"]} <= {path.name for path in out.iterdir()}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_the_older_or_the_newer(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    prepare(tmp_path)
    out = tmp_path / FILES[name][0]
    arguments = FILES[name][1].format(root=tmp_path, out=out).split()
    with ForkedCommands(tmp_path_factory.mktemp("log")) as commands:
        finish(commands, arguments)
        newer = out.read_bytes()

        def after() -> None:
            assert out.read_bytes() in (newer, newer + OLDER)

        kill_often(commands, name, with_force(arguments), lambda: out.write_bytes(newer + OLDER), after)
        finish(commands, with_force(arguments))
        assert out.read_bytes() == newer
    assert hidden(tmp_path) == []
