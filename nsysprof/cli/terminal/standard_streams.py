"""Write to a standard output that may be closed (`| head`) or full (`> /dev/full`): neither is an error of the command.

A status is shown in the last line of a terminal, below what was printed, until something else is printed.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from typing import Any, TextIO, cast


def forgive_streams() -> ForgivingStream | None:
    """Wrap standard output and error in streams that continue when they cannot be written; return the former."""
    if sys.stderr is not None:
        sys.stderr = cast("TextIO", ForgivingStream(sys.stderr))
    if sys.stdout is None:
        return None
    output = ForgivingStream(sys.stdout)
    sys.stdout = cast("TextIO", output)
    return output


def mark_saved() -> None:
    """Say that the result is on disk, so that a full standard output loses nothing."""
    if isinstance(sys.stdout, ForgivingStream):
        sys.stdout.is_saved = True


def show_status(text: str) -> None:
    """Show a status instead of the one before; an empty one erases it. Only a terminal shows it."""
    stream = sys.stderr
    if isinstance(stream, ForgivingStream) and stream.isatty():
        stream.write("")  # erases
        most = shutil.get_terminal_size().columns - 1
        ForgivingStream.has_status = bool(text)
        stream.write_beneath(text[:most])


class ForgivingStream:
    """Passes text on to a stream until that fails, and drops the rest.

    failure: why it failed; None while it works.
    is_saved: whether what is printed is on disk too.
    """

    # Whether a status is shown in the last line of the terminal, which both streams share.
    has_status = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
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
                return self._stream.write(text)
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
