"""Trainings on several GPUs with faults of communication, one at a time. Without faults they do the same work.

torchrun --nproc-per-node 2 job_faults.py ddp --faults reduce-always     steps in ranges, for a profiler
torchrun --nproc-per-node 2 job_faults.py ddp --time                     every fault in turns, prints JSON
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

MICRO, BATCH, LENGTH, WIDTH, LAYERS, HEADS, WORDS = 4, 4, 1024, 1024, 8, 16, 16_000
WARM_UP, RECORDED, TIMED, TURNS = 4, 12, 8, 3
FAULTS = {"ddp": ("reduce-always", "small-buckets", "uneven"), "fsdp": ("reduce-always", "small-shards")}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(seen)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, words: Tensor) -> Tensor:
        x = self.e(words)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), words.flatten())


def build(kind: str, faults: frozenset[str]) -> Callable[[], None]:
    """Return a step of a training with these faults."""
    torch.manual_seed(0)
    model: nn.Module = Model().cuda()
    if kind == "ddp":
        size = 0.5 if "small-buckets" in faults else 25
        whole: nn.Module = DistributedDataParallel(model, bucket_cap_mb=size, gradient_as_bucket_view=True)
    else:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        kinds = (nn.Linear, nn.Embedding) if "small-shards" in faults else (Block,)
        for part in [part for part in model.modules() if isinstance(part, kinds)]:
            fully_shard(part, mp_policy=policy)
        whole = fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=1e-4, fused=True)
    lengths = torch.Generator().manual_seed(100 + dist.get_rank())

    def step() -> None:
        optimizer.zero_grad()
        length = LENGTH
        if "uneven" in faults:
            length = int(torch.randint(LENGTH // 4, 7 * LENGTH // 4, (1,), generator=lengths)) // 64 * 64
        for number in range(MICRO):
            words = torch.randint(WORDS, (BATCH, length), device="cuda")
            reduces = number == MICRO - 1 or "reduce-always" in faults
            quiet: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if kind == "ddp" and not reduces:
                quiet = whole.no_sync()  # type: ignore[operator]
            elif kind == "fsdp":
                whole.set_requires_gradient_sync(reduces)  # type: ignore[operator]
            with quiet, torch.autocast("cuda", torch.bfloat16, enabled=kind == "ddp"):
                loss = whole(words)
                loss.backward()
        optimizer.step()

    return step


def median_step_ms(step: Callable[[], None]) -> float:
    times = []
    for number in range(WARM_UP + TIMED):
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if number >= WARM_UP:
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.mean(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=FAULTS)
    parser.add_argument("--faults", default="")
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if given.time:
        forms = {"none": frozenset[str](), **{name: frozenset({name}) for name in FAULTS[given.kind]}}
        times: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(TURNS):
            for name, faults in forms.items():
                step = build(given.kind, faults)
                times[name].append(round(median_step_ms(step), 3))
                del step
                torch.cuda.empty_cache()
        if dist.get_rank() == 0:
            print(json.dumps({"kind": given.kind, "step_ms": times}))
    else:
        step = build(given.kind, frozenset(filter(None, given.faults.split(","))))
        for number in range(WARM_UP + RECORDED):
            torch.cuda.nvtx.range_push("step")
            step()
            torch.cuda.nvtx.range_pop()
            if number == WARM_UP:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
