#!/usr/bin/env python3
"""Do the first tasks of a new user in a real terminal of 80 columns (tmux) and a browser, and check the screens.

Usage: scripts/play_first_tasks.py [--nsysprof PATH] [--screens DIR]
Needs tmux (apt install tmux), and Chromium for the pages of view (apt install chromium); no GPU, no torch.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TRACES = REPOSITORY / "traces"
COLUMNS, LINES = 80, 40
MOST_SECONDS = 180
_ENDED = re.compile(r"^\[exit (\d+)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Screen:
    """What a task left in the terminal: every line of it, the last screenful, and the exit code."""

    text: str
    seen: str
    code: int

    @property
    def flat(self) -> str:
        """Return all lines as one, because the terminal breaks them where it likes."""
        return " ".join(self.text.split())


class Terminal:
    """A shell in tmux, in an empty folder, whose PATH leads to nsysprof."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._tmux = ["tmux", "-L", f"first-tasks-{os.getpid()}", "-f", os.devnull]
        # Neither what this machine sets nor what its user has configured: only what a new user has.
        known = {"PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "screen"}
        known |= {"LANG": "C.UTF-8", "BROWSER": "true", "HISTFILE": os.devnull}
        shell = shlex.join(["env", "-i", *map("=".join, known.items()), "bash", "--norc", "--noprofile"])
        size = ["-x", str(COLUMNS), "-y", str(LINES), "-c", str(folder)]
        # One call: a history of this length is for panes that begin afterwards.
        history = ["set-option", "-g", "history-limit", "20000"]
        self._run("start-server", ";", *history, ";", "new-session", "-d", *size, shell)

    def play(self, command: str) -> Screen:
        """Type a command, wait until it has ended, and return what it left."""
        self.start(command)
        return self.end()

    def start(self, command: str) -> None:
        """Type a command on an empty screen."""
        self._run("send-keys", "clear", "Enter")
        time.sleep(0.3)
        self._run("clear-history")
        self.type(f'{command}; echo "[exit $?]"')
        self._run("send-keys", "Enter")

    def end(self) -> Screen:
        """Wait until the command has ended, and return what it left."""
        ended = self.wait_for(_ENDED)
        if ended is None:
            return Screen(self.read(whole=True), self.read(), -1)
        return Screen(ended.string[: ended.start()], self.read(), int(ended[1]))

    def wait_for(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        """Return where a text stands on the screen, once it does; None where it takes too long."""
        deadline = time.monotonic() + MOST_SECONDS
        while time.monotonic() < deadline:
            if found := wanted.search(self.read(whole=True)):
                return found
            time.sleep(0.2)
        return None

    def type(self, keys: str) -> None:
        self._run("send-keys", "-l", keys)

    def press(self, key: str) -> None:
        self._run("send-keys", key)

    def read(self, *, whole: bool = False) -> str:
        """Return the screen, or everything since it was cleared."""
        return self._run("capture-pane", "-p", *(["-S", "-"] if whole else []))

    def close(self) -> None:
        self._run("kill-server")

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True).stdout


def task_help(terminal: Terminal) -> Screen:
    """Ask what there is: the commands, each with what it is for."""
    screen = terminal.play("nsysprof")
    for command in ("demo", "analyze", "capture", "compare"):
        check(f" {command} " in screen.flat, f"{command} is in the help")
    return screen


def task_complete(terminal: Terminal) -> Screen:
    """Install the completion, and press TAB after half a command."""
    terminal.play("nsysprof --install-completion bash >/dev/null; . ~/.bashrc")
    terminal.type("nsysprof ana")
    terminal.press("Tab")
    time.sleep(3)
    screen = Screen(terminal.read(whole=True), terminal.read(), 0)
    terminal.press("C-u")
    check("nsysprof analyze" in screen.text, "TAB completes `ana`")
    return screen


def task_demo(terminal: Terminal) -> Screen:
    """See a real analysis: what to change comes first, and the last lines say where the page is."""
    screen = terminal.play("nsysprof demo --open")
    check(screen.code == 0, "it succeeds")
    check(screen.text.index("Findings") < screen.text.index("Idle time by cause"), "findings come before tables")
    check("1. pageable-copy in load" in screen.text, "the largest fault is the first finding")
    first = "\n".join(screen.text.splitlines()[:LINES])
    for fault in ("unfused-attention", "alloc-in-loop", "launch-bound", "host-bound"):
        check(f". {fault} in " in first, f"the first screen names {fault}")
    for fault in ("unfused-optimizer", "sync"):
        check(f". {fault} in " in screen.text, f"{fault}, which costs little, is named too")
    page = re.search(r"The page: (\S+(?:\n\S+)?report\.html)", screen.seen)
    check(page is not None, "the last screen says where the page is")
    assert page is not None
    check(Path(page[1].replace("\n", "")).is_file(), "the page is there")
    return screen


def task_analyze(terminal: Terminal) -> Screen:
    """Analyse a trace of one's own."""
    screen = terminal.play(f"nsysprof analyze {TRACES / 'h200-programs' / 'graphs.sqlite.xz'} --out mine")
    check(screen.code == 0, "it succeeds")
    check("Ranges" in screen.text, "ranges are shown")
    check("Top kernels" in screen.text, "kernels are shown")
    # A terminal breaks what is too long, and a broken rule is the first thing that shows it.
    lines = screen.text.splitlines()
    tables = [(above, rule) for above, rule in pairwise(lines) if rule.startswith("──")]
    check(len(tables) >= 2, "tables have their rules")
    for above, rule in tables:
        check(len(above) <= len(rule), "a table's rule is as wide as its header")
    check("read mine/report.md first" in screen.seen, "the last screen says what to read")
    return screen


def task_again(terminal: Terminal) -> Screen:
    """Do it again: the older result is safe, and the error says how to replace it."""
    screen = terminal.play(f"nsysprof analyze {TRACES / 'h200-programs' / 'graphs.sqlite.xz'} --out mine")
    check(screen.code == 4, "it is refused")
    check("mine already holds an analysis." in screen.flat, "the error says why")
    check("--force" in screen.flat, "the error says what to do")
    return screen


def task_misspell(terminal: Terminal) -> Screen:
    """Misspell a command, an option and a backend."""
    screen = terminal.play("nsysprof anlyze x; nsysprof analyze x --ot y; nsysprof bench --backends flsh --dry-run")
    check(screen.code == 2, "it is a wrong usage")
    for close in ("Did you mean 'analyze'?", "--out", "Did you mean 'flash'?"):
        check(close in screen.flat, f"{close} is offered")
    return screen


def task_url(terminal: Terminal) -> Screen:
    """Give an address where a file is wanted."""
    screen = terminal.play("nsysprof analyze https://example.com/trace.sqlite")
    check(screen.code == 2, "it is a wrong usage")
    check("is a URL" in screen.flat, "the address is recognised")
    check("Download it" in screen.flat, "the error says what to do")
    return screen


def task_compare(terminal: Terminal) -> Screen:
    """Compare two versions of a program."""
    folder = TRACES / "h200-faults"
    pair = f"{folder / 'none.sqlite.xz'} {folder / 'pageable-copy.sqlite.xz'}"
    screen = terminal.play(f"nsysprof compare {pair}")
    check(screen.code == 0, "it succeeds")
    check("peak" in screen.text, "the table has kept peak memory, or says where it is")
    check("pageable-copy" in screen.text, "the fault that was added is named")
    return screen


def task_whatif(terminal: Terminal) -> Screen:
    """Ask what a change would save."""
    trace = TRACES / "h200-faults" / "pageable-copy.sqlite.xz"
    screen = terminal.play(f"nsysprof whatif {trace} --pin-copies")
    check(screen.code == 0, "it succeeds")
    check("pin-copies" in screen.text, "the change is named")
    check(re.search(r"\d+\.\d+ ms", screen.text) is not None, "times are given")
    return screen


def task_view(terminal: Terminal) -> Screen:
    """View two traces in a browser, read the report of one, and end it with Ctrl-C."""
    folder = TRACES / "h200-faults"
    terminal.start(f"nsysprof view {folder / 'none.sqlite.xz'} {folder / 'all.sqlite.xz'}")
    address = terminal.wait_for(re.compile(r"^http://127\.0\.0\.1:\d+/\S+/$", re.MULTILINE))
    check(address is not None, "the address is on the screen")
    assert address is not None
    page = browse(address[0])
    for seen in ("none.sqlite.xz", "all.sqlite.xz", "not analyzed yet", "Compare two"):
        check(seen in page, f"{seen} is on the page of all traces")
    deadline = time.monotonic() + MOST_SECONDS
    while "Findings" not in (page := browse(f"{address[0]}report-1")) and time.monotonic() < deadline:
        time.sleep(1)
    check("pageable-copy" in page, "the report of a trace has its findings")
    check('data-view="' in page or shutil.which("chromium") is None, "its timeline is drawn")
    check("pageable-copy" in browse(address[0]), "the list says what to change first")
    terminal.press("C-c")
    screen = terminal.end()
    check(screen.code == 0, "Ctrl-C ends it without an error")
    return screen


def browse(address: str) -> str:
    """Return a page as Chromium has it after its scripts have run; without Chromium as it is sent."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        with urllib.request.urlopen(address, timeout=60) as page:
            return page.read().decode()
    with tempfile.TemporaryDirectory(prefix="first-tasks-browser-", ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--timeout=10000"]
        command = [browser, *options, "--virtual-time-budget=4000", "--dump-dom", address]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def task_pipe_and_loss(terminal: Terminal) -> Screen:
    """Look at the first lines only; then read a trace whose kernels the profiler lost."""
    first = terminal.play(
        f"set -o pipefail; nsysprof analyze {TRACES / 'mem.sqlite.xz'} --out piped 2>/dev/null | head -3"
    )
    check(first.code == 0, "a reader that closes the pipe is no failure")
    check("nsysprof:" not in first.text, "and there is nothing to complain of")
    screen = terminal.play(f"nsysprof analyze {TRACES / 'sdpa22.sqlite.xz'} --out lost")
    check(screen.code == 12, "lost kernels have an exit code of their own")
    check("The profiler lost every kernel of this trace." in screen.flat, "the last line says so")
    return screen


TASKS: tuple[Callable[[Terminal], Screen], ...] = (
    task_help, task_complete, task_demo, task_analyze, task_again, task_misspell, task_url, task_compare, task_whatif,
    task_view, task_pipe_and_loss,
)  # fmt: skip


class Missed(Exception):
    """What a user expects is not on the screen."""


def check(holds: bool, what: str) -> None:
    """Raise Missed unless it holds."""
    if not holds:
        raise Missed(what)


def main() -> int:
    """Play every task, print a line for each, and return 1 where something is missing on a screen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nsysprof", type=Path, default=REPOSITORY / ".venv" / "bin" / "nsysprof")
    parser.add_argument("--screens", type=Path, help="A folder for the screens, as text.")
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        sys.exit("scripts/play_first_tasks.py: tmux is missing; apt install tmux")
    if not os.access(options.nsysprof, os.X_OK):
        sys.exit(f"scripts/play_first_tasks.py: there is no {shlex.quote(str(options.nsysprof))}; make test creates it")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="first-tasks-", ignore_cleanup_errors=True) as folder:
        terminal = Terminal(options.nsysprof.absolute(), Path(folder))
        try:
            for task in TASKS:
                missed += not _played(task, terminal, options.screens)
        finally:
            terminal.close()
    print(f"{len(TASKS) - missed} of {len(TASKS)} tasks show what they should.")
    return 1 if missed else 0


def _played(task: Callable[[Terminal], Screen], terminal: Terminal, screens: Path | None) -> bool:
    """Play a task, say how it went, and return whether everything was on the screen."""
    name, begin = task.__name__.removeprefix("task_"), time.monotonic()
    problem = ""
    try:
        text = task(terminal).text
    except Missed as error:
        problem, text = str(error), terminal.read(whole=True)
        print(text)
    print(f"{name}: {'MISSED: ' + problem if problem else 'ok'} ({time.monotonic() - begin:.1f} s)", flush=True)
    if screens is not None:
        screens.mkdir(parents=True, exist_ok=True)
        (screens / f"{name}.txt").write_text(text, encoding="utf-8")
    return not problem


if __name__ == "__main__":
    sys.exit(main())
