"""A recording that lost data is made again with less: with a stand-in nsys that loses what it is told to."""

import json
import os
import sys

import pytest

from tests.builders.build_trace import TraceBuilder
from tests.builders.run_command import fails, run
from tests.builders.stand_in_nsys import recorded_options, write_stand_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")
PROGRAM = [sys.executable, "-c", "print('ran')"]

# A program with a thread of the name that the CUDA driver gives its own, as if it had a context.
WITH_CONTEXT = """
import ctypes, os, sys, threading, time
def wait():
    ctypes.CDLL(None).prctl(15, b"cuda00001800007", 0, 0, 0)
    time.sleep(60)
threading.Thread(target=wait, daemon=True).start()
time.sleep(1.2)
"""
REPLACES_ITSELF = f"{WITH_CONTEXT}os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(1)'])"


@pytest.fixture
def traces(tmp_path):
    """Return a sound trace of five launches, and one that lost all kernels."""
    good, bad = TraceBuilder(), TraceBuilder()
    for number in range(1, 6):
        good.launch(1000 * number, number)
        bad.call(1000 * number, 1000 * number + 10, number)
    return good.write(tmp_path / "good.sqlite"), bad.write(tmp_path / "bad.sqlite")


@pytest.fixture
def capture(tmp_path):
    def call(choices, *options, program=PROGRAM, help_text="", **more):
        nsys = write_stand_in(tmp_path / "tool", choices, help_text=help_text)
        environment = {**os.environ, "NSYSPROF_NSYS": str(nsys)}
        done = run("capture", "--out", tmp_path / "c", *options, "--", *program, cwd=tmp_path, env=environment, **more)
        return done, tmp_path / "c", recorded_options(tmp_path / "tool")

    return call


def codes(folder):
    return [note["code"] for note in json.loads((folder / "manifest.json").read_text())["notes"]]


def test_a_sound_recording_is_made_once(capture, traces):
    done, folder, recordings = capture([("", traces[0])])
    assert done.returncode == 0, done.stderr
    assert len(recordings) == 1
    assert codes(folder) == []


