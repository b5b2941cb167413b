"""The fixture `nsysprof_trace` of pytest. Torch, pandas and the reader load when a test first uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nsysprof.api.traced_block import TracedBlock


@pytest.fixture
def nsysprof_trace(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[TracedBlock]]:
    """`with nsysprof_trace() as block:` profiles the code inside; block.assert_launches(at_most=3) and the like.

    nsysprof_trace(name, device="auto"): name of the range, by default the test's; device "cuda" skips the test where
    there is no GPU. An assertion on what cannot be known here skips the test and says why.
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
    """An assertion on an unknown number ends the test as skipped, and never as passed."""
    try:
        yield
    except Exception as error:
        # By name, so that a run without the fixture loads nothing.
        if type(error).__name__ == "UnknownNumberError" and type(error).__module__ == "nsysprof.api.traced_block":
            pytest.skip(f"nsysprof_trace: {error}")
        raise
