import subprocess
import sys
import time

from tests.cli.test_analyze import run


def test_version():
    assert run("--version").stdout.startswith("nsysprof 0.")


def test_help_names_every_command_and_is_quick():
    start = time.monotonic()
    done = run("--help")
    assert time.monotonic() - start < 5, "seconds mean that something heavy is imported"
    assert "capture" in done.stdout
    assert "explain" in done.stdout
    assert "analyze" in done.stdout
    assert "export" in done.stdout


def test_an_unknown_command_is_a_usage_error():
    done = run("fly")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_one_line_unless_debugging():
    code = "import sys; import nsysprof.cli as c\ndef boom(): raise ZeroDivisionError('oops')\nc.app = boom; c.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "ZeroDivisionError: oops" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error(trace_path, tmp_path):
    out = tmp_path / "o"
    command = f"{sys.executable} -m nsysprof analyze {trace_path('mem')} --no-figures --out {out} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
