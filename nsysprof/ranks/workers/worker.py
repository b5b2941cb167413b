"""Read traces in a worker process of this machine. The fork server loads this module, with all that a task needs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow.pandas_compat
import pyarrow.parquet  # noqa: F401

from nsysprof.errors import NsysprofError
from nsysprof.files.memory_reuse import reuse_freed_memory, reuse_in_pyarrow
from nsysprof.native.load import native_problem
from nsysprof.ranks.engine import Task, attempt
from nsysprof.ranks.partial import Partial
from nsysprof.ranks.partial_files import code_version

# What these find is kept, so the workers that are forked after this module was loaded have it already.
code_version()
native_problem()


def serve(connection: Connection, memory_bytes: int | None) -> None:
    """Say that this process is ready, and then answer each task with its result, until no more tasks come.

    memory_bytes: the limit of this process's memory; None for no limit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives the tasks
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))  # unpacked traces are removed
    reuse_freed_memory()
    reuse_in_pyarrow()
    if memory_bytes is not None:
        limit_memory(memory_bytes)
    with contextlib.suppress(EOFError, OSError):  # the other process has ended or needs no more
        connection.send(None)
        while True:
            answer = _answer(connection.recv())
            try:
                connection.send(answer)
            except MemoryError:  # the other process sees that this one has ended
                os._exit(1)


def _answer(task: Task) -> Partial | Exception:
    """Return the result of a task, or an error that no single trace causes."""
    try:
        return attempt(task)
    except NsysprofError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the other process raises it again
        error.add_note(traceback.format_exc())
        return error


def limit_memory(limit_bytes: int) -> None:
    """Let requests for memory fail where this process would have more than a limit. Only for Linux."""
    import resource

    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    sizes = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if line.endswith(" kB")}
    # Libraries reserve memory that they never use.
    reserved = (int(sizes["VmData"]) - int(sizes["RssAnon"])) << 10
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit_bytes + max(0, reserved)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
