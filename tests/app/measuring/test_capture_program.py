"""What is said of a capture that was interrupted."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nsysprof.app.measuring.capture_program import _failure


@pytest.mark.parametrize(
    ("traces", "advice"),
    [((Path("c/nsys.sqlite"),), "nsysprof analyze c reads what is there."), ((), "c/logs shows what the program did.")],
)
def test_analyze_is_advised_only_where_it_finds_a_trace(traces: tuple[Path, ...], advice: str) -> None:
    ended = SimpleNamespace(refused="", interrupted=signal.SIGINT)
    captured: Any = SimpleNamespace(ended=ended, traces=traces, failure=None, losses=())
    failure = _failure(captured, Path("c"))
    assert failure is not None
    assert (failure.exit_code, failure.next_step) == (130, advice)
