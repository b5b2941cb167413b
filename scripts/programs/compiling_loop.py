"""Run a small compiled model on sequences whose lengths change, so that torch.compile works anew in each step.

    scripts/programs/compiling_loop.py [--padded] [--steps 20] [--backend inductor]

Prints the mean time of a step (ms). --padded: all lengths are padded to one, so that the loop compiles nothing. Needs
torch.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import torch
from torch import nn

LONGEST, WIDTH, WARMUP = 512, 512, 3


def main() -> None:
    """Run the steps, and print their mean time after warm-up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--padded", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = (nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4))
    model = torch.compile(nn.Sequential(*layers).to(device), dynamic=False, backend=options.backend)
    begun = 0.0
    for step in range(options.steps + WARMUP):
        if step == WARMUP:
            torch.cuda.synchronize() if device == "cuda" else None
            begun = time.perf_counter()
        with torch.cuda.nvtx.range("step") if device == "cuda" else contextlib.nullcontext():
            length = LONGEST - step
            x = torch.randn(16, length, WIDTH, device=device)
            if options.padded:
                x = nn.functional.pad(x, (0, 0, 0, LONGEST - length))
            model(x)[:, :length].square().mean().backward()
    torch.cuda.synchronize() if device == "cuda" else None
    print(f"{1e3 * (time.perf_counter() - begun) / options.steps:.3f} ms a step")


if __name__ == "__main__":
    main()
