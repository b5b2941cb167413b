"""Commands in forks of one process that has loaded everything: a hundred runs take no longer than their work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_SERVER = """
import copy, contextlib, importlib, json, os, signal, sys, time
from pathlib import Path

import nsysprof.cli
from nsysprof.capture.sampling import bench
from nsysprof.capture import measured_process
from nsysprof.capture import run

TAPES = Path(sys.argv[1])
measured = 0


def replay(name, argv, job, log, take, **limits):
    "Take what the same process of an earlier run of the command has measured, which saves the seconds that it takes."
    global measured
    measured += 1
    tape, taken = TAPES / f"{sys.argv[1]}-{measured}.json", []
    if not tape.exists():

        def record(events):
            taken.append(copy.deepcopy(events))
            take(events)

        ended = measured_process.run_supervised(name, argv, job, log, record, **limits)
        tape.write_text(json.dumps([events for events in taken if events]))
        return ended
    log.touch()
    for events in json.loads(tape.read_text()):
        take(events)
        time.sleep(0.02)
    return measured_process.ProcessEnd(measured_process.Step(name, tuple(argv), 0, 1), interrupted=False)


bench.run_supervised = run.run_supervised = replay
for line in sys.stdin:
    arguments, log, kill_after_s, environment = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1), os.dup2(said, 2), os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["nsysprof", *arguments]
        os.environ.update(environment)
        code = 70
        try:
            nsysprof.cli.main()
        except SystemExit as ended:
            code = ended.code or 0
            (TAPES / "modules.json").write_text(json.dumps(sorted(sys.modules)))
        finally:
            os._exit(code)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)  # its number is its own until it is waited for, even where it has ended
    _, status = os.waitpid(child, 0)
    if kill_after_s is None:  # what this run has loaded, the next ones find loaded
        for name in json.loads((TAPES / "modules.json").read_text()):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class ForkedCommands:
    """Runs commands of nsysprof one after the other, each in a fork that may be killed.

    What bench, tune and capture measure is measured once and replayed. folder: for logs, and for what is replayed.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log.txt"
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> ForkedCommands:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=60)
        self._server.stdout.close()

    def run(
        self, arguments: list[str], kill_after_s: float | None = None, environment: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Return how a command ended (-9: killed), and what it had said until then.

        environment: variables that the command has besides those of this process.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(
            json.dumps([arguments, str(self._log), kill_after_s, environment or {}]),
            file=self._server.stdin,
            flush=True,
        )
        code = int(self._server.stdout.readline())
        return code, self._log.read_text(errors="replace")
