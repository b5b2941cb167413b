#!/usr/bin/env python3
"""Train the same four layers eagerly, as one replayed CUDA graph, or compiled with CUDA graphs of their own.

    scripts/programs/three_ways.py --how eager|graph|cudagraphs|compiled|reduce-overhead --steps 6

Each layer is a range `layer#` in the forward pass and `layer# backward` in the backward pass, so that an analysis can
be checked: with --how eager, graph and cudagraphs (torch.compile's backend that only makes CUDA graphs) a layer has the
same kernels, and with --how compiled and reduce-overhead (the same kernels, in CUDA graphs). Needs torch.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

HOWS = ("eager", "graph", "cudagraphs", "compiled", "reduce-overhead")


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Begin(torch.autograd.Function):
    """Open the range of the forward pass, and close that of the backward pass."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, name: str) -> torch.Tensor:  # type: ignore[no-untyped-def]
        torch.cuda.nvtx.range_push(name)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[no-untyped-def]
        torch.cuda.nvtx.range_pop()
        return gradient, None


class End(torch.autograd.Function):
    """Close the range of the forward pass, and open that of the backward pass."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, name: str) -> torch.Tensor:  # type: ignore[no-untyped-def]
        torch.cuda.nvtx.range_pop()
        ctx.name = name
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[no-untyped-def]
        torch.cuda.nvtx.range_push(f"{ctx.name} backward")
        return gradient, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", choices=HOWS, default="eager")
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    layers = [Layer(512).cuda() for _ in range(4)]
    calls = [compiled(layer, options.how) for layer in layers]
    x = torch.randn(64, 512, device="cuda", requires_grad=True)

    def step() -> None:
        for layer in layers:
            layer.zero_grad(set_to_none=True)
        x.grad = None  # it is memory of a graph, which the next step overwrites
        out = x
        for number, call in enumerate(calls):
            out = End.apply(call(Begin.apply(out, f"layer{number}")), f"layer{number}")
        loss = out.square().mean()
        torch.cuda.nvtx.range_push("backward")
        loss.backward()
        torch.cuda.nvtx.range_pop()

    if options.how == "graph":
        replay(step, options.steps)
        return
    for _ in range(4):  # not in a range, so that nothing but the steps counts
        torch.compiler.cudagraph_mark_step_begin()
        step()
    for number in range(options.steps):
        torch.compiler.cudagraph_mark_step_begin()
        torch.cuda.nvtx.range_push(f"step{number}")
        step()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    print(options.how, "done")


def compiled(layer: Layer, how: str) -> nn.Module:
    if how == "cudagraphs":
        return torch.compile(layer, backend="cudagraphs")
    if how in ("compiled", "reduce-overhead"):
        return torch.compile(layer, mode="default" if how == "compiled" else how)
    return layer


def replay(step, steps: int) -> None:  # type: ignore[no-untyped-def]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for number in range(steps):
        torch.cuda.nvtx.range_push(f"step{number}")
        graph.replay()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    print("graph done")


if __name__ == "__main__":
    main()
