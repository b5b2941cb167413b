"""Run a worker under nsys, into files named after its rank. Torch's launcher starts this instead of Python.

Run as `python -P -m nsysprof.capture.user_program.rank_launch JOB.json ARGUMENTS...`. The worker is Python with these
arguments: torch's launchers start the program in PYTHON_EXEC with the arguments that they would give to Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.capture.rank import attempt_of, read_identity
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.rank_record import claim_rank, logs_of, report_of, with_files, write_record
from nsysprof.capture.user_program.record_program import own_watchers, program_environment, record_program
from nsysprof.errors import NsysprofError, OutputError
from nsysprof.files.plain_file import encode_json, read_json

VARIABLE = "PYTHON_EXEC"  # documented by torch.distributed.run


@dataclass(frozen=True)
class RankJob:
    """What the workers of one launcher need to know."""

    folder: str
    job: str
    starter: int
    nsys: str
    plan: ProgramPlan
    # Options for nsys to sample counters.
    metrics: tuple[str, ...]
    # The user's own value of PYTHON_EXEC.
    python: str | None

    def write(self, path: Path) -> None:
        path.write_bytes(encode_json(self))

    @staticmethod
    def read(path: Path) -> RankJob:
        """Return the job in a file. Raises TraceError when the file is damaged."""
        return read_json(path, RankJob, kind="a job of nsysprof", advice="Run the capture again.")


def write_launcher(job: RankJob, work: Path) -> Path:
    """Write a program that torch's launcher starts as if it were Python. Raises OutputError where it cannot be run."""
    job_path = (work / f"ranks-{job.starter}").resolve()
    job.write(job_path)
    words = [sys.executable, "-P", "-m", "nsysprof.capture.user_program.rank_launch", str(job_path)]
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    for folder in (work.resolve(), Path(tempfile.mkdtemp(prefix="nsysprof-"))):
        path = folder / f"python-{job.starter}"
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        if os.access(path, os.X_OK):
            return path
    raise OutputError(
        f"No program can be run from {work} or from {tempfile.gettempdir()} (mounted noexec).",
        "Choose another folder with --out, or set TMPDIR.",
    )


def main(arguments: list[str]) -> int:
    job = RankJob.read(Path(arguments[0]))
    python = job.python or _python_of_parent()
    if job.python is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = job.python
    identity = read_identity(os.environ)
    worker = [python, *arguments[1:]]
    if identity is None or not job.plan.is_recorded(identity.rank):
        os.execvp(python, worker)
    folder = Path(job.folder)
    record = claim_rank(folder, identity, job.job, job.starter, attempt_of(os.environ))
    recorded = record_program(
        replace(job.plan, argv=tuple(worker)),
        Path(job.nsys),
        report_of(folder, identity.rank),
        logs_of(folder, identity.rank),
        own_watchers(),
        metrics=job.metrics if identity.is_first_of_host else (),
        environment=program_environment(),
        say=lambda text: print(f"nsysprof: rank {identity.rank}: {text}", file=sys.stderr),  # noqa: T201
    )
    ended = recorded.ended
    trace = replace(record.trace, exit_code=ended.exit_code)
    record = replace(
        record, trace=trace, recorded=True, steps=recorded.steps, notes=recorded.notes, missing=recorded.missing
    )
    write_record(folder, with_files(folder, record))
    if recorded.failure is not None:
        complain(recorded.failure)
    if ended.ended_by_us:
        return 0
    return (recorded.failure.exit_code if recorded.failure else 1) if ended.exit_code is None else ended.exit_code


def complain(error: NsysprofError) -> None:
    print(f"nsysprof: {error.text}\n  -> {error.next_step}", file=sys.stderr)  # noqa: T201


def _python_of_parent() -> str:
    """Return the launcher's own Python by the name it was started with, which identifies its virtual environment."""
    parent = Path(f"/proc/{os.getppid()}")
    try:
        named = (parent / "cmdline").read_bytes().split(b"\0")[0].decode()
        python = shutil.which(named)
        if python and Path(python).name.startswith(("python", "pypy")):
            return python
    except (OSError, UnicodeDecodeError):
        pass
    return shutil.which("python") or shutil.which("python3") or sys.executable


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NsysprofError as error:
        complain(error)
        sys.exit(error.exit_code)
