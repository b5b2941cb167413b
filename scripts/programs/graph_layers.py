#!/usr/bin/env python3
"""Run the same layers eager, as a replayed CUDA graph and compiled with CUDA graphs, forward and backward.

    scripts/programs/graph_layers.py --steps 6

Each layer is a range `layer#`, the phases are ranges `eager`, `capture`, `replay` and `compiled`, so that an analysis
can be checked: the kernels of a layer are the same eager and replayed. Needs torch.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, number: int, width: int) -> None:
        super().__init__()
        self.number = number
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            torch.cuda.nvtx.range_push(f"layer{self.number}")
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        if not torch.compiler.is_compiling():
            torch.cuda.nvtx.range_pop()
        return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(*(Layer(number, 512) for number in range(4))).cuda()
    x = torch.randn(64, 512, device="cuda")

    def step() -> None:
        loss = model(x).square().mean()
        torch.cuda.nvtx.range_push("backward")
        loss.backward()
        torch.cuda.nvtx.range_pop()

    with annotate("warm-up"):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
    with annotate("eager"):
        for _ in range(options.steps):
            step()
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with annotate("capture"), torch.cuda.graph(graph):
        step()
    with annotate("replay"):
        for _ in range(options.steps):
            graph.replay()
        torch.cuda.synchronize()
    with torch.inference_mode():
        compiled = torch.compile(model, mode="reduce-overhead")
        with annotate("compile"):
            for _ in range(3):
                compiled(x)
        with annotate("compiled"):
            for _ in range(options.steps):
                compiled(x)
            torch.cuda.synchronize()
    print("done")


class annotate:
    """A range around a block."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        torch.cuda.nvtx.range_push(self.name)

    def __exit__(self, *_error: object) -> None:
        torch.cuda.nvtx.range_pop()


if __name__ == "__main__":
    main()
