import functools
import lzma
import os
import re
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nsysprof.cli import app, make_app
from tests.builders.run_command import fails
from tests.builders.run_command import run_process as run
from tests.conftest import REPOSITORY


def test_version():
    assert run("--version").stdout.startswith("nsysprof 0.")


# What `nsysprof --help` shows: each command once, in the panel of what it is for.
PANELS = {
    "Start": ["demo", "doctor", "help"],
    "Record": ["capture", "record", "run"],
    "Read": ["analyze", "view", "whatif", "export"],
    "Compare and share": ["compare", "history", "bundle"],
    "Attention": ["bench", "tune", "explain", "optimize"],
    "For agents": ["mcp"],
}


def test_help_shows_every_command_in_its_panel():
    panels = re.split(r"\u256d\u2500 (.+?) \u2500+\u256e\n", run("--help").stdout)
    shown = {
        title: re.findall(r"^\u2502 ([a-z]+) ", rows, re.MULTILINE)
        for title, rows in zip(panels[1::2], panels[2::2], strict=True)
    }
    assert shown.pop("Options") == []
    assert shown == PANELS
    assert [name for names in PANELS.values() for name in names] == list(typer.main.get_command(app).commands)
    assert " Record your program, or a grid of attention backends. " in run("--help").stdout


BARE = """
import typer
app = typer.Typer()
@app.command()
def one(name: str) -> None: "Do one thing."
@app.command()
def two(name: str, much: bool = False) -> None: "Do another thing."
app()
"""


def processor_time(*arguments):
    """Return the least processor time (s) of three runs of Python with these arguments."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "Usage" in done.stdout
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_help_takes_at_most_twice_the_time_of_a_bare_typer_program(tmp_path):
    bare = tmp_path / "bare.py"
    bare.write_text(BARE)
    assert processor_time("-m", "nsysprof", "--help") <= 2 * processor_time(str(bare), "--help")


def test_help_does_not_wait_for_pandas_or_numpy():
    code = "import sys, nsysprof.cli; sys.exit(bool({'pandas', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_command_is_a_usage_error():
    done = run("fly")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_one_line_unless_debugging():
    code = (
        "import nsysprof.cli as c\ndef boom(**_): raise ZeroDivisionError('oops')\n"
        "c.make_app = lambda *_, **__: boom\nc.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "ZeroDivisionError: oops" in done.stderr
    assert "Traceback" not in done.stderr


def test_too_little_memory_is_no_fault_of_ours():
    code = "import nsysprof.cli as c\ndef boom(**_): raise MemoryError\nc.make_app = lambda *_, **__: boom\nc.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "not enough memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_command_line_is_loaded(tmp_path):
    """Python would print where it was, and end by the signal."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from nsysprof.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "nsysprof: Interrupted.\n"


