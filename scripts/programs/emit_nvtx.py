#!/usr/bin/env python3
"""Train a small network under torch.autograd.profiler.emit_nvtx, which names each operator `NAME, op_id = N, seq = N`.

    scripts/programs/emit_nvtx.py --steps 6

Each step is a range `step#` with `forward`, `backward` and `optimizer` inside it; every operator has a range of its own
below them, and autograd's are on its own thread. Needs torch.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--shapes", action="store_true", help="record the sizes of inputs too")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 16)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=device == "cuda")
    x, target = torch.randn(64, 256, device=device), torch.randint(16, (64,), device=device)
    with torch.autograd.profiler.emit_nvtx(enabled=device == "cuda", record_shapes=options.shapes):
        for step in range(options.steps):
            with named(f"step{step}"):
                with named("forward"):
                    loss = nn.functional.cross_entropy(model(x), target)
                with named("backward"):
                    loss.backward()
                with named("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad()
    print(f"loss {loss.item():.4f} on {device}")


def named(name: str) -> torch.autograd.profiler.record_function:
    """Return a range of that name, which emit_nvtx hands to NVTX."""
    return torch.autograd.profiler.record_function(name)


if __name__ == "__main__":
    main()
