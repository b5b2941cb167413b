"""Traces that take their process with them, or all its memory, or a long time."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nsysprof.ranks.engine import Task, plan_tasks, prepare_parts
from nsysprof.ranks.identity import find_sources


@dataclass(frozen=True)
class Deadly(Task):
    """A trace at which every other process ends at once."""

    process: int = 0

    @property
    def part(self) -> Path:
        if os.getpid() != self.process:
            os._exit(1)
        return super().part


@dataclass(frozen=True)
class Greedy(Task):
    """A trace that takes a gibibyte of memory."""

    @property
    def part(self) -> Path:
        taken = np.ones(1 << 30, dtype=np.uint8)
        return super().part if taken.all() else Path()


@dataclass(frozen=True)
class Slow(Task):
    """A trace that takes two minutes."""

    @property
    def part(self) -> Path:
        time.sleep(120)
        return super().part


def deadly_tasks(job: Path, out: Path) -> list[Task]:
    """Return tasks for six traces of the job, the fourth of which is deadly."""
    tasks = plan_tasks(find_sources(sorted(job.iterdir())[:6], None), out)
    tasks[3] = Deadly(tasks[3].source, tasks[3].folder, tasks[3].version, os.getpid())
    prepare_parts(out, tasks, fresh=False)
    return tasks
