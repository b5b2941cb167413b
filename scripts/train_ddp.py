#!/usr/bin/env python3
"""Train a small model with DistributedDataParallel, with NVTX ranges for steps; one rank can be made slow.

    torchrun --nproc-per-node 2 scripts/train_ddp.py --straggle 1 --in backward

On GPUs with NCCL, else on the CPU with Gloo. Every step is a range `step` with `data`, `forward`, `backward` and
`optimizer` in it. --straggle gives one rank the work of a second network in one of them, so that an analysis of all
ranks has something to find. Needs the extra [torch].
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PARTS = ("data", "forward", "backward", "optimizer")


def main() -> int:
    options = parse()
    on_gpu = torch.cuda.is_available()
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(rank)
    model: nn.Module = make_model(options.width, options.depth).to(device)
    if dist.is_initialized():
        model = DistributedDataParallel(model, device_ids=[local] if on_gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    spare = Spare(options.part if rank == options.straggle else "", options.width, options.depth, device)
    if spare.part == "optimizer":  # which needs gradients to work on
        spare.model(torch.randn(1, options.width, device=device)).sum().backward()
    started = time.perf_counter()
    for step in range(options.steps):
        with annotate("step"):
            train_step(model, optimizer, options, device, spare)
        if step == options.fail_at and rank == options.fail_rank:
            print(f"rank {rank} fails in step {step}, as asked", file=sys.stderr)
            return 3
        if rank == 0:
            print(f"step {step}", flush=True)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    print(f"rank {rank}: {options.steps} steps in {seconds:.2f} s on {device}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


class Spare:
    """A second network of this rank alone, whose work is done on top in the part that straggles."""

    def __init__(self, part: str, width: int, depth: int, device: torch.device) -> None:
        self.part = part
        self.model = make_model(width, depth).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def work(self, part: str, batch: torch.Tensor) -> None:
        if part != self.part:
            return
        if part == "data":
            torch.randn_like(batch)
        elif part == "optimizer":
            self.optimizer.step()
        else:
            loss = self.model(batch).square().mean()
            if part == "backward":
                loss.backward()


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace, device: torch.device, spare: Spare
) -> None:
    """One step, each part in a range of its own."""
    with annotate("data"):
        batch = torch.randn(options.batch, options.width, device=device)
        spare.work("data", batch)
    with annotate("forward"):
        loss = model(batch).square().mean()
        spare.work("forward", batch)
    with annotate("backward"):
        spare.work("backward", batch)
        loss.backward()
    with annotate("optimizer"):
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        spare.work("optimizer", batch)


def make_model(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Open one of torch's own ranges on a GPU; its CPU builds have none."""
    if torch.cuda.is_available():
        torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            torch.cuda.nvtx.range_pop()
        return
    from nsysprof.workload.recording.nvtx_ranges import open_domain

    domain = open_domain()
    domain.push_range(domain.get_event_attributes(message=name))
    try:
        yield
    finally:
        domain.pop_range()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256, help="rows of each rank's batch (256)")
    parser.add_argument("--width", type=int, default=256, help="of every layer (256; take 8192 on a GPU)")
    parser.add_argument("--depth", type=int, default=4, help="layers (4)")
    parser.add_argument("--straggle", type=int, default=-1, metavar="RANK", help="this rank works for two")
    parser.add_argument("--in", dest="part", choices=PARTS, default="forward", help="in this range (forward)")
    parser.add_argument("--fail-at", type=int, default=-1, metavar="STEP", help="fail there with exit code 3")
    parser.add_argument("--fail-rank", type=int, default=0, metavar="RANK", help="the rank that fails (0)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
