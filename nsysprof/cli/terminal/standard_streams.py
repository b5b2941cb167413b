"""Write to a standard output that may be closed (`| head`) or full (`> /dev/full`): neither is an error of the command.

A status is shown in the last line of a terminal, below what was printed, until something else is printed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from typing import Any, TextIO, cast


def forgive_streams() -> ForgivingStream:
    """Wrap standard output and error in streams that continue when they cannot be written; return the former."""
    open_standard_streams()
    sys.stderr = cast("TextIO", ForgivingStream(sys.stderr))
    output = ForgivingStream(sys.stdout)
    sys.stdout = cast("TextIO", output)
    return output


def open_standard_streams() -> None:
    """Open what the shell has closed (`>&-`) as the null device, so that no file of ours gets the number of one."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def mark_saved(*, saved: bool = True) -> None:
    """Say whether the result is on disk, so that a full standard output loses nothing."""
    if isinstance(sys.stdout, ForgivingStream):
        sys.stdout.is_saved = saved


def show_status(text: str) -> None:
    """Show a status instead of the one before; an empty one erases it. Only a terminal shows it."""
    stream = sys.stderr
    if isinstance(stream, ForgivingStream) and stream.isatty():
        stream.write("")  # erases
        most = shutil.get_terminal_size().columns - 1
        ForgivingStream.has_status = bool(text)
        stream.write_beneath(text[:most])


# GitHub Actions obeys lines of the log that begin with ::, and ##[ in any place; names of a trace may hold either.
_WORKFLOW_COMMAND = re.compile(r"(^\s*:(?=:)|##(?=\[))", re.MULTILINE)


class ForgivingStream:
    """Passes text on to a stream until that fails, and drops the rest. No text commands a workflow of GitHub Actions.

    failure: why it failed; None while it works.
    is_saved: whether what is printed is on disk too.
    """

    # Whether a status is shown in the last line of the terminal, which both streams share.
    has_status = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_in_workflow = "GITHUB_ACTIONS" in os.environ
        self.failure: OSError | None = None
        self.is_saved = False

    def write(self, text: str) -> int:
        if ForgivingStream.has_status:
            ForgivingStream.has_status = False
            if isinstance(sys.stderr, ForgivingStream):
                sys.stderr.write_beneath("\r\x1b[K")
        return self._write(text)

    def write_beneath(self, text: str) -> None:
        """Write at once, and leave the status alone."""
        self._write(text)
        self.flush()

    def _write(self, text: str) -> int:
        if self.failure is None:
            try:
                # An invisible space of zero width makes it a plain text.
                plain = _WORKFLOW_COMMAND.sub("\\1\u200b", text) if self._is_in_workflow else text
                self._stream.write(plain)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    @property
    def is_lost(self) -> bool:
        """Return whether a result was lost. If a reader closed the pipe, it had read enough."""
        return self.failure is not None and self.failure.errno != errno.EPIPE and not self.is_saved

    def _give_up(self, error: OSError) -> None:
        self.failure = error
        null = os.open(os.devnull, os.O_WRONLY)  # the buffer is flushed once more at the end
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
