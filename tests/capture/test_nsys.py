from pathlib import Path

import pytest

from nsysprof.capture.nsys import explain_failure, profile_argv


def test_options_whose_defaults_differ_between_versions_are_given():
    argv = profile_argv(Path("/x/nsys"), Path("out"), ["python", "job"])
    assert argv[:2] == ["/x/nsys", "profile"]
    assert argv[-2:] == ["python", "job"]
    for option in ("--trace=cuda,nvtx", "--cuda-memory-usage=true", "--cuda-graph-trace=node", "--kill=none"):
        assert option in argv


@pytest.mark.parametrize(
    ("log", "text", "next_step"),
    [
        (
            "Importer error status: Unable to retrieve the importer version.",
            "libdw",
            "apt-get install libdw1",
        ),
        ("write: No space left on device", "disk space", "Free some space"),
        ("unrecognised option '--cuda-flush-interval'", "does not know", "2022.4 or newer"),
        ("Failed to open: Permission denied", "not permitted", "writable"),
        ("one\nError: the moon is full\ntwo", "the moon is full", "logs"),
        ("", "It said: nothing", "logs"),
    ],
)
def test_failures_are_recognised_with_their_fix(log, text, next_step):
    error = explain_failure("profile", 1, log)
    assert text in error.text
    assert next_step in error.next_step
