"""What waits for the import of a library acts then, and once, whatever the program asked before."""

import os
import subprocess
import sys
from pathlib import Path

HOOK = Path(__file__).parents[4] / "nsysprof/workload/program_start/watched_program"
PROGRAM = """
import importlib.util, sys
sys.path.insert(0, {hook!r})
import after_import
after_import.after_import("torch", "one", lambda torch: print("one", torch.is_ready))
after_import.after_import("torch", "two", lambda torch: print("two", torch.is_ready))
after_import.after_import("torch", "one", lambda torch: print("never"))
for _ in range(2):  # as transformers asks whether there is a torch
    assert importlib.util.find_spec("torch").loader is not None
print("asked")
import torch
spec = importlib.util.find_spec("torch")
del sys.modules["torch"]
import torch
assert not after_import.WATCH.after
"""


def test_a_program_that_only_asks_for_torch_does_not_end_the_watch(tmp_path):
    (tmp_path / "torch.py").write_text("is_ready = True\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hook=str(HOOK))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[0] == "asked"
    assert sorted(lines[1:]) == ["", "one True", "two True"]
