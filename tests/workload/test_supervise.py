"""What is said of a measuring process that died."""

import subprocess
import sys

import pytest

from nsysprof.workload.supervise import _exit_text


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("os.kill(os.getpid(), 9)", "the process died of SIGKILL, which is the system's answer to a lack of memory"),
        ("os.kill(os.getpid(), 15)", "the process died of SIGTERM"),
        ("sys.exit(3)", "the process ended with exit code 3; its last words are in the capture's logs"),
    ],
)
def test_how_a_process_died_is_told(ends, says):
    ended = subprocess.run([sys.executable, "-S", "-c", f"import os, sys; {ends}"], check=False)
    assert _exit_text(ended.returncode) == says
