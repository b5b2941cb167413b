from pathlib import Path

import pytest

from nsysprof.capture.user_program.program_plan import ProgramPlan, is_torch_launcher, plan_program
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import decode_json, encode_json
from nsysprof.nsight.nsys import profile_argv


def options(**numbers):
    plan = plan_program(["train"], per_rank=False, **numbers)
    argv = profile_argv(Path("nsys"), Path("out/100%"), ["train"], plan.profile_options)
    assert argv[:2] == ["nsys", "profile"]
    assert argv[-2:] == ["--output=out/100%%", "train"]  # nsys reads % as a pattern
    names = [option.partition("=")[0] for option in argv[2:-2]]
    assert len(set(names)) == len(names), "nsys refuses an option given twice"
    return dict(option.partition("=")[::2] for option in argv[2:-2])


def test_the_recording_is_as_careful_as_that_of_the_grid():
    given = options()
    assert given["--trace"] == "cuda,nvtx,osrt"
    # A program makes millions of short calls of the system, and their stacks are not read.
    assert given["--osrt-threshold"] == "100000"
    assert int(given["--osrt-backtrace-threshold"]) > 1e9
    assert given["--kill"] == "none"
    assert given["--cuda-memory-usage"] == "true"
    assert given["--cuda-graph-trace"] == "node"
    assert given["--capture-range"] == "none"
    assert "--delay" not in given


def test_ranges_times_and_options_of_ones_own():
    given = options(
        trace="cuda,nvtx,osrt", capture_range="nvtx:step@mine", delay_s=5, duration_s=60,
        nsys_options=("--sample=process-tree", "--wait=primary", "--gpuctxsw=true"),
    )  # fmt: skip
    assert given["--capture-range"] == "nvtx"
    assert given["--nvtx-capture"] == "step@mine"
    assert given["--capture-range-end"] == "stop"
    assert (given["--delay"], given["--duration"]) == ("5", "60")
    assert given["--trace"] == "cuda,nvtx,osrt"
    assert (given["--sample"], given["--wait"], given["--gpuctxsw"]) == ("process-tree", "primary", "true")


def test_calls_of_the_system_may_be_left_out_or_recorded_in_full():
    assert not {name for name in options(trace="cuda,nvtx") if name.startswith("--osrt")}
    assert options(nsys_options=("--osrt-threshold=1000",))["--osrt-threshold"] == "1000"


def test_a_program_that_ends_with_its_range_ends_the_session_too():
    assert options(capture_range="cudaProfilerApi", end_program=True)["--capture-range-end"] == "stop-shutdown"


def test_unregistered_names_can_be_capture_ranges():
    named = plan_program(["p"], per_rank=False, capture_range="nvtx:step")
    assert named.environment == {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
    assert plan_program(["p"], per_rank=False).environment == {}


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        (dict(capture_range="step"), "Unknown --capture-range"),
        (dict(capture_range="nvtx:"), "Unknown --capture-range"),
        (dict(end_program=True), "has no end"),
        (dict(trace="cuda nvtx"), "not a list of APIs"),
        (dict(trace=""), "not a list of APIs"),
        (dict(nsys_options=("sample=none",)), "is not a valid option"),
        (dict(nsys_options=("-s none",)), "is not a valid option"),
        (dict(nsys_options=("--output=/tmp/x",)), "nsysprof sets"),
    ],
)
def test_what_makes_no_sense_is_refused(numbers, word):
    with pytest.raises(UsageError, match=word) as caught:
        plan_program(["train"], per_rank=False, **numbers)
    assert caught.value.next_step


@pytest.mark.parametrize(
    "argv",
    [
        ["mpirun", "-n", "2", "python", "x"],
        ["/usr/bin/srun", "python", "x"],
        ["deepspeed", "x.py"],
        ["torchrun", "--no-python", "./x"],
        ["python", "-m", "torch.distributed.run", "--no_python", "x"],
    ],
)
def test_workers_that_cannot_be_reached_are_refused_before_hours_are_lost(argv):
    with pytest.raises(UsageError) as caught:
        plan_program(argv, per_rank=True)
    assert "nsysprof capture --out FOLDER -- PROGRAM" in caught.value.next_step
    plan_program(argv, per_rank=False)


def test_launchers_of_torch():
    assert is_torch_launcher(["/venv/bin/torchrun", "x"])
    assert is_torch_launcher(["env", "A=1", "python3", "-m", "torch.distributed.run", "x"])
    assert is_torch_launcher(["accelerate", "launch", "x"])
    assert not is_torch_launcher(["python", "x", "torchrun"])


def test_a_plan_goes_to_the_workers_and_comes_back():
    plan = ProgramPlan(("a", "b"), True, delay_s=3, ranks=(0, 2), nsys_options=("--x=1",))
    assert decode_json(encode_json(plan), ProgramPlan) == plan
    assert [rank for rank in range(4) if plan.is_recorded(rank)] == [0, 2]
    assert ProgramPlan(("a",)).is_recorded(7)


def test_stacks_are_taken_natively_in_slow_calls_unless_the_user_says_otherwise():
    given = options(stacks=True)
    assert given["--sample"] == "process-tree"  # nsys takes no native stacks without
    assert given["--cudabacktrace"] == "all:80000"
    assert options(stacks=True, nsys_options=("--cudabacktrace=none",))["--cudabacktrace"] == "none"
    assert "--cudabacktrace" not in options()
