import sys

import pytest

from nsysprof.capture.folder import prepare_folder
from nsysprof.capture.live import run_held as module
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.record_program import Watchers
from nsysprof.notes import make_note

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")
# Runs the program as `nsys launch` does, and keeps its options.
STAND_IN = """\
#!/bin/sh
[ "$1" = launch ] || exit 0
shift
while case "$1" in --*) true;; *) false;; esac; do echo "$1" >> {calls}; shift; done
exec "$@"
"""


@pytest.mark.parametrize("settled", [("--cuda-memory-usage=false",), ()])
def test_a_held_program_is_launched_with_the_options_that_lose_nothing_here(tmp_path, monkeypatch, settled):
    nsys, calls, said, held = tmp_path / "nsys", tmp_path / "calls", [], []
    nsys.write_text(STAND_IN.format(calls=calls))
    nsys.chmod(0o755)
    notes = [make_note("probe-lost", found="no kernels", options=" ".join(settled))] if settled else []
    monkeypatch.setattr(module, "settle_options", lambda *_arguments, may_try: (settled if may_try else (), notes))
    (tmp_path / "c").mkdir()
    prepare_folder(tmp_path / "c")
    announced = tmp_path / "announced"
    waits = f"import os, time\nwhile not os.path.exists({str(announced)!r}): time.sleep(0.05)"
    plan = ProgramPlan((sys.executable, "-c", waits), trace="cuda")

    def announce(program):
        held.append(program)
        announced.touch()

    ended = module.run_held(
        plan, tmp_path / "c", nsys, Watchers(None, None), announce=announce, on_signal={}, say=said.append
    )
    assert (ended.exit_code, len(held)) == (0, 1)
    options = calls.read_text().split()
    assert f"--cuda-memory-usage={'false' if settled else 'true'}" in options
    assert "--trace=cuda" in options
    assert any("no kernels" in each for each in said) == bool(settled)
