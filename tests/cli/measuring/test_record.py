"""`nsysprof capture --hold` and `nsysprof record` as a user runs them, with a real nsys, on the CPU."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run

pytestmark = [
    pytest.mark.nsys,
    pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone"),
]
SERVER = """\
import os, signal, subprocess, sys, time
from nsysprof.workload.recording.nvtx_ranges import open_domain
domain = open_domain()
def work(name):
    domain.push_range(domain.get_event_attributes(message=name))
    time.sleep(0.005)
    domain.pop_range()
kind, code = sys.argv[1], int(sys.argv[2])
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
if kind == "leaf":
    work("leaf")
    print("begun", flush=True)
    while not ended:
        work("leaf")
    sys.exit()
if kind == "exec":
    os.execv(sys.executable, [sys.executable, __file__, "plain", sys.argv[2]])
if kind == "tree":
    leaf = subprocess.Popen([sys.executable, __file__, "leaf", "0"], stdout=subprocess.PIPE)
    leaf.stdout.readline()
    if os.fork() == 0:
        while not ended:
            work("forked")
        os._exit(0)
if kind == "fast":
    print("begun", flush=True)
    while not ended:
        domain.push_range(domain.get_event_attributes(message="fast"))
        domain.pop_range()
        time.sleep(0.0001)
    sys.exit(code)
if kind == "torch":
    import torch
    model = torch.nn.Linear(2, 2)
    print("begun", flush=True)
    while not ended:
        model(torch.ones(2))
        work("step")
    sys.exit(code)
if kind == "asks":
    time.sleep(1)
    os.kill(int(os.environ["NSYSPROF_HOLD_PID"]), signal.SIGUSR1)
while not ended:
    begun = time.perf_counter()
    work("step")
    print(f"latency={1e3 * (time.perf_counter() - begun):.3f} ms", flush=True)
if kind == "tree":
    os.killpg(0, signal.SIGTERM), os.wait(), os.wait()
