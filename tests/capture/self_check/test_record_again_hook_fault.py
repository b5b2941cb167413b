"""A program that crashes with the hook for attention is recorded again without it; its own failures are its own."""

import os
import sys
from pathlib import Path

import pytest

from nsysprof.capture.self_check.record_again import why_suspected
from nsysprof.capture.user_program.streamed import Ended
from tests.builders.run_command import run

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/attention_calls/call_key.py", line 3, in run\nValueError\n'


def ended(code: int | None, *, interrupted: int | None = None) -> Ended:
    return Ended(code, 0, 10, (), interrupted=interrupted)


@pytest.mark.parametrize(
    ("end", "stderr", "why"),
    [
        (ended(0), TRACEBACK, ""),
        (ended(1), "Traceback (most recent call last):\nKeyError\n", ""),
        (ended(1), TRACEBACK, "its traceback passes through the hook"),
        (ended(1), TRACEBACK + "handled\nTraceback (most recent call last):\nKeyError\n", ""),
        (ended(139), "", "a crash by SIGSEGV"),
        (ended(130), "", ""),
        (ended(139, interrupted=2), "", ""),
        (ended(None), "", ""),
    ],
)
def test_what_points_to_the_hook(end: Ended, stderr: str, why: str) -> None:
    assert why_suspected(end, stderr) == why


CRASH = """\
import os, sys, torch
q = torch.randn(1, 1, 4, 8)
attention = torch.nn.functional.scaled_dot_product_attention
attention(q, q, q)
if "NSYSPROF_ATTENTION_FOLDER" in os.environ or sys.argv[1] == "always":
    os.abort()
print("ran to the end")
"""


@pytest.mark.nsys
@pytest.mark.torch
@pytest.mark.parametrize(
    ("how", "options", "status", "said"),
    [
        ("hooked", [], 0, "and with 0 without it"),
        ("always", ["--no-retry"], 134, "was not run again"),
    ],
)
def test_a_crash_with_the_hook_ends_in_a_recording_without_it(
    nsys: Path, tmp_path: Path, how: str, options: list[str], status: int, said: str
) -> None:
    (tmp_path / "crash.py").write_text(CRASH)
    environment = {**os.environ, "NSYSPROF_NSYS": str(nsys)}
    program = [sys.executable, tmp_path / "crash.py", how]
    done = run(
        "capture", "--attention", *options, "--out", tmp_path / "c", "--", *program, cwd=tmp_path, env=environment
    )
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert ("ran to the end" in done.stdout) == (status == 0)
