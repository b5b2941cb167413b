"""Serve pages only to the browser of this user: on loopback, with a token in every address, by GET.

Other users of the machine, and pages of other sites, can reach the port too. They do not know the token, which is 256
random bits and is compared in constant time. A site whose own name points to 127.0.0.1 (DNS rebinding) sends that name
as the Host, and is refused before the token is checked.
"""

from __future__ import annotations

import hmac
import secrets
import shutil
import socketserver
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nsysprof.errors import UsageError

HOST = "127.0.0.1"
# The port may differ, because ssh -L may use another one on the user's side.
_OWN_NAMES = (HOST, "localhost")
_IDLE_S = 30
_ON_EVERY_ANSWER = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Answer:
    """An answer to the browser.

    body: the bytes, or the file that contains them.
    """

    body: bytes | Path
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: dict[str, str] = field(default_factory=dict)


# A function that answers an address, given the path after the token (without its first slash) and the query.
Respond = Callable[[str, dict[str, str]], Answer]


class LoopbackServer(ThreadingHTTPServer):
    """A server on 127.0.0.1 that answers GET with the right token.

    Raises UsageError for a port that is in use.
    """

    daemon_threads = True

    def __init__(self, port: int, respond: Respond) -> None:
        self.token = secrets.token_urlsafe(32)
        self.respond = respond
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"Port {port} of {HOST} cannot be used: {error.strerror}.", "Give another --port, or leave it out."
            ) from error

    def server_bind(self) -> None:
        """Bind without asking a name server for the name of this machine."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closed the connection in the middle of an answer."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Return the address of the first page, including the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "nsysprof", ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        """Answer the request, or refuse it."""
        self._send(self._refusal() or self._answer())

    def _refuse_method(self) -> None:
        self.close_connection = True  # anything that follows, such as a body, is not read
        text = b"Only GET is answered.\n"
        refused = Answer(text, status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET"})
        self._send(self._refusal() or refused)

    def __getattr__(self, name: str) -> Any:
        """Refuse every other method, known or not, once host and token are right."""
        if name.startswith("do_"):
            return self._refuse_method
        raise AttributeError(name)

    def _refusal(self) -> Answer | None:
        hosts = self.headers.get_all("Host") or []
        name = hosts[0].strip().lower().rpartition(":") if len(hosts) == 1 else ("", "", "")
        host = name[0] if name[1] and name[2].isdecimal() else "".join(name)
        if host not in _OWN_NAMES:
            return Answer(b"This server answers on 127.0.0.1 alone.\n", status=HTTPStatus.MISDIRECTED_REQUEST)
        given = self.path.removeprefix("/").partition("?")[0].partition("/")[0]
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.server.token.encode()):
            text = b"The address lacks this session's token. Use the one that nsysprof view printed.\n"
            return Answer(text, status=HTTPStatus.FORBIDDEN)
        return None

    def _answer(self) -> Answer:
        try:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, max_num_fields=10))
        except ValueError:
            return Answer(b"This address is not valid.\n", status=HTTPStatus.BAD_REQUEST)
        path = parts.path.removeprefix(f"/{self.server.token}")
        if not path.startswith("/"):
            return redirect(f"/{self.server.token}/")
        return self.server.respond(path[1:], query)

    def _send(self, answer: Answer) -> None:
        body = answer.body
        size = len(body) if isinstance(body, bytes) else body.stat().st_size
        self.send_response(answer.status)
        headers = {**_ON_EVERY_ANSWER, "Content-Type": answer.content_type, "Content-Length": str(size)}
        for name, value in (headers | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(body, bytes):
            self.wfile.write(body)
            return
        with body.open("rb") as stream:
            shutil.copyfileobj(stream, self.wfile)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: an address holds the token."""


def redirect(to: str) -> Answer:
    """Return an answer that sends the browser to another address of this server."""
    return Answer(b"", status=HTTPStatus.SEE_OTHER, headers={"Location": to})
