#!/usr/bin/env python3
"""Run each of NCCL's collectives with known sizes, each in a range `OPERATION SIZE`, and time them with CUDA events.

    torchrun --nproc-per-node 2 scripts/programs/collectives.py --sizes 1,64 --rounds 20 --times times.json

`times.json` has the median time of a call of each operation and size, by CUDA events on the last rank. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,64", help="size of a rank's input in MiB, a list (1,64)")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each (20)")
    parser.add_argument("--profiler-api", action="store_true", help="start the profiler after the warm-up")
    parser.add_argument("--times", type=Path, help="write the times there, as JSON")
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    sizes = [int(size) for size in options.sizes.split(",")]
    calls = {(name, size): call for size in sizes for name, call in operations(size * MIB // 4, rank, ranks).items()}
    for call in calls.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    dist.barrier()
    if options.profiler_api:
        torch.cuda.profiler.start()
    times_us = {
        f"{name} {size}MiB": measure(f"{name} {size}MiB", call, options.rounds) for (name, size), call in calls.items()
    }
    torch.cuda.synchronize()
    dist.barrier()
    if options.profiler_api:
        torch.cuda.profiler.stop()
    if rank == ranks - 1 and options.times:
        options.times.write_text(json.dumps({"ranks": ranks, "median_us": times_us}, indent=1), encoding="utf-8")
    print(rank, times_us, flush=True)
    dist.destroy_process_group()


def operations(count: int, rank: int, ranks: int) -> dict[str, Callable[[], object]]:
    """Return the collectives by name, each for `count` numbers (4 bytes each) of a rank."""
    one = torch.ones(count, device="cuda")
    all_of = torch.empty(count * ranks, device="cuda")
    other = torch.empty_like(one)

    def exchange() -> None:
        if rank == 0:
            dist.send(one, 1)
        elif rank == 1:
            dist.recv(other, 0)

    return {
        "all_reduce": lambda: dist.all_reduce(other),
        "all_gather": lambda: dist.all_gather_into_tensor(all_of, one),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(one, all_of),
        "broadcast": lambda: dist.broadcast(other, 0),
        "reduce": lambda: dist.reduce(other, 0),
        "all_to_all": lambda: dist.all_to_all_single(other, one),
        "send_recv": exchange,
    }


def measure(name: str, call: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call (us), with all calls inside a range."""
    times = []
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(name)
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    torch.cuda.nvtx.range_pop()
    return statistics.median(times)


if __name__ == "__main__":
    main()
