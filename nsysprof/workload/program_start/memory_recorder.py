"""Record torch's CUDA allocator, and write a snapshot when the process ends.

It needs only torch, because it runs in the program's own Python. Recording begins when CUDA is initialised, so that a
program that forks first still can.
"""

from __future__ import annotations

import atexit
import os
import pickle
from typing import Any

from .watched_program.after_import import attempt
from .watched_program.process_file import process_path

FOLDER = "NSYSPROF_MEMORY_FOLDER"
# Older events are overwritten; what is held at the end is known whatever its age.
_MOST_EVENTS = 200_000
_FAULT = "the program's memory is not recorded"


def begin(torch: Any) -> None:
    """Record this process, which has just imported torch, from when it uses CUDA."""
    torch.cuda._lazy_call(lambda: attempt(lambda: _begin(torch), _FAULT))


def _begin(torch: Any) -> None:
    torch.cuda.memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
    process = os.getpid()
    atexit.register(lambda: attempt(lambda: _write(torch), _FAULT) if os.getpid() == process else None)


def _write(torch: Any) -> None:
    path = process_path(os.environ[FOLDER], ".pickle")
    snapshot = torch.cuda.memory._snapshot()
    with open(f"{path}.part", "wb") as file:  # noqa: PTH123
        pickle.dump(snapshot, file, protocol=4)
    os.replace(f"{path}.part", path)  # noqa: PTH105
