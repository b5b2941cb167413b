#!/usr/bin/env python3
"""Act as an nsys that silently loses data: run the real one, and remove rows from what it exports.

LOSSY_NSYS_REAL is the real nsys. LOSSY_NSYS_LOSS names what is removed (see LOSSES), `LOSS@OPTION` only where the
recording was made with that option. Its exit code is the real one's: 0, as with the losses that were seen.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

PREFIX = "CUPTI_ACTIVITY_KIND_"
KERNELS, CALLS = f"{PREFIX}KERNEL", f"{PREFIX}RUNTIME"
OF_GPU = ("MEMCPY", "MEMSET", "GRAPH_TRACE")
LAST = f"(SELECT max(globalPid) FROM {KERNELS})"
PID = "(globalTid - globalTid % 16777216)"  # globalPid of a row that names a thread
LOSSES: dict[str, tuple[str, ...]] = {
    "none": (),
    "a third of the kernels": (f"DELETE FROM {KERNELS} WHERE rowid % 3 = 0",),
    "one kernel in fifty": (f"DELETE FROM {KERNELS} WHERE rowid % 50 = 0",),
    "all kernels": (f"DELETE FROM {KERNELS}",),
    "nodes of graphs": (f"DELETE FROM {KERNELS} WHERE graphNodeId > 0 AND rowid * 7919 % 13 < 3",),
    "all nodes of graphs": (f"DELETE FROM {KERNELS} WHERE graphNodeId > 0",),
    "the second half": (f"DELETE FROM {KERNELS} WHERE start > (SELECT (min(start) + max(start)) / 2 FROM {KERNELS})",),
    "kernels of a process": (f"DELETE FROM {KERNELS} WHERE globalPid = {LAST}",),
    "all of a process": (
        f"DELETE FROM {CALLS} WHERE {PID} = {LAST}",
        *(f"DELETE FROM {PREFIX}{kind} WHERE globalPid = {LAST}" for kind in (*OF_GPU, "SYNCHRONIZATION", "KERNEL")),
    ),
    "all of CUDA": tuple(f"DROP TABLE {PREFIX}{kind}" for kind in (*OF_GPU, "SYNCHRONIZATION", "KERNEL", "RUNTIME")),
}


def argument(name: str) -> str:
    """Return the value of an option in the command line."""
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(f"{name}=")), "")


def main() -> int:
    loss, _, option = os.environ.get("LOSSY_NSYS_LOSS", "none").partition("@")
    code = subprocess.run([os.environ["LOSSY_NSYS_REAL"], *sys.argv[1:]], check=False).returncode
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    if kind == "profile" and option:
        Path(f"{argument('--output')}.lossy").write_text("yes" if option in sys.argv else "no")
    if kind == "export" and code == 0:
        said = Path(sys.argv[-1]).with_suffix(".lossy")
        if not option or (said.exists() and said.read_text() == "yes"):
            with contextlib.closing(sqlite3.connect(argument("--output"))) as database:
                for statement in LOSSES[loss]:
                    with contextlib.suppress(sqlite3.OperationalError):  # the trace has no such table
                        database.execute(statement)
                database.commit()
    return code


if __name__ == "__main__":
    sys.exit(main())
