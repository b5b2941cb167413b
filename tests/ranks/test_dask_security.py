"""Who reaches a Dask scheduler runs code as its user: nobody else may, and nothing else at an address holds us up."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nsysprof.errors import SchedulerError, UsageError
from nsysprof.ranks.engine import plan_tasks, prepare_parts
from nsysprof.ranks.identity import find_sources
from tests.ranks.job import slow_in_backward, write_job

pytest.importorskip("distributed", reason="needs the extra [ranks]")
psutil = pytest.importorskip("psutil")
from nsysprof.ranks import dask_connection  # noqa: E402
from nsysprof.ranks.dask_connection import TlsFiles  # noqa: E402
from nsysprof.ranks.dask_engine import run_on_dask  # noqa: E402

# What another user of the machine would do. It prints `in` where the scheduler let it.
INTRUDER = """
import asyncio, sys
from distributed.comm import connect
from distributed.security import Security

async def attack(address, security):
    arguments = {} if security is None else security.get_connection_args("client")
    comm = await connect(address, timeout=3, **arguments)
    await comm.write({"op": "identity", "reply": True})
    print("in", await comm.read())

for address in sys.argv[1:]:
    for security in (None, Security.temporary()):
        try:
            asyncio.run(asyncio.wait_for(attack(address, security), 5))
        except BaseException as error:
            print("out", type(error).__name__)
"""


def listening() -> list[tuple[str, int]]:
    """Where this process and its children can be reached."""
    me = psutil.Process()
    sockets = [each for process in (me, *me.children(recursive=True)) for each in process.net_connections("inet")]
    return sorted({tuple(each.laddr) for each in sockets if each.status == psutil.CONN_LISTEN})


@pytest.mark.slow  # it starts a cluster, and interpreters that load Dask
def test_no_other_user_gets_into_the_cluster_of_a_run(tmp_path: Path) -> None:
    write_job(tmp_path / "job", 3, slow_in_backward, steps=2)
    tasks = plan_tasks(find_sources(sorted((tmp_path / "job").iterdir()), None), tmp_path / "out")
    prepare_parts(tmp_path / "out", tasks, fresh=False)
    before = set(listening())
    said: list[str] = []
    found: list[tuple[str, int]] = []

    def attack(_more: int, _name: str) -> None:
        if said:
            return
        found.extend(each for each in listening() if each not in before)
        targets = [f"{kind}://{host}:{port}" for host, port in found for kind in ("tcp", "tls")]
        other = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
        # Another user may not read our packages; the interpreter that root lent it has them loaded already.
        done = subprocess.run(
            [sys.executable, "-c", INTRUDER.replace("for address", _BECOME + "for address", 1), *targets],
            capture_output=True, text=True, check=False, env={**os.environ, "INTRUDER": str(other.get("user", ""))},
        )  # fmt: skip
        said.extend(done.stdout.splitlines() or [done.stderr])

    done = run_on_dask(tasks, attack, scheduler=None, workers=1)
    assert all(row.is_read for row in done.merged.rows)
    assert len(found) >= 2
    assert {host for host, _ in found} <= {"127.0.0.1"}
    assert len(said) == len(found) * 4
    assert [line for line in said if not line.startswith("out")] == []


_BECOME = 'import os\nif os.environ["INTRUDER"]: os.setgid(65534), os.setuid(65534)\n'


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
    monkeypatch.setattr(dask_connection, "_CONNECT_S", 0.5)
    begin = time.monotonic()
    with serving(answer) as address, pytest.raises(SchedulerError, match="cannot be reached"):
        run_on_dask([], lambda _more, _name: None, scheduler=address, workers=0)
    assert time.monotonic() - begin < 8


def test_an_http_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_connection, "_CONNECT_S", 0.5)
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(SchedulerError, match="cannot be reached"):
            run_on_dask([], lambda *_: None, scheduler=f"tcp://127.0.0.1:{server.server_port}", workers=0)
        server.shutdown()


def test_certificates_are_read_and_belong_to_tls(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        run_on_dask([], lambda *_: None, scheduler="tls://127.0.0.1:1", workers=0, tls=TlsFiles(tmp_path / "ca.pem"))
    with pytest.raises(UsageError, match="at tls://"):
        run_on_dask([], lambda *_: None, scheduler="tcp://127.0.0.1:1", workers=0, tls=TlsFiles(tmp_path / "ca.pem"))


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
            await asyncio.to_thread(dask_connection._greet, address, dask_connection._security(address, files))
            for other in (Security.temporary(), None):
                with pytest.raises(SchedulerError):
                    await asyncio.to_thread(dask_connection._greet, address, other)

    asyncio.run(greet())
