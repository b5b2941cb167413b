"""`nsysprof capture -- PROGRAM` as a user runs it, with a real nsys and a real torchrun, on the CPU."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run
from tests.conftest import REPOSITORY

pytestmark = [
    pytest.mark.nsys,
    pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone"),
]
TRAIN = str(REPOSITORY / "scripts" / "train_ddp.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
STEPS = """\
import sys, time
from nsysprof.workload.recording.nvtx_ranges import annotate
for step in range(3):
    with annotate(f"step{step}"):
        time.sleep(0.1)
print("printed", flush=True)
print("complained", file=sys.stderr, flush=True)
time.sleep(float(sys.argv[1]))
raise SystemExit(int(sys.argv[2]))
"""


@pytest.fixture
def capture(nsys, tmp_path):
    """`capture(options, program)`: the process and the folder that it wrote."""
    folder = tmp_path / "c"

    def call(options, program, *, env=None):
        environment = {**os.environ, "NSYSPROF_NSYS": str(nsys), **(env or {})}
        done = run("capture", "--out", folder, *options, "--", *program, cwd=tmp_path, env=environment)
        return done, folder

    return call


@pytest.fixture
def steps(tmp_path):
    path = tmp_path / "steps.py"
    path.write_text(STEPS)
    return lambda seconds=0, code=0: [sys.executable, str(path), str(seconds), str(code)]


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def ranges(trace):
    """Names of the push/pop ranges of a trace, in time."""
    with contextlib.closing(sqlite3.connect(f"file:{trace}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
            "WHERE eventType = 59 ORDER BY start"
        )
        return [name for (name,) in rows]


def test_one_trace_of_any_program(capture, steps, tmp_path):
    done, folder = capture([], steps())
    assert done.returncode == 0, done.stderr
    assert done.stdout == "printed\n"
    assert done.stderr.startswith("complained\n")
    assert ranges(folder / "nsys.sqlite") == ["step0", "step1", "step2"]
    assert (folder / "logs" / "stdout.log").read_text() == "printed\n"
    assert (folder / "logs" / "stderr.log").read_text() == "complained\n"
    said = manifest(folder)
    assert (said["kind"], said["complete"], said["cases"], said["ranks"]) == ("program", True, [], [])
    assert said["program"] == {"argv": steps(), "exit_code": 0}
    assert said["environment"]["nsys_version"]
    assert socket.gethostname() not in (folder / "manifest.json").read_text()
    assert {path.name for path in folder.iterdir()} == {
        "folder.json", "logs", "manifest.json", "nsys.nsys-rep", "nsys.sqlite",
    }  # fmt: skip

    analysed = run("analyze", folder, "--out", tmp_path / "a")
    assert analysed.returncode == 0, analysed.stderr
    assert "Cases" not in analysed.stdout
    report = (tmp_path / "a" / "report.md").read_text()
    assert "comparable hash" in report
    assert "| step\\# | 3 |" in report
    assert "Latency" not in report
    assert run("compare", folder, folder).returncode == 0


def test_options_of_the_program_need_no_dashes_before_it(capture, steps, nsys, tmp_path):
    folder = tmp_path / "d"
    done = run("capture", "--nsys", nsys, "--out", folder, *steps(), "--not-ours", "-h", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert manifest(folder)["program"]["argv"] == [*steps(), "--not-ours", "-h"]


def test_the_exit_status_is_that_of_the_program_and_the_trace_is_kept(capture, steps):
    done, folder = capture([], steps(code=42))
    assert done.returncode == 42
    assert ranges(folder / "nsys.sqlite") == ["step0", "step1", "step2"]
    assert manifest(folder)["program"]["exit_code"] == 42


def test_json_leaves_stdout_to_us(capture, steps):
    done, folder = capture(["--json"], steps())
    said = as_published("capture", done.stdout)
    assert said["program"]["exit_code"] == 0
    assert said["folder"] == str(folder)
    assert "printed" in done.stderr


def test_a_capture_range_by_name(capture, steps):
    done, folder = capture(["--capture-range", "nvtx:step1"], steps())
    assert done.returncode == 0, done.stderr
    assert ranges(folder / "nsys.sqlite") == ["step1"]
    assert manifest(folder)["complete"]


def test_a_capture_range_that_is_never_entered(capture, steps):
    done, folder = capture(["--capture-range", "nvtx:nothing"], steps())
    fails(done, 6, "without entering the capture range nothing", "NAME@DOMAIN")
    assert not (folder / "nsys.sqlite").exists()
    assert not manifest(folder)["complete"]


def test_a_failing_program_keeps_its_status_though_nothing_was_recorded(capture, steps):
    done, _folder = capture(["--capture-range", "cudaProfilerApi"], steps(code=9))
    assert done.returncode == 9
    assert "cudaProfilerStart" in done.stderr


def test_a_program_shorter_than_the_delay(capture, steps):
    fails(capture(["--delay", "30"], steps())[0], 6, "before the recording began", "shorter --delay")


def test_a_recording_that_ends_before_the_program(capture, steps):
    done, folder = capture(["--duration", "2"], steps(4, 5))
    assert done.returncode == 5, done.stderr
    assert manifest(folder)["steps"][0]["duration_ns"] > 4e9
    assert ranges(folder / "nsys.sqlite")


def test_a_program_that_hangs_is_ended_with_the_recording(capture, steps):
    started = time.monotonic()
    done, folder = capture(["--duration", "2", "--end-program"], steps(600))
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 60
    assert "was ended with the recording" in done.stderr
    assert ranges(folder / "nsys.sqlite")


def with_failing_importer(nsys, folder, times):
    """Return a real nsys whose importer fails some times, as that of 2024.2 sometimes does beside another nsys."""
    root = next(path for path in nsys.resolve().parents if (path / "target-linux-x64").is_dir())
    (importer,) = root.glob("*/QdstrmImporter")
    for source in (root / "target-linux-x64", importer.parent):
        (folder / source.name).mkdir(parents=True)
        for path in source.iterdir():
            if path != importer:
                (folder / source.name / path.name).symlink_to(path)
    mine = folder / "target-linux-x64" / "nsys"
    mine.unlink()
    shutil.copy2(root / "target-linux-x64" / "nsys", mine)  # it finds its importer from where it is itself
    wrapper = folder / importer.parent.name / importer.name
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *--input-file*) echo >> {folder}/calls\n'
        f'[ $(wc -l < {folder}/calls) -le {times} ] && {{ echo "Importation failed"; exit 1; }};; esac\n'
        f'exec {importer} "$@"\n'
    )
    wrapper.chmod(0o755)
    return mine


def test_a_recording_whose_import_failed_is_imported_again(nsys, capture, steps, tmp_path):
    mine = with_failing_importer(nsys, tmp_path / "nsys", 1)
    done, folder = capture([], steps(), env={"NSYSPROF_NSYS": str(mine)})
    assert done.returncode == 0, done.stderr
    assert ranges(folder / "nsys.sqlite") == ["step0", "step1", "step2"]
    assert [step["name"] for step in manifest(folder)["steps"]] == ["program", "import again", "export"]
    assert not list(folder.rglob("*.qdstrm"))


def test_a_recording_that_cannot_be_imported_is_kept(nsys, capture, steps, tmp_path):
    mine = with_failing_importer(nsys, tmp_path / "nsys", 9)
    done, folder = capture([], steps(), env={"NSYSPROF_NSYS": str(mine)})
    fails(done, 6, "importer failed", "qdstrm")
    (kept,) = folder.rglob("*.qdstrm")
    assert kept.stat().st_size
    assert not list(folder.rglob("again-*"))
    # It is not taken for that of a later run.
    done, folder = capture(["--force"], steps())
    assert done.returncode == 0, done.stderr
    assert [step["name"] for step in manifest(folder)["steps"]] == ["program", "export"]
    assert not list(folder.rglob("*.qdstrm"))


def test_a_recording_that_grows_too_large_is_stopped_and_the_program_goes_on(capture, tmp_path):
    program = tmp_path / "many.py"
    program.write_text(
        "import pathlib, time\nfrom nsysprof.workload.recording.nvtx_ranges import annotate\n"
        "end = time.time() + 60\n"
        "while time.time() < end and not list(pathlib.Path('c').rglob('*.nsys-rep')):  # that of a stopped recording\n"
        "    for _ in range(2000):\n        with annotate('range'):\n            pass\n"
        "print('to the end')\n"
    )
    done, folder = capture(["--max-recording", "40", "--no-keep-report"], [sys.executable, str(program)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "to the end\n"
    assert "(--max-recording 38.1 MiB)" in done.stderr
    assert "range" in ranges(folder / "nsys.sqlite")
    assert not (folder / "nsys.nsys-rep").exists()
    assert manifest(folder)["complete"]


@pytest.mark.slow
def test_a_daemon_that_the_program_leaves_is_recorded_until_ctrl_c(nsys, tmp_path):
    work = "import time\nfrom nsysprof.workload.recording.nvtx_ranges import annotate\n"
    work += "for step in range(2000):\n    with annotate('daemon'): time.sleep(0.02)"
    work += "\n    if step == 30: open('begun', 'w').close()"
    start = "import os, subprocess, sys, time\n"
    start += f"subprocess.Popen([sys.executable, '-c', {work!r}], start_new_session=True)\n"
    start += "while not os.path.exists('begun'): time.sleep(0.05)"
    options = ["--trace", "nvtx", "--out", "c", "--", sys.executable, "-c", start]
    argv = [sys.executable, "-m", "nsysprof", "capture", *options]
    process = subprocess.Popen(
        argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ, "NSYSPROF_NSYS": str(nsys)}
    )
    said = next(line for line in process.stderr if "runs on" in line)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    pid = int(re.search(r"python\S* \((\d+)\) runs on", said)[1])
    os.kill(pid, signal.SIGKILL)  # it is still there
    assert process.returncode == 130, rest
    assert "left-running" in [note["code"] for note in manifest(tmp_path / "c")["notes"]]
    assert len(ranges(tmp_path / "c" / "nsys.sqlite")) > 20


@pytest.mark.slow
def test_the_entry_point_of_a_container_records_and_keeps_what_it_has_at_sigterm(nsys, tmp_path):
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user may not make a PID namespace")
    work = "import os, time\nfrom nsysprof.workload.recording.nvtx_ranges import annotate\n"
    work += "print(os.getppid(), flush=True)\nwhile True:\n    with annotate('inside'): time.sleep(0.02)"
    argv = [*inside, sys.executable, "-m", "nsysprof", "capture", "--trace", "nvtx", "--out", "c", "--", sys.executable]
    environment = {**os.environ, "NSYSPROF_NSYS": str(nsys)}
    with subprocess.Popen([*argv, "-c", work], cwd=tmp_path, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline()
        time.sleep(1)
        first = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(int(first), signal.SIGTERM)  # as a container's runtime ends its process 1
        assert process.wait(60) == 130
    assert ranges(tmp_path / "c" / "nsys.sqlite").count("inside") > 20


READS = """\
import os, time
zeros = os.open("/dev/zero", os.O_RDONLY)
for _ in range(100_000):
    os.read(zeros, 64)
