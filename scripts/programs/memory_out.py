#!/usr/bin/env python3
"""Run out of GPU memory at a known place of a training step, and print what was held then.

    nsysprof capture --memory --layers -- python scripts/programs/memory_out.py backward
    nsysprof capture --memory -- torchrun --nproc-per-node 2 scripts/programs/memory_out.py rank

The places are forward, backward, optimizer, fragments (half of a large segment is idle, in small pieces) and rank (one
rank of FSDP2 fails in its backward pass). Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

MIB = 1 << 20
PLACES = ("forward", "backward", "optimizer", "fragments", "rank")
WIDTH, LAYERS = 4096, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", choices=PLACES)
    parser.add_argument("--failing-rank", type=int, default=1)
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).cuda()
    place, fails = options.place, True
    if place == "rank":
        dist.init_process_group("nccl")
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        place, fails = "backward", dist.get_rank() == options.failing_rank
    optimizer = torch.optim.AdamW(model.parameters())
    try:
        if place == "fragments":
            fragments()
        else:
            step(model, optimizer, place if fails else "")
    except torch.OutOfMemoryError:
        state = (value for kept in optimizer.state.values() for value in kept.values())
        held = {
            "parameters": count_bytes(model.parameters()), "optimizer-state": count_bytes(state),
            "gradients": count_bytes(p.grad for p in model.parameters() if p.grad is not None),
        }  # fmt: skip
        print(json.dumps({"place": options.place, "rank": os.environ.get("RANK"), "bytes": held}), flush=True)
        raise
    if options.place == "rank":  # the other ranks wait for the one that failed
        dist.barrier()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, place: str) -> None:
    """Train one step, whose part `place` finds less memory than it needs."""
    batch = 65_536 if place == "forward" else 64  # 1 GiB of each layer's output, or 1 MiB
    x = torch.randn(batch, WIDTH, device="cuda")
    limit_memory(place == "forward", 3 * WIDTH * batch * 4)
    loss = model(x).square().mean()
    limit_memory(place == "backward", 80 * MIB)  # a gradient of a layer is 64 MiB
    loss.backward()
    limit_memory(place == "optimizer", 80 * MIB)
    optimizer.step()
    torch.cuda.synchronize()


def fragments() -> None:
    """Ask for less than is idle in a segment whose idle pieces are small."""
    whole = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    del whole  # the segment stays, and what follows is cut from it
    pieces = [torch.empty(16 * MIB, dtype=torch.uint8, device="cuda") for _ in range(64)]
    kept = pieces[::2]
    del pieces
    limit_memory(True, 16 * MIB, is_emptied=False)
    torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    del kept


def limit_memory(is_wanted: bool, more_bytes: int, *, is_emptied: bool = True) -> None:
    """Let this process have so many bytes beyond what it has."""
    if not is_wanted:
        return
    if is_emptied:
        torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + more_bytes) / total)


def count_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of tensors on the GPU; of a DTensor, those of this rank."""
    local = [getattr(tensor, "_local_tensor", tensor) for tensor in tensors]
    return sum(tensor.numel() * tensor.element_size() for tensor in local if tensor.is_cuda)


if __name__ == "__main__":
    main()
