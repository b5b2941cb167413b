"""Started by torch's launcher in place of Python: runs the worker under nsys, into files named after its rank.

Run as `python -P -m nsysprof.capture.rank_launch JOB.json ARGUMENTS...`; the worker is Python with the arguments, since
torch's launchers start what PYTHON_EXEC names with the arguments that they would give to Python.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nsysprof.capture.program_plan import ProgramPlan
from nsysprof.capture.rank import attempt_of, read_identity
from nsysprof.capture.rank_record import claim_rank, logs_of, report_of, with_files, write_record
from nsysprof.capture.record_program import own_watchers, program_environment, record_program
from nsysprof.errors import NsysprofError, OutputError

VARIABLE = "PYTHON_EXEC"  # documented by torch.distributed.run


@dataclass(frozen=True)
class RankJob:
    """What the workers of one launcher must know. python: PYTHON_EXEC as the user had it. metrics: options for nsys."""

    folder: str
    job: str
    starter: int
    nsys: str
    plan: ProgramPlan
    metrics: tuple[str, ...]
    python: str | None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> RankJob:
        data = json.loads(path.read_text(encoding="utf-8"))
        plan = ProgramPlan.from_json(data.pop("plan"))
        return RankJob(plan=plan, metrics=tuple(data.pop("metrics")), **data)


def write_launcher(job: RankJob, work: Path) -> Path:
    """A program that torch's launcher can start as if it were Python. Raises OutputError where none may be run."""
    job_path = (work / f"ranks-{job.starter}").resolve()
    job.write(job_path)
    words = [sys.executable, "-P", "-m", "nsysprof.capture.rank_launch", str(job_path)]
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    for folder in (work.resolve(), Path(tempfile.mkdtemp(prefix="nsysprof-"))):
        path = folder / f"python-{job.starter}"
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        if os.access(path, os.X_OK):
            return path
    raise OutputError(
        f"No program may be run from {work} nor from {tempfile.gettempdir()} (mounted noexec).",
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
    record = replace(record, trace=trace, recorded=True, steps=recorded.steps, notes=recorded.notes)
    write_record(folder, with_files(folder, record))
    if recorded.failure is not None:
        complain(recorded.failure)
    if ended.ended_by_us:
        return 0
    return (recorded.failure.exit_code if recorded.failure else 1) if ended.exit_code is None else ended.exit_code


def complain(error: NsysprofError) -> None:
    print(f"nsysprof: {error.text}\n  -> {error.next_step}", file=sys.stderr)  # noqa: T201


def _python_of_parent() -> str:
    """The Python that the launcher runs in, as it was named: a virtual environment's has a name of its own."""
    parent = Path(f"/proc/{os.getppid()}")
    try:
        named = (parent / "cmdline").read_bytes().split(b"\0")[0].decode()
        found = shutil.which(named)
        if found and Path(found).name.startswith(("python", "pypy")):
            return found
    except (OSError, UnicodeDecodeError):
        pass
    return shutil.which("python") or shutil.which("python3") or sys.executable


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NsysprofError as error:
        complain(error)
        sys.exit(error.exit_code)