sys.exit(code)
"""


class Held:
    def __init__(self, process, folder):
        self.process, self.folder = process, folder

    def facts(self):
        """Return what the private register says. The folder says only which process holds the program."""
        holder = json.loads((self.folder / "held.json").read_text())
        assert set(holder) == {"format_version", "holder_pid"}
        (entry,) = self.folder.parent.glob(f"nsysprof-held-*/{holder['holder_pid']}")
        return json.loads(entry.read_text())

    def end(self):
        os.kill(self.facts()["program_pid"], signal.SIGTERM)
        return self.process.communicate(timeout=60)


@pytest.fixture
def hold(nsys, tmp_path):
    """`hold(kind, code, options)`: a held program that has printed something."""
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    held = []

    def start(kind="plain", code=0, *options):
        folder = tmp_path / "held"
        argv = [sys.executable, "-m", "nsysprof", "capture", "--hold", "--trace", "nvtx", "--out", folder, *options]
        process = subprocess.Popen(
            [*argv, "--", sys.executable, program, kind, str(code)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "NSYSPROF_NSYS": str(nsys), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        held.append(Held(process, folder))
        log, deadline = folder / "logs" / "stdout.log", time.monotonic() + 60
        while not (log.exists() and log.stat().st_size) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return held[-1]

    yield start
    for each in held:
        if each.process.poll() is None:
            each.end()


def record(held, tmp_path, *options):
    return run("record", held.folder, *options, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})


def ranges(trace):
    """Names and processes of the push/pop ranges of a trace."""
    with contextlib.closing(sqlite3.connect(f"file:{trace}?mode=ro", uri=True)) as connection:
        return connection.execute(
            "SELECT coalesce(text, value) AS name, (globalTid >> 24) & 0xffffff AS pid, count(*) FROM NVTX_EVENTS "
            "LEFT JOIN StringIds ON id = textId WHERE eventType = 59 GROUP BY 1, 2 ORDER BY 1"
        ).fetchall()


def test_parts_of_a_program_that_runs_on(hold, tmp_path):
    held = hold("tree", 7)
    pid = held.facts()["program_pid"]
    pattern = r"latency=(?P<ms>[\d.]+)"
    first = record(held, tmp_path, "--steps", "40", "--step-pattern", pattern, "--watch", "0.5", "--json")
    assert first.returncode == 0, first.stderr
    said = as_published("record", first.stdout)
    assert said["steps"] >= 40
    assert said["survived"] is True
    assert 5e6 < said["latency"]["before"]["median_ns"] < 1e9
    assert said["latency"]["after_ratio"][0] > 0
    seen = {row["pid"]: row for row in said["processes"]}
    assert sorted(row["name"] for row in seen.values()) == ["server.py"] * 3
    by_name = {name: (process, count) for name, process, count in ranges(held.folder / "recording-1" / "nsys.sqlite")}
    assert set(by_name) == {"step", "leaf"}, "nsys does not follow a forked process by default"
    assert by_name["step"][0] == pid
    assert by_name["step"][1] == seen[pid]["ranges"] >= 40
    (unseen,) = [row for row in seen.values() if row["unseen"]]
    assert "forked" in unseen["unseen"]
    for name, (process, count) in by_name.items():
        assert ranges(held.folder / "recording-1" / seen[process]["trace"]) == [(name, process, count)]

    second = record(held, tmp_path, "--duration", "0.5", "--watch", "0", "--no-keep-report")
    assert second.returncode == 0, second.stderr
    assert "latency changed is unknown" in second.stdout
    assert "nsysprof analyze" in second.stdout
    analysed = run("analyze", held.folder / "recording-1", "--out", tmp_path / "a")
    assert analysed.returncode == 0, analysed.stderr
    assert "as it takes unrecorded" in (tmp_path / "a" / "report.md").read_text()
    assert (tmp_path / "a" / "recording_cost.csv").read_text().splitlines()[1].startswith("(all steps),")
    assert not (held.folder / "recording-2" / "recording_cost.json").exists(), "nothing told its steps"
    assert (held.folder / "recording-1" / "nsys.nsys-rep").exists()
    assert not (held.folder / "recording-2" / "nsys.nsys-rep").exists()

    fails(record(held, tmp_path, "--steps", "3"), 2, "that is unknown")
    out, err = held.end()
    assert held.process.returncode == 7, err
    assert out.startswith("latency=")
    assert "2 recordings" in err
    assert not (held.folder / "held.json").exists()
    fails(record(held, tmp_path, "--duration", "1"), 2, "not the folder of a held program")


@pytest.mark.slow
@pytest.mark.torch
def test_steps_of_a_program_with_torch_need_no_pattern(hold, tmp_path):
    held = hold("torch", 7)
    done = record(held, tmp_path, "--steps", "20", "--watch", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    said = as_published("record", done.stdout)
    assert said["steps"] >= 20
    assert 5e6 < said["latency"]["before"]["median_ns"] < 1e9
    ((name, _, count),) = ranges(held.folder / "recording-1" / "nsys.sqlite")
    assert (name, count >= 19) == ("step", True)
    assert not (held.folder / "step-ends" / "on").exists()
    _, err = held.end()
    assert held.process.returncode == 7, err
    assert not (held.folder / "step-ends").exists()


@pytest.mark.slow
def test_the_last_parts_of_a_program_are_kept_until_it_ends(hold, tmp_path):
    held = hold("plain", 0)
    argv = [sys.executable, "-m", "nsysprof", "record", held.folder, "--duration", "0.3", "--keep", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines = [next(line for line in process.stdout if line.startswith("recording in")) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) in (0, 130)
    left = sorted(path.name for path in held.folder.glob("recording-*"))
    assert "recording-3" in lines[-1]
    assert "recording-1" not in left
    assert len(left) <= 3
    for name in left[:2]:
        assert ranges(held.folder / name / "nsys.sqlite")


@pytest.mark.slow
def test_parts_of_a_size_follow_each_other_and_the_last_are_kept(hold, tmp_path):
    held = hold("fast", 3, "--keep", "2", "--max-size", "2", "--no-keep-report")
    deadline = time.monotonic() + 100
    while not (held.folder / "recording-4").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    _, err = held.end()
    assert held.process.returncode == 3, err
    left = sorted(int(path.name[10:]) for path in held.folder.glob("recording-*"))
    assert len(left) == 2
    assert left[0] >= 3
    folder = held.folder / f"recording-{left[0]}"  # the program may end before the last one holds anything
    ((name, _, count),) = ranges(folder / "nsys.sqlite")
    assert name == "fast"
    assert count > 500
    assert not list(held.folder.glob("recording-*/*.nsys-rep"))
    assert err.count("recorded ") >= 3


@pytest.mark.slow
def test_ctrl_c_while_the_recording_is_written_loses_nothing(hold, tmp_path):
    held = hold()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "nsysprof", "record", held.folder, "--duration", "0.5", "--watch", "0"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("held/recording-1/*.nsys-rep")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to nsys too
        _, err = process.communicate(timeout=60)
    fails(subprocess.CompletedProcess([], process.returncode, "", err), 130, "what was recorded is kept")
    assert ranges(held.folder / "recording-1" / "nsys.sqlite")


@pytest.mark.slow
def test_the_program_asks_for_its_own_recording(hold, tmp_path):
    held = hold("asks", 0, "--duration", "1")
    deadline = time.monotonic() + 60
    while not (held.folder / "recording-1" / "manifest.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    _, err = held.end()
    assert "SIGUSR1: record 1 s" in err
    ((name, _, count),) = ranges(held.folder / "recording-1" / "nsys.sqlite")
    assert name == "step"
    assert count > 20


@pytest.mark.slow
def test_forked_workers_are_seen_when_asked_for(hold, tmp_path):
    held = hold("tree", 0, "--nsys-option=--trace-fork-before-exec=true")
    assert record(held, tmp_path, "--duration", "1").returncode == 0
    assert [name for name, _, _ in ranges(held.folder / "recording-1" / "nsys.sqlite")] == ["forked", "leaf", "step"]
    held.end()


@pytest.mark.slow
def test_a_program_that_replaces_itself_and_ends_while_it_is_recorded(nsys, hold, tmp_path):
    held = hold("exec", 3)
    pid = held.facts()["program_pid"]
    recording = subprocess.Popen(
        [sys.executable, "-m", "nsysprof", "record", held.folder, "--duration", "30"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    environment, deadline = {**os.environ, "TMPDIR": str(tmp_path)}, time.monotonic() + 60
    while time.monotonic() < deadline:
        listed = subprocess.run([nsys, "sessions", "list"], env=environment, capture_output=True, text=True, check=True)
        if held.facts()["session"] in listed.stdout and " Collection " in listed.stdout:
            break
    time.sleep(1)  # in which it takes steps
    held.end()
    _, err = recording.communicate(timeout=120)
    assert recording.returncode == 6, err
    assert "ended during the recording" in err
    ((name, process, _),) = ranges(held.folder / "recording-1" / "nsys.sqlite")
    assert (name, process) == ("step", pid)


def test_options_that_make_no_sense(nsys, tmp_path):
    env = {**os.environ, "NSYSPROF_NSYS": str(nsys), "TMPDIR": str(tmp_path)}
    fails(run("capture", "--hold", "--delay", "3", "--", "true", cwd=tmp_path, env=env), 2, "--delay")
    fails(run("capture", "--hold", "--stacks", "--", "true", cwd=tmp_path, env=env), 2, "--stacks does not work with")
    fails(run("capture", "--keep", "3", "--", "true", cwd=tmp_path, env=env), 2, "how long a part is")
    fails(run("record", cwd=tmp_path, env=env), 2, "How long")
    fails(run("record", "--duration", "1", cwd=tmp_path, env=env), 2, "No held program was found")
    fails(run("record", "--duration", "0", cwd=tmp_path, env=env), 2, "'--duration'")
    fails(run("record", "--duration", "1", "--keep", "0", cwd=tmp_path, env=env), 2, "'--keep'")
    done = run("capture", "--hold", "--dry-run", "--out", tmp_path / "x", "--", "true", cwd=tmp_path, env=env)
    assert "launch --session-new=" in done.stdout
    assert not (tmp_path / "x").exists()


def test_a_killed_recording_spoils_no_later_one(hold, nsys, tmp_path):
    """nsys recorded on without end, and refused every later recording."""
    held, environment = hold(), {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "nsysprof", "record", held.folder, "--duration", "60", "--watch", "0"]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sessions = [nsys, "sessions", "list"]
    while " Collection " not in subprocess.check_output(sessions, text=True, env=environment):
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    done = run("record", held.folder, "--duration", "1", "--watch", "0")
    assert "an earlier recording was killed" in done.stderr
    recordings = sorted(held.folder.glob("recording-*"))
    assert [sorted(path.name for path in folder.glob("nsys.*")) for folder in recordings] == [
        ["nsys.nsys-rep"], ["nsys.nsys-rep", "nsys.sqlite"],
    ]  # fmt: skip
    held.end()