def test_ctrl_c_while_the_first_one_is_told():
    code = (
        "import nsysprof.cli as c\ndef boom(*_, **__): raise KeyboardInterrupt\n"
        "c.make_app = lambda *_, **__: boom\nc._complain = boom; c.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == ""


def assert_interrupted(code):
    """Run a program that hands the command `command` to the command line; it must end as after Ctrl-C."""
    begin = (
        "import os, signal, time\nimport nsysprof.cli as c\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    )
    program = [sys.executable, "-c", f"{begin}{code}c.make_app = lambda *_, **__: command\nc.main()\n"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=40)
    assert (done.returncode, done.stderr) == (130, "nsysprof: Interrupted.\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_a_library_makes_an_error_of_its_own(name):
    """numpy does, once in a thousand interrupts of a comparison of records."""
    code = f"""
def command(**_):
    try:
        os.kill(os.getpid(), signal.{name})
        while True: pass
    except KeyboardInterrupt:
        pass
    raise TypeError("no common dtype")
"""
    assert_interrupted(code)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_python_drops_is_repeated(name):
    """It drops what is raised in a destructor: the command went on, below a traceback."""
    code = f"""
class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000): pass
def command(**_):
    held = Held()
    del held
    time.sleep(50)
"""
    assert_interrupted(code)


@pytest.mark.parametrize("raised", ["TraceDamagedError('t.sqlite cannot be read.', 'Export it again.')", "None"])
def test_an_interrupt_is_told_whatever_became_of_it(raised):
    """A reader took it for damage; typer made it an exit code, and said nothing."""
    code = f"""
from nsysprof.errors import TraceDamagedError
def command(**_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True: pass
    except KeyboardInterrupt:
        pass
    if error := {raised}:
        raise error
    return 130
"""
    assert_interrupted(code)


def shell(command, **environment):
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("nsysprof ", f"{sys.executable} -m nsysprof ")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr
    assert "fault of nsysprof" not in done.stderr
    return done


def test_a_reader_that_closes_the_pipe_does_not_fail_the_analysis(trace_path, tmp_path):
    done = shell(f"nsysprof analyze {trace_path('mem')} --no-figures --out {tmp_path / 'o'} --json | head -n 1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{\n"
    assert (tmp_path / "o" / "summary.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_fails_only_what_is_nowhere_else(trace_path, tmp_path):
    done = shell(f"nsysprof analyze {trace_path('mem')} --no-figures --out {tmp_path / 'o'} > /dev/full")
    assert done.returncode == 0
    assert "Standard output cannot be written: No space left on device." in done.stderr
    assert "The files are written" in done.stderr
    assert (tmp_path / "o" / "report.md").exists()
    assert shell("nsysprof --version > /dev/full").returncode == 4
    done = shell(f"nsysprof analyze {trace_path('mem')} --no-figures --out {tmp_path / 'p'} --json > /dev/full")
    assert done.returncode == 4  # no file has what --json prints


@functools.cache
def exit_code_of_doctor():
    """Return 1 where this machine lacks something."""
    return shell("nsysprof doctor").returncode


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command",
    [
        "--version",
        pytest.param("doctor --json", marks=pytest.mark.slow),
        "analyze {trace} --no-figures --out {out}",
    ],
)
def test_closed_streams_are_nothing_to_fail_for(trace_path, tmp_path, command, closed):
    code = exit_code_of_doctor() if command.startswith("doctor") else 0
    line = f"nsysprof {command} {closed}".format(trace=trace_path("mem"), out=tmp_path / "o")
    assert shell(line).returncode == code, line


def test_names_of_a_trace_do_not_command_a_workflow(trace_path, tmp_path):
    """GitHub Actions obeys lines of its log that begin with ::, and ##[ wherever it stands."""
    trace = tmp_path / "g.sqlite"
    trace.write_bytes(lzma.decompress((REPOSITORY / "traces/mp.sqlite.xz").read_bytes()))
    with closing(sqlite3.connect(trace)) as database, database:
        database.execute(
            "UPDATE NVTX_EVENTS SET textId = NULL, text = CASE rowid % 2 WHEN 0 THEN '::error file=a::msg' "
            "ELSE '##[add-mask]x' END WHERE eventType = 59"
        )
    line = f"nsysprof analyze {trace} --no-figures --out {tmp_path / 'o'} --force"
    assert "::error" in shell(line).stdout
    printed = shell(f"GITHUB_ACTIONS=true {line}").stdout
    assert "error file=a::msg" in printed
    assert not re.search(r"^\s*::|##\[", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bench", "--backend", "x"), "--backends"),
        (("benhc",), "Did you mean 'bench'?"),
        (("bench", "--device", "tpu"), "'tpu' is not one of 'auto', 'cuda', 'cpu'."),
        (("bench", "--block-samples", "0"), "'--block-samples'"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line_with_what_is_close(arguments, said):
    fails(run(*arguments), 2, said, "--help")


def test_the_completion_of_the_documented_line_works_in_bash(tmp_path):
    """What --install-completion writes is what bash reads; then TAB after `nsysprof ana` gives analyze."""
    program = tmp_path / "nsysprof"
    # As pip writes it: completion goes by the program's name, which `python -m` would change.
    program.write_text(f"#!{sys.executable}\nfrom nsysprof.__main__ import main\nmain()\n")
    program.chmod(0o755)
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def bash(script):
        command = ["bash", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    # `true`, because bash would become its only command, and the shell is found among the parents.
    bash("nsysprof --install-completion bash; true")
    tab = 'COMP_WORDS=({words}); COMP_CWORD={at}; _nsysprof_completion nsysprof; echo "${{COMPREPLY[@]}}"'
    source = f"source {tmp_path}/.bashrc; "
    assert bash(source + tab.format(words="nsysprof ana", at=1)) == ["analyze"]
    assert bash(source + tab.format(words="nsysprof bench --device cu", at=3)) == ["cuda"]
    # The line that installs it is in the docs.
    assert "nsysprof --install-completion" in (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["analyze", "capture"])
def test_a_command_is_the_same_without_the_others(name: str) -> None:
    alone = typer.main.get_command(make_app([name]))
    assert list(alone.commands) == [name]
    helps = [CliRunner().invoke(each, [name, "--help"]).output for each in (make_app([name]), app)]
    assert helps[0] == helps[1]
    assert "Usage: nsysprof " + name in helps[0]
