"""Read traces on a Dask cluster that the user already has."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.errors import MissingToolError, SchedulerError, UsageError
from nsysprof.ranks.summarize import code_version

if TYPE_CHECKING:
    from distributed import Client

# A run may be without any worker for this long (s).
_CONNECT_S, _ALONE_S = 10.0, 60.0
# Dask leaves a half-open client behind where its own check of an address fails, so addresses are checked before.
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[\w.%\[\]:-]+:\d{1,5}")


class DaskWorkers:
    """The workers of a Dask cluster. Dask replaces those that die, where they were started with a nanny."""

    def __init__(self, client: Client, scheduler: str) -> None:
        from distributed.scheduler import KilledWorker

        self.name = f"Dask at {scheduler}"
        self.client = client
        self.widths: Sequence[int] = [max(1, sum(client.nthreads().values()))]
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker, MemoryError)
        self._last_seen = time.monotonic()

    @contextlib.contextmanager
    def open(self, _width: int) -> Iterator[Executor]:
        """Return what runs functions on the cluster, and cancels them where an error ends the `with` block."""
        executor = self.client.get_executor(pure=False, retries=1)
        self._last_seen = time.monotonic()
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)

    def check(self) -> None:
        """Raise SchedulerError where there has been no worker for a while, so that nobody waits forever."""
        if self.client.ncores():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > _ALONE_S:
            raise SchedulerError(
                "All workers of the Dask scheduler are gone.",
                "Start workers and run the same command again: it continues with what is done.",
            )


@contextlib.contextmanager
def dask_workers(scheduler: str, tls: TlsFiles | None = None) -> Iterator[DaskWorkers]:
    """Connect to the scheduler, and return its workers.

    Raises SchedulerError where the scheduler cannot be reached or a worker runs other code.
    """
    _check_request(scheduler, tls)
    with contextlib.ExitStack() as stack:
        client = _connect(stack, scheduler, tls)
        stack.enter_context(client.as_current())
        _check_workers(client)
        yield DaskWorkers(client, scheduler)


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a scheduler at tls://, as for `dask worker`. None: Dask's configuration decides."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def _check_request(scheduler: str, tls: TlsFiles | None) -> None:
    """Raise an error where Dask is missing, or where the address or the certificates cannot be right."""
    if find_spec("distributed") is None:
        raise MissingToolError("Dask is not installed.", "pip install 'nsysprof[ranks]'")
    if not _ADDRESS.fullmatch(scheduler):
        raise _unreachable(scheduler, f"{scheduler!r} is not an address")
    if tls is not None and not scheduler.startswith("tls://"):
        raise UsageError("Certificates are for a scheduler at tls://.", "Give --scheduler tls://HOST:8786.")


def _connect(stack: contextlib.ExitStack, scheduler: str, tls: TlsFiles | None) -> Client:
    """Return a client, which `stack` closes."""
    import dask
    from distributed import Client

    # Lost workers become our notes; Dask's tracebacks about them do not help the user.
    for name in ("distributed", "distributed.core", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": f"{_CONNECT_S}s"}))
    try:
        security = _security(scheduler, tls)
        _greet(scheduler, security)
        return stack.enter_context(Client(scheduler, timeout=_CONNECT_S, set_as_default=False, security=security))
    except (OSError, TimeoutError, ValueError, ImportError, AttributeError) as error:
        raise _unreachable(scheduler, str(error)) from error


def _security(scheduler: str, tls: TlsFiles | None) -> Any:
    """Return Dask's TLS settings for this scheduler, or None where its address is not tls://."""
    from distributed.security import Security

    if not scheduler.startswith("tls://"):
        return None
    given = tls or TlsFiles()
    names = {"tls_ca_file": given.ca_file, "tls_client_cert": given.cert, "tls_client_key": given.key}
    for path in names.values():
        if path is not None and not path.is_file():
            raise UsageError(f"{path} is not a file.", "Give the PEM files that the scheduler was started with.")
    return Security(require_encryption=True, **{name: str(path) for name, path in names.items() if path is not None})


def _greet(scheduler: str, security: Any) -> None:
    """Check that a Dask scheduler answers at the address. Raises SchedulerError where none does.

    Dask's own client waits forever for some services that are not a scheduler.
    """
    import asyncio

    async def ask() -> Any:
        from distributed.comm import connect as connect_to

        arguments = {} if security is None else security.get_connection_args("client")
        comm = await connect_to(scheduler, timeout=_CONNECT_S / 2, **arguments)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
        finally:
            comm.abort()

    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(asyncio.run(asyncio.wait_for(ask(), _CONNECT_S)))
        except BaseException as error:  # noqa: BLE001 (an unknown service can make Dask's reader raise anything)
            answers.append(error)

    # This runs in a thread: the caller may run an event loop, and a reader that cannot be cancelled must not block us.
    thread = threading.Thread(target=run, daemon=True, name="greet the scheduler")
    thread.start()
    thread.join(_CONNECT_S + 2)
    answer = answers[0] if answers else None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        why = f"{type(answer).__name__}: {answer}" if isinstance(answer, OSError) and str(answer) else ""
        raise _unreachable(scheduler, why or f"no Dask scheduler answers there within {_CONNECT_S:.0f} s")


def _unreachable(scheduler: str, why: str) -> SchedulerError:
    return SchedulerError(
        f"The Dask scheduler {scheduler} cannot be reached: {why}.",
        "Give the address that `dask scheduler` printed, such as tcp://HOST:8786.",
    )


def _check_workers(client: Client) -> None:
    """Check that the scheduler has workers and that all of them run our code. Workers that join later check themselves.

    Raises SchedulerError otherwise.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        raise SchedulerError(
            "The Dask scheduler has no workers.", "Start some: dask worker tcp://HOST:8786 --nthreads 1"
        ) from error
    versions = client.run(code_version, on_error="return")
    wrong = {address: version for address, version in versions.items() if version != code_version()}
    if wrong:
        address, version = next(iter(wrong.items()))
        what = f"has nsysprof {version}" if isinstance(version, str) else f"cannot load nsysprof ({version})"
        raise SchedulerError(
            f"{len(wrong)} of {len(versions)} workers run a different version:  {address} {what}; here it is "
            f"{code_version()}.",
            "Install the same nsysprof on all workers and restart them.",
        )
