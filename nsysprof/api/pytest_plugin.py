"""Provide the pytest fixture `nsysprof_trace`. Torch, pandas and the reader load when a test first uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nsysprof.api.traced_block import TracedBlock


@pytest.fixture
def nsysprof_trace(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[TracedBlock]]:
    """Return a function that profiles a block: `with nsysprof_trace() as block:`, then assertions on `block`.

    An assertion on a number that cannot be known here skips the test and says why.

    Its arguments are the name of the range (by default the test's) and `device`. "cuda" skips the test without a GPU.
    """
    node: str = request.node.nodeid
    used: list[str] = []

    def trace(name: str = "", *, device: str = "auto") -> AbstractContextManager[TracedBlock]:
        label = name or (node if not used else f"{node}#{len(used) + 1}")
        used.append(label)
        return _trace(f"pytest::{label}", device)

    return trace


@contextmanager
def _trace(name: str, device: str) -> Iterator[TracedBlock]:
    from nsysprof.api.traced_block import UnknownNumberError, trace_block

    try:
        with trace_block(name, device) as block:
            yield block
    except UnknownNumberError as error:
        pytest.skip(f"nsysprof_trace: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """End a test as skipped, and never as passed, when it asserts an unknown number."""
    try:
        yield
    except Exception as error:
        # Compared by name, so that a run without the fixture loads nothing.
        if type(error).__name__ == "UnknownNumberError" and type(error).__module__ == "nsysprof.api.traced_block":
            pytest.skip(f"nsysprof_trace: {error}")
        raise
