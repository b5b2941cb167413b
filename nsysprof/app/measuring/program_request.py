"""Define ProgramRequest: a program and how to record it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProgramRequest:
    """A program and how to record it. Numbers are as in ProgramPlan.

    per_rank: whether each worker of torchrun or accelerate gets its own trace.
    ranks: the ranks to record; empty for all.
    memory: whether torch's CUDA allocator records which line allocated what.
    stacks: whether Python's stacks are sampled.
    attention: whether each call of attention becomes a range with its shape.
    retry: whether the program is recorded again, with fewer options, where data was lost; None: only if the program is
        short.
    probe: whether options of nsys are tried out first where nothing is known about this machine.
    measure_cost: whether the program is run once more, with only its ranges recorded.
    power: whether the energy that the GPUs use is sampled.
    max_bytes: how much nsys may write while it records (bytes); 0: as much as fits.
    keep_report: whether nsys' own reports stay beside the traces.
    keep: how many of the parts of a held program to keep, which is recorded part after part; 0: only on demand.
    profiler: "nsys", "torch", or "auto": nsys where it can run.
    skip_steps, steps: with torch's profiler, how many optimizer steps to skip, and how many to record.
    forward_steps: in place of steps, how many calls of the outermost module to record.
    stdout_to_stderr: whether to send the program's standard output to standard error.
    out: the capture folder; None for traces/DATE-TIME, or one that the ranks of a job share.
    """

    argv: tuple[str, ...]
    per_rank: bool = False
    ranks: tuple[int, ...] = ()
    trace: str = "cuda,nvtx"
    capture_range: str = "none"
    delay_s: int = 0
    duration_s: int = 0
    end_program: bool = False
    gpu_metrics_hz: int = 0
    memory: bool = False
    stacks: bool = False
    attention: bool = False
    nsys_options: tuple[str, ...] = ()
    retry: bool | None = None
    probe: bool = True
    measure_cost: bool = False
    power: bool = False
    max_bytes: int = 0
    keep_report: bool = True
    keep: int = 0
    profiler: str = "auto"
    skip_steps: int = 0
    steps: int = 0
    forward_steps: int = 0
    stdout_to_stderr: bool = False
    nsys: Path | None = None
    out: Path | None = None
    force: bool = False
