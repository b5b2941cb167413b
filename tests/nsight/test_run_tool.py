import sys

import pytest

from nsysprof.errors import ToolFailedError
from nsysprof.nsight import run_tool as module
from nsysprof.nsight.run_tool import run_showing

PROGRAM = """
import sys, time
for share in (5, 12, 13, 40, 41, 100):
    sys.stderr.write(f"\\rProcessing 12 events: [==={share}%  ]")
    sys.stderr.flush()
    time.sleep(0.05)
print("the end")
raise SystemExit(3)
"""


def test_each_tenth_is_shown_once(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_S", 0.0)
    said = []
    done = run_showing([sys.executable, "-c", PROGRAM], said.append, "export x")
    assert said == ["export x: 10 %", "export x: 40 %", "export x: 100 %"]
    assert done.returncode == 3
    assert done.stdout.endswith("the end\n")


def test_what_is_quick_shows_nothing():
    said = []
    run_showing([sys.executable, "-c", "print('50%')"], said.append, "export x")
    assert said == []


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(ToolFailedError, match="cannot be run"):
        run_showing([str(tmp_path / "none")], print, "x")
