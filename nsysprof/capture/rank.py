"""Determine the rank and the job of a process from the environment variables of its launcher."""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class RankIdentity:
    """The rank of one process in a job."""

    rank: int
    world_size: int
    # The rank among the processes of its host; None where the launcher does not say.
    local_rank: int | None
    # The launcher's variables, where they are whole numbers.
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def is_first_of_host(self) -> bool:
        """Return whether this rank does what is done once per host. If hosts are unknown, only rank 0 does it."""
        return (self.rank if self.local_rank is None else self.local_rank) == 0


# The variables for rank, world size and local rank. A batch script of Slurm has SLURM_PROCID and SLURM_NTASKS too,
# although it is not a rank; only what srun started has SLURM_STEP_NUM_TASKS.
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_MANAGERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
_STARTED_BY_TORCHRUN = "TORCHELASTIC_RESTART_COUNT"
RANK_VARIABLES = (*_TORCHRUN, _STARTED_BY_TORCHRUN, *(name for names in _MANAGERS for name in names))
# Variables that have the same value for all ranks of a job, and different values for different jobs.
_JOB_NUMBERS = (
    "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PBS_JOBID", "LSB_JOBID",
    "FLUX_JOB_ID",
)  # fmt: skip
_JOB_VARIABLES = (*_JOB_NUMBERS, "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def read_identity(environment: Mapping[str, str]) -> RankIdentity | None:
    """Return the rank that the variables describe; None for a process outside of a job.

    Of several launchers, the innermost counts. Values that are not numbers, or a rank that is not below the world size,
    are ignored.
    """
    inside = _STARTED_BY_TORCHRUN in environment
    for rank_name, size_name, local_name in (_TORCHRUN, *_MANAGERS) if inside else (*_MANAGERS, _TORCHRUN):
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is None or size is None or rank >= size:
            continue
        said = {name: str(number) for name in RANK_VARIABLES if (number := _number(environment, name)) is not None}
        return RankIdentity(rank, size, _number(environment, local_name), said)
    return None


def attempt_of(environment: Mapping[str, str]) -> int:
    """Return how many times torchrun has restarted its workers; 0 at first, and with other launchers."""
    return _number(environment, _STARTED_BY_TORCHRUN) or 0


def job_token(environment: Mapping[str, str], argv: list[str], world_size: int) -> str:
    """Return twelve hex digits that the ranks of one job share. They reveal nothing about host or scheduler."""
    said = [f"{name}={environment.get(name)}" for name in _JOB_VARIABLES]
    return hashlib.sha256("\0".join([*said, str(world_size), *argv]).encode()).hexdigest()[:12]


def names_a_job(environment: Mapping[str, str]) -> bool:
    """Return whether the variables contain the number of a job, so that its token differs from every other job's."""
    return any(name in environment for name in _JOB_NUMBERS)


def host_token(job: str) -> str:
    """Return twelve hex digits for this host in this job, from which its name cannot be guessed.

    They are equal for processes with the same clock. They are made from the kernel's random boot id or, without one,
    from the network address.
    """
    try:
        secret = _BOOT.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        secret = f"{uuid.getnode()} {platform.node()}"
    return hashlib.sha256(f"{job} {secret}".encode()).hexdigest()[:12]


def rank_name(rank: int) -> str:
    """Return a name such as `rank00003`."""
    return f"rank{rank:05d}"


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def own_identity() -> RankIdentity | None:
    """Return this process as a rank of a job of several, or None when it is alone."""
    identity = read_identity(os.environ)
    return identity if identity is not None and identity.world_size > 1 else None
