"""Define the state of a program's capture: while it runs (ProgramRun), and when it is finished (CapturedProgram)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysprof.capture.manifest import MANIFEST, Manifest, write_manifest
from nsysprof.capture.measured_process import WORK
from nsysprof.capture.rank import RankIdentity, job_token
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.rank_record import RankRecord, merge_manifest, read_records
from nsysprof.capture.user_program.record_program import Say, Watchers
from nsysprof.capture.user_program.streamed import Ended
from nsysprof.errors import NsysprofError
from nsysprof.notes import Loss, Note, split_losses
from nsysprof.nsight.nsys import run_export
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import CudaProcess, RecordingCheck, WatchedGpu

Inspect = Callable[[Path, WatchedGpu], RecordingCheck]
Compare = Callable[[Path, Path], Sequence[Note]]


@dataclass(frozen=True)
class CapturedProgram:
    """A finished capture."""

    manifest: Manifest
    ended: Ended
    # The traces that this process exported.
    traces: tuple[Path, ...]
    # Why one of the traces, or all, are missing; None when all are there.
    failure: NsysprofError | None
    # What the traces lack.
    losses: tuple[Loss, ...] = ()
    # The comparison of the trace with what the program did; None where there is no trace, or one for each rank.
    check: RecordingCheck | None = None
    # The processes that were seen with a CUDA context.
    processes: tuple[CudaProcess, ...] = ()


@dataclass
class ProgramRun:
    """A capture of a program while it runs."""

    plan: ProgramPlan
    folder: Path
    nsys: Path
    # The rank of this process, where the job starts nsysprof once per rank or node; None for a program alone.
    identity: RankIdentity | None
    watchers: Watchers
    say: Say
    # Compares a finished trace with what was observed of the program.
    inspect: Inspect
    manifest: Manifest
    metrics: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        return job_token(os.environ, list(self.plan.argv), self.identity.world_size if self.identity else 1)

    @property
    def starter(self) -> int:
        return self.identity.rank if self.identity else 0

    @property
    def records(self) -> list[RankRecord]:
        """Return the records of this job, by rank."""
        return [record for record in read_records(self.folder) if record.job == self.job]

    def save(self) -> Manifest:
        """Write the manifest, with what the other ranks have written into the folder by now, and return it."""
        records = self.records
        manifest = merge_manifest(self.manifest, records, self.plan.ranks) if records else self.manifest
        # Written in a folder of its own first, because other ranks may be writing theirs.
        own = self.folder / WORK / f"manifest-{self.starter}"
        own.mkdir(parents=True, exist_ok=True)
        write_manifest(own, manifest)
        (own / MANIFEST).replace(self.folder / MANIFEST)
        shutil.rmtree(own, ignore_errors=True)
        return manifest


def export_recording(
    run: ProgramRun, report: Path, trace: Path, log: Path, watched: WatchedGpu
) -> tuple[Step, NsysprofError | None, RecordingCheck]:
    """Export a report; return the step, the failure (None: it succeeded), and what the trace lost.

    watched: what was observed of the program while it ran.
    """
    run.say(f"export {report.name}")
    step, refused = run_export(run.nsys, report, trace, log=log, say=run.say)
    nothing = RecordingCheck(split_losses(()))
    if refused is not None:
        return step, refused, nothing
    try:
        return step, None, run.inspect(trace, watched)
    except NsysprofError as error:
        return step, error, nothing
