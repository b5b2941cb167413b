"""Connect to a Dask scheduler that the user already has."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.errors import MissingToolError, SchedulerError, UsageError
from nsysprof.ranks.partial_files import code_version

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_S = 10.0
# Dask leaves a half-open client behind where its own check of an address fails, so addresses are checked before.
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[\w.%\[\]:-]+:\d{1,5}")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a scheduler at tls://, as for `dask worker`. None: Dask's configuration decides."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def check_request(scheduler: str, tls: TlsFiles | None) -> None:
    """Raise an error where Dask is missing, or where the address or the certificates cannot be right."""
    if find_spec("distributed") is None:
        raise MissingToolError("Dask is not installed.", "pip install 'nsysprof[ranks]'")
    if not _ADDRESS.fullmatch(scheduler):
        raise _unreachable(scheduler, f"{scheduler!r} is not an address")
    if tls is not None and not scheduler.startswith("tls://"):
        raise UsageError("Certificates are for a scheduler at tls://.", "Give --scheduler tls://HOST:8786.")


def connect(stack: contextlib.ExitStack, scheduler: str, tls: TlsFiles | None) -> Client:
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

    found: list[Any] = []

    def run() -> None:
        try:
            found.append(asyncio.run(asyncio.wait_for(ask(), _CONNECT_S)))
        except BaseException as error:  # noqa: BLE001 (an unknown service can make Dask's reader raise anything)
            found.append(error)

    # This runs in a thread: the caller may run an event loop, and a reader that cannot be cancelled must not block us.
    thread = threading.Thread(target=run, daemon=True, name="greet the scheduler")
    thread.start()
    thread.join(_CONNECT_S + 2)
    answer = found[0] if found else None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        why = f"{type(answer).__name__}: {answer}" if isinstance(answer, OSError) and str(answer) else ""
        raise _unreachable(scheduler, why or f"no Dask scheduler answers there within {_CONNECT_S:.0f} s")


def _unreachable(scheduler: str, why: str) -> SchedulerError:
    return SchedulerError(
        f"The Dask scheduler {scheduler} cannot be reached: {why}.",
        "Give the address that `dask scheduler` printed, such as tcp://HOST:8786.",
    )


def check_workers(client: Client) -> None:
    """Check that the scheduler has workers and that all of them run our code. Workers that join later check themselves.

    Raises SchedulerError otherwise.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        raise SchedulerError(
            "The Dask scheduler has no workers.", "Start some: dask worker tcp://HOST:8786 --nthreads 1"
        ) from error
    found = client.run(_version, on_error="return")
    wrong = {address: each for address, each in found.items() if each != code_version()}
    if wrong:
        address, each = next(iter(wrong.items()))
        what = f"has nsysprof {each}" if isinstance(each, str) else f"cannot load nsysprof ({each})"
        raise SchedulerError(
            f"{len(wrong)} of {len(found)} workers run a different version:  {address} {what}; here it is "
            f"{code_version()}.",
            "Install the same nsysprof on all workers and restart them.",
        )


def _version() -> str:
    from nsysprof.ranks.partial_files import code_version as version

    return version()
