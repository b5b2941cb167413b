"""A view that listens in a thread, and raw requests to it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysprof.app.inputs.reading_requests import ViewRequest
from nsysprof.app.view import View, open_view


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(view: View, path: str, *, method: str = "GET", host: str | None = None, token: bool = True) -> Reply:
    """Send one request, with the path exactly as it is given. host: the header; None for the right one."""
    server = view.server
    line = f"/{server.token}/{path}" if token else path
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, line, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{server.server_port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return reply


def wait_for(view: View, path: str) -> Reply:
    """Return the page that follows the one that says what is done."""
    for _ in range(400):
        reply = ask(view, path)
        if 'data-poll="state' not in reply.text:
            return reply
        time.sleep(0.05)
    raise AssertionError(reply.text)


@contextmanager
def viewing(*sources: Path) -> Iterator[View]:
    """Serve the sources, without figures."""
    with open_view(ViewRequest(tuple(sources), figures=False)) as view:
        thread = threading.Thread(target=view.serve, daemon=True)
        thread.start()
        try:
            yield view
        finally:
            view.server.shutdown()
            thread.join()