time.sleep(0.05)
"""


def test_short_calls_of_the_system_make_no_trace_larger_and_waits_are_in_it(nsys, capture, tmp_path):
    """Three recordings: without calls of the system, as usual, and with all calls, as nsys records them itself."""
    program, sizes, calls = [sys.executable, "-c", READS], {}, {}
    for name, options in {
        "without": ["--trace=cuda,nvtx"], "usual": [], "all": ["--nsys-option=--osrt-threshold=1"],
    }.items():  # fmt: skip
        done, folder = capture([*options, "--force"], program)
        assert done.returncode == 0, done.stderr
        path = folder / "nsys.sqlite"
        sizes[name] = path.stat().st_size
        with sqlite3.connect(path) as connection:
            tables = {table for (table,) in connection.execute("SELECT name FROM sqlite_master")}
            names = "SELECT s.value FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId WHERE end - start >= 100000"
            calls[name] = [call for (call,) in connection.execute(names)] if "OSRT_API" in tables else None
            rows = connection.execute("SELECT count(*) FROM OSRT_API").fetchone()[0] if calls[name] is not None else 0
            # The sandbox of a test may hold up some short calls.
            assert (name == "all") == (rows > 50_000)
            assert "OSRT_CALLCHAINS" not in tables or name == "all"
    assert calls["without"] is None and "clock_nanosleep" in calls["usual"]
    assert sizes["usual"] < 1.2 * sizes["without"] < sizes["all"]


def test_an_option_that_nsys_does_not_know(capture, steps):
    done, folder = capture(["--nsys-option=--no-such-thing=1"], steps())
    fails(done, 6, "does not know one of the options", "--nsys-option")
    assert "no-such-thing" in (folder / "logs" / "nsys.log").read_text()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_program_leaves_a_report(nsys, steps, tmp_path, sent):
    folder = tmp_path / "c"
    arguments = ["capture", "--nsys", str(nsys), "--out", str(folder), "--", *steps(600)]
    process = subprocess.Popen(
        [sys.executable, "-m", "nsysprof", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    log = folder / "logs" / "stdout.log"
    while time.monotonic() < deadline and not (log.exists() and log.read_text()):
        time.sleep(0.1)
    process.send_signal(sent)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted" in err
    assert ranges(folder / "nsys.sqlite") == ["step0", "step1", "step2"]
    assert not manifest(folder)["complete"]


WORKER = """\
import os
from nsysprof.workload.recording.nvtx_ranges import annotate
for _ in range(4):
    with annotate("step"), annotate(f"of rank {os.environ['RANK']}"):
        pass
