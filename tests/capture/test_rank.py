import os

import pytest

from nsysprof.capture import rank
from nsysprof.capture.rank import attempt_of, host_token, job_token, names_a_job, read_identity

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "77"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (TORCHRUN, (5, 8, 1)),
        (SRUN, (3, 4, 0)),
        (OPEN_MPI, (1, 2, 1)),
        ({"PMI_RANK": "0", "PMI_SIZE": "16"}, (0, 16, None)),
        ({"FLUX_TASK_RANK": "2", "FLUX_JOB_SIZE": "3", "FLUX_TASK_LOCAL_ID": "2"}, (2, 3, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, None)),
    ],
)
def test_each_launcher_is_understood(variables, expected):
    found = read_identity(variables)
    assert found is not None
    assert (found.rank, found.world_size, found.local_rank) == expected


def test_what_torchrun_started_is_its_rank_though_slurm_started_torchrun():
    assert read_identity({**SRUN, **TORCHRUN}).rank == 5


def test_a_world_that_a_script_exported_does_not_hide_slurms_ranks():
    """`export RANK=$SLURM_PROCID` in a batch script is 0 for all tasks."""
    assert read_identity({**SRUN, "RANK": "0", "WORLD_SIZE": "4"}).rank == 3


def test_a_batch_script_of_slurm_is_no_rank():
    assert read_identity({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}) is None


@pytest.mark.parametrize("size", ["", "x", "-1", "1.5", "0", "5", "9" * 30, "٥"])
def test_a_world_that_is_none_names_nothing(size):
    assert read_identity({"RANK": "5", "WORLD_SIZE": size}) is None


def test_only_numbers_are_kept_of_the_variables():
    said = read_identity({**TORCHRUN, "SLURM_PROCID": "host7", "MASTER_ADDR": "host7", "PMI_RANK": "3"}).variables
    assert said == {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2",
                    "PMI_RANK": "3"}  # fmt: skip


def test_one_rank_a_host_does_what_is_done_once_a_host():
    assert not read_identity(TORCHRUN).is_first_of_host
    assert read_identity(SRUN).is_first_of_host
    assert [read_identity({"PMI_RANK": r, "PMI_SIZE": "2"}).is_first_of_host for r in "01"] == [True, False]


def test_attempts_of_torchrun():
    assert attempt_of(TORCHRUN) == 2
    assert attempt_of(SRUN) == 0


def test_jobs_differ_by_their_numbers_and_ranks_do_not():
    of_rank = job_token(SRUN, ["a"], 4)
    assert job_token({**SRUN, "SLURM_PROCID": "0"}, ["a"], 4) == of_rank
    assert job_token({**SRUN, "SLURM_JOB_ID": "78"}, ["a"], 4) != of_rank
    assert job_token(SRUN, ["a", "b"], 4) != of_rank
    assert names_a_job(SRUN)
    assert not names_a_job(OPEN_MPI)


def test_a_host_has_one_token_a_job_and_its_name_is_not_in_it(monkeypatch, tmp_path):
    assert host_token("a") == host_token("a") != host_token("b")
    first = host_token("a")
    boot = tmp_path / "boot_id"
    boot.write_text("another host")
    monkeypatch.setattr(rank, "_BOOT", boot)
    assert host_token("a") != first
    monkeypatch.setattr(rank, "_BOOT", tmp_path / "nothing")
    assert len(host_token("a")) == 12
    assert os.uname().nodename not in host_token("a")
