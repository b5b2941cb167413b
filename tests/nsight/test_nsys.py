import shutil
from pathlib import Path

import pytest

from nsysprof.nsight.nsys import explain_profile_failure, gpu_metrics_options, profile_argv, run_export


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
        (
            "Import Failed with unexpected exception: main.cpp(34)\n Type: ErrorText",
            "its own importer failed",
            "qdstrm",
        ),
        ("Connection to Agent lost. This is most likely a bug.", "its own agent", "Run again"),
        ("[tag_message*] = Local Endpoint is not available.", "its own agent", "Run again"),
        ("one\nError: the moon is full\ntwo", "the moon is full", "logs"),
        ("", "It said: nothing", "logs"),
    ],
)
def test_failures_are_recognised_with_their_fix(log, text, next_step):
    error = explain_profile_failure(1, log)
    assert text in error.text
    assert next_step in error.next_step


@pytest.mark.parametrize(
    ("says", "options", "why"),
    [
        ('echo "0: NVIDIA H200"', ("--gpu-metrics-devices=cuda-visible", "--gpu-metrics-frequency=5000"), ""),
        (
            'case "$2" in --gpu-metrics-devices=*) exit 1;; esac; echo "0: Tesla T4"',
            ("--gpu-metrics-device=all", "--gpu-metrics-frequency=5000"),
            "",
        ),
        ('echo "Insufficient privilege, see ERR_NVGPUCTRPERM"', (), "does not permit"),
        ('echo "NVIDIA GPUs not found, feature is not available"', (), "not available"),
        ('echo "unrecognised option"; exit 1', (), "no GPU metrics"),
    ],
)
def test_how_gpu_metrics_are_asked_for(tmp_path, says, options, why):
    nsys = tmp_path / "nsys"
    nsys.write_text(f"#!/bin/sh\n{says}\n")
    nsys.chmod(0o755)
    found, reason = gpu_metrics_options(nsys, 5000)
    assert found == options
    assert why in reason
    assert bool(reason) == (not options)


@pytest.mark.nsys
def test_a_real_nsys_without_a_gpu_has_no_gpu_metrics_and_says_so(nsys):
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here")
    options, why = gpu_metrics_options(nsys, 10_000)
    assert options == ()
    assert "not available" in why


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ("echo 'Error: the disk is upset'; exit 1", "the disk is upset"),
        ("echo done", "It said: done"),
        ("echo 'Unknown file version 9'; exit 1", "written by a newer nsys"),
        ("echo 'Unable to retrieve the importer version'; exit 1", "libdw"),
    ],
)
def test_an_export_without_a_file_fails_with_what_nsys_said_and_keeps_it(tmp_path, says, text):
    nsys = tmp_path / "nsys"
    nsys.write_text(f"#!/bin/sh\n{says}\n")
    nsys.chmod(0o755)
    step, failure = run_export(nsys, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite", log=tmp_path / "log")
    assert failure is not None and text in failure.text
    assert step.exit_code == (0 if says == "echo done" else 1)
    assert step.argv[1] == "export" and step.duration_ns > 0
    assert (tmp_path / "log").read_text()


def test_an_export_that_does_not_end_or_start(tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text('#!/bin/sh\n[ "$2" = --help ] || exec sleep 30\n')
    nsys.chmod(0o755)
    step, failure = run_export(nsys, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite", timeout_s=0.2)
    assert step.exit_code is None
    assert failure is not None and "does not end" in failure.text
    _, failure = run_export(tmp_path / "nothing", tmp_path / "r.nsys-rep", tmp_path / "r.sqlite")
    assert failure is not None and "cannot be run" in failure.text