print("rank", os.environ["RANK"], "has done 4 steps", flush=True)
"""


def test_a_trace_for_each_worker_of_torchrun(capture, tmp_path):
    """The workers need no torch; those of slow tests train."""
    pytest.importorskip("torch", reason="needs the extra [torch]")
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    done, folder = capture(["--per-rank"], [*TORCHRUN, str(worker)])
    assert done.returncode == 0, done.stderr
    assert "rank 1 has done 4 steps" in done.stdout
    said = manifest(folder)
    assert said["complete"]
    assert [(r["rank"], r["local_rank"], r["world_size"], r["trace"], r["exit_code"]) for r in said["ranks"]] == [
        (0, 0, 2, "ranks/rank00000.sqlite", 0),
        (1, 1, 2, "ranks/rank00001.sqlite", 0),
    ]
    assert len({rank["host_token"] for rank in said["ranks"]}) == 1
    for rank in said["ranks"]:
        number = rank["rank"]
        assert ranges(folder / rank["trace"]) == ["step", f"of rank {number}"] * 4
        assert (folder / rank["report"]).stat().st_size > 0
        assert (folder / "logs" / f"rank0000{number}.stdout.log").read_text() == f"rank {number} has done 4 steps\n"


@pytest.mark.slow
def test_one_trace_of_all_workers_together(capture):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    done, folder = capture([], [*TORCHRUN, TRAIN, "--steps", "2"])
    assert done.returncode == 0, done.stderr
    assert ranges(folder / "nsys.sqlite").count("step") == 4
    assert not (folder / "ranks").exists()


@pytest.mark.slow
def test_a_worker_that_fails_keeps_its_trace_and_its_status(capture):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    done, folder = capture(["--per-rank"], [*TORCHRUN, TRAIN, "--steps", "4", "--fail-at", "1", "--fail-rank", "1"])
    assert done.returncode == 1, "torchrun's own"
    said = manifest(folder)
    assert said["ranks"][1]["exit_code"] == 3
    assert ranges(folder / "ranks/rank00001.sqlite").count("step") == 2
    assert ranges(folder / "ranks/rank00000.sqlite").count("step") >= 1


@pytest.mark.slow
def test_workers_behind_a_script_and_only_some_of_them(capture, tmp_path):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    script = tmp_path / "job.sh"
    script.write_text(f"{shlex.join([*TORCHRUN, TRAIN])} --steps 2\n")
    done, folder = capture(["--per-rank", "--ranks", "1"], ["sh", str(script)])
    assert done.returncode == 0, done.stderr
    assert [rank["rank"] for rank in manifest(folder)["ranks"]] == [1]
    assert manifest(folder)["complete"]
    assert "rank 0: 2 steps" in done.stdout


def test_per_rank_without_a_launcher(capture, steps):
    fails(capture(["--per-rank"], steps())[0], 6, "did not start any worker", "Leave out --per-rank")


def start_ranks(nsys, folder, program, *options, world=3, job="1"):
    """As a launcher of MPI would: one `nsysprof capture` a rank, all at once."""
    processes = []
    for rank in range(world):
        environment = {
            **os.environ,
            "NSYSPROF_NSYS": str(nsys),
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(world),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "PMIX_NAMESPACE": job,
        }
        command = [sys.executable, "-m", "nsysprof", "capture", "--out", str(folder), *options, "--", *program]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    said = [process.communicate(timeout=120) for process in processes]
    return [process.returncode for process in processes], said


@pytest.mark.slow
def test_ranks_that_each_start_nsysprof_share_one_folder(nsys, steps, tmp_path):
    folder = tmp_path / "c"
    codes, said = start_ranks(nsys, folder, steps())
    assert codes == [0, 0, 0], said
    assert [out for out, _err in said] == ["printed\n"] * 3
    data = manifest(folder)
    assert data["complete"]
    assert [rank["trace"] for rank in data["ranks"]] == [f"ranks/rank0000{rank}.sqlite" for rank in range(3)]
    assert all(ranges(folder / rank["trace"]) == ["step0", "step1", "step2"] for rank in data["ranks"])
    assert {path.name for path in folder.iterdir()} == {"folder.json", "logs", "manifest.json", "ranks"}

    codes, said = start_ranks(nsys, folder, steps(), job="2")
    assert codes == [4, 4, 4]
    assert all("--force" in err for _out, err in said)
    codes, said = start_ranks(nsys, folder, steps(code=3), "--force", world=2, job="2")
    assert codes == [3, 3]
    assert [rank["exit_code"] for rank in manifest(folder)["ranks"]] == [3, 3]


@pytest.mark.parametrize(
    ("options", "program", "code", "word"),
    [
        ([], ["/no/such/program"], 2, "was not found"),
        (["--seq", "128"], ["true"], 2, "--seq is an option of the grid"),
        (["--profiler", "nsys,ncu"], ["true"], 2, "--profiler"),
        (["--ranks", "0"], ["true"], 2, "--per-rank"),
        (["--per-rank", "--ranks", "3-1"], ["true"], 2, "'3-1' is not a valid rank"),
        (["--per-rank"], ["mpirun", "true"], 2, "mpirun"),
        (["--nsys", "/nothing/nsys"], ["true"], 5, "--nsys names"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(capture, tmp_path, options, program, code, word):
    done, folder = capture(options, program)
    fails(done, code, word)
    assert not folder.exists()


def test_ranks_without_a_folder_of_their_job(nsys, tmp_path):
    env = {**os.environ, "NSYSPROF_NSYS": str(nsys), "PMI_RANK": "0", "PMI_SIZE": "2"}
    fails(
        run("capture", "--", "true", cwd=tmp_path, env=env), 2, "The 2 ranks of this job need a common folder", "--out"
    )


def test_options_of_a_program_without_one(tmp_path):
    fails(run("capture", "--per-rank", cwd=tmp_path), 2, "--per-rank needs a program", "PROGRAM")


def test_without_nsys_no_program_can_be_captured(tmp_path):
    code = (
        "import sys; import nsysprof.nsight.run_tool as f; f._candidates = lambda _tool: iter(())\n"
        "sys.argv = ['nsysprof', 'capture', '--out', 'c', '--', 'true']\n"
        "from nsysprof.cli import main; main()"
    )
    env = {key: value for key, value in os.environ.items() if key != "NSYSPROF_NSYS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    fails(done, 5, "nsys, which was not found", "--profiler torch")
    assert not (tmp_path / "c").exists()


def test_the_plan_alone(capture, steps):
    done, folder = capture(["--dry-run", "--duration", "5"], steps())
    assert "--duration=5" in done.stdout
    assert not folder.exists()
    done, _folder = capture(["--dry-run", "--json"], steps())
    assert json.loads(done.stdout)["program"] == steps()


@pytest.mark.slow
def test_torchs_profiler_stands_in_where_nsys_is_not_permitted(tmp_path):
    pytest.importorskip("torch")
    refuses = tmp_path / "nsys"
    refuses.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Version 2024.2.3" && exit 0\necho "Operation not permitted"; exit 1\n'
    )
    refuses.chmod(0o755)
    program = tmp_path / "train.py"
    program.write_text("import torch\nfor _ in range(3):\n    torch.ones(8, 8) @ torch.ones(8, 8)\n")
    done = run("capture", "--nsys", "nsys", "--out", "c", "--", sys.executable, program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not permitted" in done.stderr
    said = manifest(tmp_path / "c")
    assert (said["profiler"], said["missing"]) == ("torch", ["nsys"])
    analysed = run("analyze", tmp_path / "c", "--out", tmp_path / "a", "--json")
    assert analysed.returncode == 0, analysed.stderr
    kernels = {row["name"]: row["instances"] for row in json.loads(analysed.stdout)["kernels"]}
    assert kernels["aten::mm"] == 3
