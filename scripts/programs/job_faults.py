"""Trainings on several GPUs with faults of communication, one at a time. Without faults they do the same work.

torchrun --nproc-per-node 2 job_faults.py ddp --faults reduce-always     steps in ranges, for a profiler
torchrun --nproc-per-node 2 job_faults.py ddp --time                     every fault in turns, prints JSON
`evened` is no fault: the first stage of the pipeline gets one block of the last one, which also computes the logits.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

MICRO, BATCH, LENGTH, WIDTH, LAYERS, HEADS, WORDS = 4, 4, 1024, 1024, 8, 16, 16_000
# Tensor parallelism has one micro-step of so many sequences, and a pipeline cuts so many into its parts.
TP_BATCH, PP_BATCH = 32, 64
WARM_UP, RECORDED, TIMED, TURNS = 4, 12, 8, 3
FAULTS = {
    "ddp": ("reduce-always", "small-buckets", "uneven"),
    "fsdp": ("reduce-always", "small-shards"),
    "tp": ("small-pieces", "fp32-messages"),
    "pp": ("few-parts", "unbalanced", "evened"),
}
# Tensor parallelism sends activations in so many pieces with the fault. A pipeline cuts a batch into so many parts.
PIECES, PARTS, FEW_PARTS = 128, 8, 2


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


class Parallel:
    """Adds up activations over the ranks of tensor parallelism, as the faults want it."""

    def __init__(self, faults: frozenset[str]) -> None:
        self.pieces = PIECES if "small-pieces" in faults else 1
        self.dtype = torch.float32 if "fp32-messages" in faults else torch.bfloat16

    def add_up(self, x: Tensor) -> Tensor:
        sent = x.to(self.dtype, copy=True).contiguous()
        for piece in sent.view(-1).chunk(self.pieces):
            dist.all_reduce(piece)
        return sent.to(x.dtype)


class Enter(torch.autograd.Function):
    """The input of a part that is split over ranks: its gradients are added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parallel: Parallel) -> Tensor:
        ctx.parallel = parallel
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return ctx.parallel.add_up(gradient), None


class Leave(torch.autograd.Function):
    """The output of a part that is split over ranks: its parts are added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parallel: Parallel) -> Tensor:
        return parallel.add_up(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None


class SplitBlock(nn.Module):
    """A block of which each rank has its share of the heads and of the MLP."""

    def __init__(self, parallel: Parallel) -> None:
        super().__init__()
        self.parallel, self.heads = parallel, HEADS // dist.get_world_size()
        share = WIDTH // dist.get_world_size()
        self.n1, self.n2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * share, bias=False), nn.Linear(share, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * share, bias=False), nn.Linear(4 * share, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        entered = Enter.apply(self.n1(x), self.parallel)
        q, k, v = self.qkv(entered).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
        x = x + Leave.apply(self.out(seen), self.parallel)
        return x + Leave.apply(self.down(F.gelu(self.up(Enter.apply(self.n2(x), self.parallel)))), self.parallel)


class Stage(nn.Module):
    """The first or the last stage of a pipeline with so many of the blocks."""

    def __init__(self, blocks: int, *, is_first: bool) -> None:
        super().__init__()
        self.e = nn.Embedding(WORDS, WIDTH) if is_first else nn.Identity()
        self.head = nn.Identity() if is_first else nn.Linear(WIDTH, WORDS, bias=False)
        self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.blocks(self.e(x)))
        return out


class Model(nn.Module):
    def __init__(self, make_block: Callable[[], nn.Module] = Block) -> None:
        super().__init__()
        self.e, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.blocks = nn.ModuleList(make_block() for _ in range(LAYERS))

    def forward(self, words: Tensor) -> Tensor:
        x = self.e(words)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), words.flatten())


def build(kind: str, faults: frozenset[str]) -> Callable[[], None]:
    """Return a step of a training with these faults."""
    torch.manual_seed(0)
    if kind == "pp":
        return build_pipeline(faults)
    parallel = Parallel(faults)
    model: nn.Module = Model(lambda: SplitBlock(parallel) if kind == "tp" else Block()).cuda()
    whole = model
    if kind == "ddp":
        size = 0.5 if "small-buckets" in faults else 25
        whole = DistributedDataParallel(model, bucket_cap_mb=size, gradient_as_bucket_view=True)
    elif kind == "fsdp":
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
        micro, batch = (1, TP_BATCH) if kind == "tp" else (MICRO, BATCH)
        for number in range(micro):
            words = torch.randint(WORDS, (batch, length), device="cuda")
            reduces = number == micro - 1 or "reduce-always" in faults
            quiet: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if kind == "ddp" and not reduces:
                quiet = whole.no_sync()  # type: ignore[operator]
            elif kind == "fsdp":
                whole.set_requires_gradient_sync(reduces)  # type: ignore[operator]
            with quiet, torch.autocast("cuda", torch.bfloat16, enabled=kind != "fsdp"):
                loss = whole(words)
                loss.backward()
        optimizer.step()

    return step


def build_pipeline(faults: frozenset[str]) -> Callable[[], None]:
    """Return a step of a training by a pipeline of two stages."""
    rank = dist.get_rank()
    share = LAYERS // 2 + (LAYERS // 4 if "unbalanced" in faults else 1 if "evened" in faults else 0)
    module = Stage(share if rank == 0 else LAYERS - share, is_first=rank == 0).cuda()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)

    def loss_of(out: Tensor, words: Tensor) -> Tensor:
        return F.cross_entropy(out.flatten(0, 1), words.flatten())

    stage = PipelineStage(module, rank, 2, torch.device("cuda", torch.cuda.current_device()))
    schedule = Schedule1F1B(stage, FEW_PARTS if "few-parts" in faults else PARTS, loss_fn=loss_of)

    def step() -> None:
        optimizer.zero_grad()
        words = torch.randint(WORDS, (PP_BATCH, LENGTH), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            schedule.step(words) if rank == 0 else schedule.step(target=words)
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
