"""The command lines of ncu, what its failures mean, and a report that is none."""

from pathlib import Path

import pytest

from nsysprof.errors import TraceError
from nsysprof.nsight.ncu import count_argv, explain_counters, read_report
from nsysprof.results.kernel_counters import Run


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access", "does not permit"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "another profiler"),
        ("==ERROR== Failed to load report file 'x'.\n==ERROR== File is too small.", "not a report of ncu"),
        (
            "==ERROR== An unexpected incompatibility with this Nsight Compute version occurred.",
            "another version of ncu",
        ),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute", "does not support the driver"),
        ("==WARNING== No kernels were profiled.", "no kernel inside"),
        ("something\n==ERROR== The sky fell down", "The sky fell down"),
        ("", "nothing"),
    ],
)
def test_what_ncu_says_is_explained(said, why):
    text, step = explain_counters(said)
    assert why in text
    assert step


def test_options_of_code_are_left_out_for_an_ncu_that_does_not_know_them(tmp_path):
    old = program(tmp_path / "old", 'echo "--import-source yes or no"')
    new = program(tmp_path / "new", 'echo "--import-source --import-sass"')
    for ncu, known in ((old, False), (new, True)):
        argv = count_argv(ncu, tmp_path / "r.ncu-rep", Run.DETAIL, ["python3"])
        assert ("--import-sass" in argv) is known
        assert "--import-source" in argv
    with_sections = count_argv(new, tmp_path / "r.ncu-rep", Run.DETAIL, ["python3"], sections=["SourceCounters"])
    assert "--import-sass" not in with_sections, "that section is about the code"


def test_clocks_are_left_alone():
    argv = count_argv(Path("/none"), Path("r"), Run.TRAFFIC, ["python3", "job"], most=7)
    assert argv[argv.index("--clock-control") + 1] == "none"
    assert argv[argv.index("--launch-count") + 1] == "7"
    assert argv[-2:] == ["python3", "job"]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ('echo "==ERROR== File is too small."; exit 1', "not a report of ncu"),
        ("true", "ncu said: nothing"),
    ],
)
def test_a_report_that_cannot_be_read(tmp_path, says, words):
    with pytest.raises(TraceError, match=words):
        read_report(program(tmp_path / "ncu", says), tmp_path / "x.ncu-rep", "mangled")


def test_an_ncu_that_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="cannot be run"):
        read_report(tmp_path / "nothing", tmp_path / "x.ncu-rep", "mangled")
