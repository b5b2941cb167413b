"""A scheduler is reached with the right certificates alone, and nothing else at an address holds us up."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nsysprof.errors import SchedulerError, UsageError

pytest.importorskip("distributed", reason="needs the extra [ranks]")
from nsysprof.ranks import dask_cluster
from nsysprof.ranks.dask_cluster import TlsFiles, dask_workers


def connect(scheduler: str, tls: TlsFiles | None = None) -> None:
    with dask_workers(scheduler, tls):
        pass


@contextmanager
def serving(answer: bytes | None) -> Iterator[str]:
    """Run a service that is not a scheduler: it says `answer` to whatever it hears, or nothing at all for None."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            if answer is not None:
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    server.close()
    for connection in held:
        connection.close()


class Page(BaseHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"\0" * 64, b"", None])
def test_a_foreign_service_is_told_within_seconds(answer: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    begin = time.monotonic()
    with serving(answer) as address, pytest.raises(SchedulerError, match="cannot be reached"):
        connect(address)
    assert time.monotonic() - begin < 8


def test_an_http_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(SchedulerError, match="cannot be reached"):
            connect(f"tcp://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_certificates_are_read_and_belong_to_tls(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        connect("tls://127.0.0.1:1", TlsFiles(tmp_path / "ca.pem"))
    with pytest.raises(UsageError, match="at tls://"):
        connect("tcp://127.0.0.1:1", TlsFiles(tmp_path / "ca.pem"))


def test_a_scheduler_at_tls_is_greeted_with_the_certificates_given_and_not_without(tmp_path: Path) -> None:
    from distributed import Scheduler
    from distributed.security import Security

    keys = Security.temporary()
    for name, text in (("ca", keys.tls_ca_file), ("cert", keys.tls_client_cert), ("key", keys.tls_client_key)):
        (tmp_path / name).write_text(text)
    files = TlsFiles(tmp_path / "ca", tmp_path / "cert", tmp_path / "key")

    async def greet() -> None:
        async with Scheduler(protocol="tls://", host="127.0.0.1", port=0, dashboard=False, security=keys) as scheduler:
            address = scheduler.address
            await asyncio.to_thread(dask_cluster._greet, address, dask_cluster._security(address, files))
            for other in (Security.temporary(), None):
                with pytest.raises(SchedulerError):
                    await asyncio.to_thread(dask_cluster._greet, address, other)

    asyncio.run(greet())
