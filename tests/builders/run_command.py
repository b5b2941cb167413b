"""Run a command of nsysprof as a user does, from a process that has loaded everything already.

Starting Python and importing pandas takes longer than what most of these commands do. A server imports it all once a
worker of pytest, and forks for each command: its own arguments, working folder, environment and output.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# What Python and its libraries read while they are loaded: a command that changes it needs a process of its own.
_READ_WHILE_LOADING = ("PYTHON", "NUMBA", "COVERAGE", "COV_CORE", "LD_", "HOME", "XDG_", "MPL")
_SERVER = """
import atexit, importlib, json, os, signal, sys, threading, traceback

import nsysprof.cli

def command(request):
    for number, path in enumerate(("/dev/null", request["out"], request["err"])):
        os.dup2(os.open(path, os.O_RDWR), number)
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for name in request["hidden"]:
        sys.modules[name] = None
    sys.argv = ["nsysprof", *request["arguments"]]
    code = 1
    try:
        nsysprof.cli.main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    with open(request["loaded"], "w") as file:
        json.dump([name for name in sys.modules if not name.startswith("torch")], file)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)

known = set(sys.modules)
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        command(request)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
    try:  # what this command has loaded, the next ones find loaded
        with open(request["loaded"]) as file:
            for name in json.load(file):
                if name not in known:
                    known.add(name)
                    importlib.import_module(name)
    except Exception:
        pass
"""


class _Server:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="nsysprof-commands-")
        argv = [sys.executable, "-c", _SERVER]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.environment = dict(os.environ)

    def fits(self, environment: dict[str, str]) -> bool:
        """Tell whether a fork is like a new process with this environment."""
        changed = {name for name, _ in environment.items() ^ self.environment.items()}
        return self.process.poll() is None and not any(name.startswith(_READ_WHILE_LOADING) for name in changed)

    def run(
        self, arguments: list[str], folder: Path, environment: dict[str, str], timeout_s: float, hidden: tuple[str, ...]
    ) -> Any:
        out, err, loaded = (Path(self.folder.name, name) for name in ("out", "err", "loaded"))
        for path in (out, err):
            path.write_bytes(b"")
        loaded.unlink(missing_ok=True)
        request = {
            "arguments": arguments, "cwd": str(folder), "env": environment,
            "out": str(out), "err": str(err), "loaded": str(loaded), "hidden": hidden,
        }  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        child = int(self._line(timeout_s))
        try:
            code = int(self._line(timeout_s))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            self._line(timeout_s)
            raise
        return subprocess.CompletedProcess(
            ["nsysprof", *arguments], code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        )

    def _line(self, timeout_s: float) -> bytes:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired("nsysprof", timeout_s)
        return self.process.stdout.readline()


_servers: list[_Server] = []


def run(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 300,
    has_figures: bool = True,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run `nsysprof ARGUMENTS` and return how it ended and what it printed.

    timeout: in seconds.
    has_figures: False hides matplotlib where that saves time, for a test that looks at no figure.
    """
    words = [str(argument) for argument in arguments]
    environment = dict(os.environ if env is None else env)
    if not hasattr(os, "fork") or any(name.startswith(("COVERAGE", "COV_CORE")) for name in environment):
        return run_process(*words, cwd=cwd, env=environment, timeout=timeout)
    if not _servers:
        _servers.append(_Server())
    if not _servers[0].fits(environment):
        return run_process(*words, cwd=cwd, env=environment, timeout=timeout)
    hidden = () if has_figures else ("matplotlib",)
    result: subprocess.CompletedProcess[str] = _servers[0].run(words, cwd or Path.cwd(), environment, timeout, hidden)
    return result


def run_process(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `python -m nsysprof ARGUMENTS` in a process of its own, as run() does in a fork."""
    command = [sys.executable, "-m", "nsysprof", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=timeout)


def fails(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Assert that a command failed with this exit code, in one clear error with these words and a next step."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert sum(line.startswith("nsysprof: ") for line in lines) == 1
    assert lines[-1].startswith("  -> "), "the next step"
    for word in words:
        assert word in done.stderr
