"""A program that imports a library of the GPU leaves samples of its stacks, and what they cost."""

import json
import os
import subprocess
import sys
from pathlib import Path

from nsysprof.capture.user_program.program_hook import collect_recorded, find_recorded, hook_environment

LIBRARY = """
class cuda:
    class Event:
        def wait(self, stream=None):
            return "waited"
    class Stream:
        def wait_event(self, event):
            return event.wait(self)
"""
PROGRAM = """
import os, sys, threading, time
import torch
def slow():  # until there are samples enough, or a minute is over
    while len(sampler._samples) <= 40 and time.monotonic() < end:
        time.sleep(0.05)  # line 6
def elsewhere():
    over.acquire()  # line 8
end, over = time.monotonic() + 60, threading.Lock()
sampler = next(each for each in threading.enumerate() if each.name == "nsysprof stacks")._target.__self__
over.acquire()
thread = threading.Thread(target=elsewhere)
thread.start()
slow()
over.release()
thread.join()
assert torch.cuda.Stream().wait_event(torch.cuda.Event()) == "waited"  # line 17
if os.fork() == 0:
    sys.exit()
os.wait()
"""


def test_samples_say_where_each_thread_was(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/torch.py").write_text(LIBRARY)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    report = tmp_path / "nsys.nsys-rep"
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "lib")}
    environment = base | hook_environment(report, base, ("stacks",))
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    (note,) = collect_recorded(report, ("stacks",))
    assert note.code == "stacks-cost"
    ((process, path),) = find_recorded(tmp_path, "stacks").items()
    data = json.loads(path.read_text())
    assert data["process"] == process
    assert 0 < data["own_ns"] < data["wall_ns"]
    seen = {(thread, tuple(data["stacks"][stack][0][1:])) for _, thread, stack in data["samples"]}
    main = {place for thread, place in seen if thread == process}
    assert (6, "slow") in main
    assert (8, "elsewhere") in {place for thread, place in seen if thread != process}
    assert len(data["samples"]) > 40
    # The stack of a wait is taken in it, however short it is, also inside the library.
    waits = [[frame[1] for frame in data["stacks"][stack]] for _, thread, stack in data["waits"] if thread == process]
    assert [lines[-1] for lines in waits] == [17, 17]