def test_the_option_that_loses_kernels_is_left_out(capture, traces):
    good, bad = traces
    done, folder, recordings = capture([("--cuda-memory-usage=true", bad), ("", good)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran\nran\n"
    assert ["--cuda-memory-usage=true" in each for each in recordings] == [True, False]
    assert (folder / "nsys.sqlite").read_bytes() == good.read_bytes()
    assert codes(folder) == ["recorded-again"]
    assert "Recording again with --nsys-option=--cuda-memory-usage=false." in done.stderr
    assert not (folder / ".work").exists()


def test_the_ranges_of_a_first_recording_that_lost_the_kernels_are_kept(capture, traces, tmp_path):
    said = "Error when processing events: Source ID=\nCannot find string for an exterior index"
    builder = TraceBuilder("2025.3")
    builder.range(1, 5, "xla")
    builder.call(1, 2, 1)
    builder.put("DIAGNOSTIC_EVENT", timestamp=1, timestampType=1, source=1, severity=2, text=said, globalPid=1)
    lossy = builder.write(tmp_path / "lossy.sqlite")
    done, folder, recordings = capture([("--trace=cuda,nvtx", lossy), ("", traces[0])])
    assert done.returncode == 0, done.stderr
    assert "--trace=cuda,osrt " in recordings[-1] + " "
    assert (folder / "nsys.sqlite").read_bytes() == traces[0].read_bytes()
    assert (folder / "first_recording.sqlite").read_bytes() == lossy.read_bytes()
    (note,) = json.loads((folder / "manifest.json").read_text())["notes"]
    assert "the NVTX ranges, which first_recording.sqlite has" in note["text"]
    assert "Give --trace=cuda,osrt to record" in note["next_step"], "an option that capture takes"


def test_a_program_that_replaces_itself_after_cuda_ends_with_12(capture, traces):
    done, folder, recordings = capture([("", traces[0])], program=[sys.executable, "-c", REPLACES_ITSELF])
    fails(done, 12, "replaced itself by another program (exec)")
    assert len(recordings) == 1, "no option of nsys helps"
    assert codes(folder) == ["process-lost"]


@pytest.mark.slow
def test_a_rank_that_starts_nsysprof_by_itself_is_watched_too(capture, traces, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    done, folder, recordings = capture([("", traces[0])], program=[sys.executable, "-c", WITH_CONTEXT])
    fails(done, 12, "used CUDA while the program ran")
    assert len(recordings) == 1, "a rank cannot run again alone"
    assert "process-lost" in codes(folder)


def test_a_new_capture_leaves_nothing_of_the_older_one(capture, traces):
    _, folder, _ = capture([("", traces[0])])
    for name in ("first_recording.sqlite", "ranges_alone.sqlite", "power.csv", "recording_cost.json"):
        (folder / name).touch()
    (folder / "processes").mkdir()
    (folder / "mine.txt").touch()
    done, _, _ = capture([("", traces[0])], "--force")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir() if not path.is_dir()) == [
        "folder.json", "manifest.json", "mine.txt", "nsys.nsys-rep", "nsys.sqlite",
    ]  # fmt: skip
    assert not (folder / "processes").exists()


def test_a_program_of_jax_keeps_its_own_ranges_beside_its_kernels(capture, traces, tmp_path):
    said = "Error when processing events: Source ID=\nCannot find string for an exterior index"
    builder = TraceBuilder("2025.3")
    builder.range(0, None, "TSL", kind=75, domain=1)
    builder.range(1, 5, "XlaModule:#hlo_module=jit_step#", domain=1)
    builder.call(1, 2, 1)
    builder.put("DIAGNOSTIC_EVENT", timestamp=1, timestampType=1, source=1, severity=2, text=said, globalPid=1)
    lossy = builder.write(tmp_path / "lossy.sqlite")
    done, folder, recordings = capture([("nvtx-domain-exclude=TSL", traces[0]), ("", lossy)])
    assert done.returncode == 0, done.stderr
    assert ["--trace=cuda,nvtx" in each for each in recordings] == [True, True]
    assert (folder / "first_recording.sqlite").read_bytes() == lossy.read_bytes()
    (note,) = json.loads((folder / "manifest.json").read_text())["notes"]
    assert "the NVTX ranges of XLA (domain TSL), which first_recording.sqlite has" in note["text"]
    assert "Give --nsys-option=--nvtx-domain-exclude=TSL to record" in note["next_step"]


def test_what_is_lost_each_time_ends_with_12_and_the_best_is_kept(capture, traces):
    done, folder, recordings = capture([("", traces[1])])
    fails(done, 12, "launches and not one kernel")
    assert len(recordings) == 3
    assert codes(folder)[-1] == "still-lost"
    assert (folder / "nsys.sqlite").read_bytes() == traces[1].read_bytes()
    assert json.loads((folder / "manifest.json").read_text())["complete"]


def test_a_trace_by_software_is_tried_where_nsys_has_it(capture, traces):
    good, bad = traces
    options = ["--nsys-option=--cuda-memory-usage=false", "--nsys-option=--cuda-flush-interval=0"]
    done, _folder, recordings = capture([("cuda-sw", good), ("", bad)], *options, help_text="cuda, cuda-sw, nvtx")
    assert done.returncode == 0, done.stderr
    assert "--trace=cuda-sw,nvtx" in recordings[-1]


def test_no_retry_names_the_option_and_the_command(capture, traces):
    done, folder, recordings = capture([("memory-usage=true", traces[1]), ("", traces[0])], "--no-retry")
    fails(done, 12, "is suspected to lose data", "--nsys-option=--cuda-memory-usage=false")
    assert len(recordings) == 1
    assert codes(folder) == ["no-kernels", "suspect-option"]


def test_the_command_that_is_named_asks_for_the_same(capture, traces):
    asked = ["--attention", "--delay=1", "--max-recording=7", "--no-keep-report", "--nsys-option=--sample=none"]
    done, _, _ = capture([("memory-usage=true", traces[1]), ("", traces[0])], "--no-retry", *asked)
    for option in asked:
        assert option in done.stderr, option


OVERFLOW = "GPU Metrics [0]: Sampling buffer overflow"


@pytest.fixture
def overflowed(traces, tmp_path):
    """Return a trace whose kernels are all there, and whose counters are not, of which nsys only warns."""
    builder = TraceBuilder("2025.3")
    for number in range(1, 6):
        builder.launch(1000 * number, number)
    builder.put("DIAGNOSTIC_EVENT", timestamp=1, timestampType=1, source=1, severity=2, text=OVERFLOW, globalPid=0)
    return builder.write(tmp_path / "overflowed.sqlite")


def test_counters_that_overflow_are_sampled_more_rarely(capture, traces, overflowed):
    choices = [("frequency=100000", overflowed), ("", traces[0])]
    done, folder, recordings = capture(choices, "--gpu-metrics", "--gpu-metrics-frequency", "100000")
    assert done.returncode == 0, done.stderr
    assert ["--gpu-metrics-frequency=25000" in each for each in recordings] == [False, True]
    assert all("--trace=cuda,nvtx" in each and "--cuda-memory-usage=true" in each for each in recordings)
    assert codes(folder) == ["recorded-again"]
    assert "counters at 100,000 Hz (they are sampled at 25,000 Hz)" in done.stderr


def test_counters_that_overflow_are_never_passed_over(capture, overflowed):
    choices = [("", overflowed)]
    done, folder, recordings = capture(choices, "--gpu-metrics")
    fails(done, 12, OVERFLOW)
    assert len(recordings) == 3
    assert codes(folder) == ["sampling-overflow", "still-lost"]


def test_the_rate_that_may_not_overflow_is_named(capture, overflowed):
    done, _, _ = capture([("", overflowed)], "--gpu-metrics", "--no-retry")
    fails(done, 12, "--gpu-metrics --gpu-metrics-frequency=2500 --")
    assert "--gpu-metrics-frequency=10000 is suspected" in done.stderr


def test_ranges_that_cannot_be_imported_are_given_up_for_the_kernels(capture, traces, tmp_path):
    broken = TraceBuilder()
    for number in range(1, 6):
        broken.call(1000 * number, 1000 * number + 10, number)
    said = "Error when processing events: Source ID=\nCannot find string for an exterior index"
    broken.row("DIAGNOSTIC_EVENT", "severity INTEGER, text TEXT", (2, said))
    bad = broken.write(tmp_path / "broken.sqlite")
    done, folder, recordings = capture([("--trace=cuda,nvtx", bad), ("", traces[0])])
    assert done.returncode == 0, done.stderr
    assert "--trace=cuda,osrt " in recordings[-1]
    assert "lacks the NVTX ranges" in done.stderr
    assert codes(folder) == ["recorded-again"]


@pytest.mark.parametrize("code", [3])
def test_a_failed_program_is_not_run_again(capture, traces, code):
    done, _folder, recordings = capture([("", traces[1])], program=[sys.executable, "-c", f"raise SystemExit({code})"])
    assert done.returncode == code
    assert len(recordings) == 1


def test_a_second_run_that_fails_leaves_the_first_recording(capture, traces, tmp_path):
    once = f"import os; os.mkdir({str(tmp_path / 'ran')!r})"
    done, folder, recordings = capture(
        [("memory-usage=true", traces[1]), ("", None)], program=[sys.executable, "-c", once]
    )
    assert done.returncode == 12, done.stderr
    assert len(recordings) == 2
    assert (folder / "nsys.sqlite").read_bytes() == traces[1].read_bytes()
    assert json.loads((folder / "manifest.json").read_text())["program"]["exit_code"] == 0


def test_dropped_graph_nodes_are_recorded_as_whole_graphs(capture, tmp_path):
    short, whole = TraceBuilder(), TraceBuilder()
    for replay in range(1, 5):
        for builder in (short, whole):
            builder.call(1000 * replay, 1000 * replay + 10, replay, "cudaGraphLaunch_v10000")
        whole.graph(1000 * replay + 100, 1000 * replay + 400, replay)
        for node in range(3):
            if (replay, node) != (2, 1):
                at = 1000 * replay + 100 * (node + 1)
                short.kernel(at, at + 50, replay, node=(2 << 32) + node)
    bad, good = short.write(tmp_path / "short.sqlite"), whole.write(tmp_path / "whole.sqlite")
    done, folder, recordings = capture([("graph-trace=node", bad), ("", good)])
    assert done.returncode == 0, done.stderr
    assert "1 of 4 replays of CUDA graphs lack 1 nodes" in done.stderr
    assert "--cuda-graph-trace=graph" in recordings[-1]
    assert codes(folder)[-1] == "recorded-again"


# Starts two workers as torch's launcher does: by the Python that PYTHON_EXEC names.
LAUNCHER = """\
import os, subprocess, sys
python = os.environ.get("PYTHON_EXEC", sys.executable)
ranks = [{"RANK": str(each), "LOCAL_RANK": str(each), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"} for each in (0, 1)]
started = [subprocess.Popen([python, "-c", "print('worked')"], env={**os.environ, **rank}) for rank in ranks]
sys.exit(max(each.wait() for each in started))
"""


@pytest.mark.parametrize("options", [(), ("--no-retry",)])
def test_workers_of_a_launcher_whose_traces_lost_data_are_recorded_again(capture, traces, options):
    good, bad = traces
    choices = [("--cuda-memory-usage=true", bad), ("", good)]
    done, folder, recordings = capture(choices, "--per-rank", *options, program=[sys.executable, "-c", LAUNCHER])
    ranks = [folder / "ranks" / f"rank{number:05d}.sqlite" for number in (0, 1)]
    if options:
        fails(done, 12, "Rank 0")
        assert len(recordings) == 2
        assert "suspect-option" in codes(folder)
        assert [each.read_bytes() == bad.read_bytes() for each in ranks] == [True, True]
        return
    assert done.returncode == 0, done.stderr
    assert ["--cuda-memory-usage=true" in each for each in recordings] == [True, True, False, False]
    assert [each.read_bytes() == good.read_bytes() for each in ranks] == [True, True]
    said = json.loads((folder / "manifest.json").read_text())
    assert codes(folder) == ["recorded-again"]
    assert (said["complete"], [each["exit_code"] for each in said["ranks"]]) == (True, [0, 0])
    assert not (folder / ".work").exists()


@pytest.mark.slow
def test_what_every_recording_of_the_workers_lost_keeps_the_first(capture, traces):
    done, folder, recordings = capture([("", traces[1])], "--per-rank", program=[sys.executable, "-c", LAUNCHER])
    fails(done, 12, "launches and not one kernel")
    assert len(recordings) == 6
    assert "still-lost" in codes(folder)
    assert (folder / "ranks" / "rank00001.sqlite").read_bytes() == traces[1].read_bytes()
    assert json.loads((folder / "manifest.json").read_text())["complete"]
