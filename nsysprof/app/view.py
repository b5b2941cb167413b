"""Run the use case `view`: serve pages about one or many traces to the browser of this user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nsysprof.app.inputs.reading_requests import ViewRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.viewing.loopback_server import LoopbackServer
from nsysprof.app.viewing.view_inputs import ViewInput, list_inputs
from nsysprof.app.viewing.view_pages import ViewPages
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import scratch_folder


@contextmanager
def open_view(request: ViewRequest, progress: Progress = SILENT) -> Iterator[View]:
    """Yield a view that accepts connections, and afterwards stop it and remove everything that it wrote.

    Raises UsageError for a port that is in use, and TraceError where none of the inputs exists.
    """
    if not request.sources:
        raise UsageError("No input was given.", "Name traces, captures or analysis folders.")
    progress.say("look for traces")
    inputs = list_inputs(request.sources)
    with scratch_folder() as scratch:
        pages = ViewPages(inputs, scratch, nsys=request.nsys, figures=request.figures)
        try:
            with LoopbackServer(request.port, pages.respond) as server:
                yield View(server, inputs)
        finally:
            pages.jobs.close()


@dataclass(frozen=True)
class View:
    """A view that accepts connections. They wait until `serve` answers them."""

    server: LoopbackServer
    inputs: tuple[ViewInput, ...]

    @property
    def url(self) -> str:
        """Return the address to open, including its token: the report of a single input, or the list of several."""
        is_one = len(self.inputs) == 1
        return self.server.url + ("report-0" if is_one else "")

    def serve(self) -> None:
        """Answer requests until the process is interrupted."""
        self.server.serve_forever()
