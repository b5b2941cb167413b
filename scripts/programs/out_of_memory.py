"""Train until memory runs out: with a batch that doubles, with planted fragmentation, or with losses that are kept.

    out_of_memory.py batch      the batch doubles at each step; activations hold the memory
    out_of_memory.py fragments  the batch stays; every second block of 9 MiB is freed, and a large one is asked for
    out_of_memory.py losses     a list keeps each loss with its graph
    out_of_memory.py optimizer  the first step of AdamW, whose states do not fit
    out_of_memory.py caught     as batch, but caught at each failure and tried again with half the batch, ten times

`nsysprof capture --memory --layers -- python scripts/programs/out_of_memory.py batch` records it. With torchrun, only
the last rank fails. A share of the device as a second argument bounds what torch may use: 0.1 by default.
"""

import os
import sys
from collections.abc import Iterator

import torch
from torch import nn

what, share = (*sys.argv[1:], "0.1")[:2] if len(sys.argv) > 1 else ("batch", "0.1")
rank, world = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
fails = rank == world - 1
torch.cuda.set_device(rank)
torch.cuda.set_per_process_memory_fraction(float(share), rank)
allowed = int(float(share) * torch.cuda.get_device_properties(rank).total_memory)
torch.manual_seed(0)
WIDTH = 2048
# Parameters of fp32; their gradients take as much, and the states of AdamW twice as much.
layers = int(0.4 * allowed / (8 * WIDTH * WIDTH * 4)) if what == "optimizer" else 4
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
                        for _ in range(layers)]).cuda()  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
losses: list[torch.Tensor] = []


def sizes() -> Iterator[int]:
    """Yield the batch of each step."""
    size = 64 if what == "optimizer" else 1024
    while True:
        yield size
        if what in ("batch", "caught") and fails:
            size *= 2


def train(size: int) -> None:
    """Run one step."""
    x = torch.randn(size, WIDTH, device="cuda")
    loss = model(x).pow(2).mean()
    if what == "losses" and fails:
        losses.append(loss)
        return
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def plant_fragments() -> None:
    """Free every second block of what is left, and ask for half of what is free in one piece."""
    blocks = []
    while True:
        try:
            # Blocks of less than 10 MiB share segments of 20 MiB.
            blocks.append(torch.empty(9 << 20, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            break
    free = sum(block.nbytes for block in blocks[::2])
    del blocks[::2]
    print("fragments of", free, "bytes", flush=True)
    torch.empty(free // 2, dtype=torch.uint8, device="cuda")


failures = 0
for step, size in enumerate(sizes()):
    if step == 500:
        break
    if what == "fragments" and step == 3 and fails:
        plant_fragments()
    try:
        train(size)
    except torch.OutOfMemoryError:
        failures += 1
        if what != "caught":
            raise
        optimizer.zero_grad()
        for _ in range(9):
            try:
                train(size)
            except torch.OutOfMemoryError:
                optimizer.zero_grad()
        train(size // 2)
        break
    print("step", step, "batch", size, "held", torch.cuda.memory_allocated(), flush=True)
print("ended after", failures, "failures")
