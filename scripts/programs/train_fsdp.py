#!/usr/bin/env python3
"""Train a small transformer with FSDP2 on all GPUs of a host, with ranges per step; one rank can be made slow.

    torchrun --nproc-per-node 2 scripts/programs/train_fsdp.py --slow-rank 0 --sleep-ms 30 --times times.json
    torchrun --nproc-per-node 2 scripts/programs/train_fsdp.py --in-turn 4 --slow-rank 0 --times times.json

Needs torch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

SKIPPED = 3  # steps of each turn that are not timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--sleep-ms", type=float, default=30.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--in-turn", type=int, default=0, help="time so many turns of an even and a slow job")
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0) for _ in range(6)]
    model = nn.Sequential(*layers).cuda().to(torch.bfloat16)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(options.batch, 512, 1024, device="cuda", dtype=torch.bfloat16)
    if options.in_turn:
        run(model, optimizer, x, SKIPPED, 0.0)
        times: dict[str, list[list[float]]] = {"even": [], "slow": []}
        for _ in range(options.in_turn):
            for name, found in times.items():
                sleep_s = options.sleep_ms / 1e3 if name == "slow" and rank == options.slow_rank else 0.0
                found.append(run(model, optimizer, x, SKIPPED + options.steps, sleep_s)[SKIPPED:])
        report = {"slow_rank": options.slow_rank, "sleep_ms": options.sleep_ms, "step_ms": times}
    else:
        sleep_s = options.sleep_ms / 1e3 if rank == options.slow_rank else 0.0
        report = {"slow_rank": options.slow_rank, "step_ms": run(model, optimizer, x, options.steps, sleep_s)}
    if rank == 0 and options.times:
        options.times.write_text(json.dumps(report), encoding="utf-8")
    print(rank, json.dumps(report["step_ms"]), flush=True)
    dist.destroy_process_group()


def run(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, steps: int, sleep_s: float) -> list[float]:
    """Return how long each step took (ms)."""
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    ends[0].record()
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    for step in range(steps):
        push(f"step{step}")
        push("load")
        if sleep_s:
            time.sleep(sleep_s)
        pop()
        push("forward")
        loss = model(x).square().mean()
        pop()
        push("backward")
        loss.backward()
        pop()
        push("optimizer")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        pop()
        pop()
        ends[step + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in itertools.pairwise(ends)]


if __name__ == "__main__":
    main()
