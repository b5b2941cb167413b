"""Train a small model beside many Python objects that live on, so that Python's collections hold up its steps.

    scripts/programs/collected_garbage.py [--frozen] [--steps 60]

Prints the mean time of a step (ms). --frozen: gc.freeze() and gc.disable() after warm-up. Needs torch.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import time

import torch
from torch import nn


class Record:
    """An object that takes part in collections, as those of a tokenizer's vocabulary or a dataset's index do."""

    def __init__(self, number: int) -> None:
        self.fields = {"number": number, "others": [number]}


def main() -> None:
    """Train, and print the mean step after the tenth one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--objects", type=int, default=300_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kept = [Record(number) for number in range(options.objects)]
    model = nn.Sequential(*(nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(8))).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 1024, device=device)
    begun = 0.0
    for step in range(options.steps + 10):
        if step == 10:
            if options.frozen:
                gc.collect()
                gc.freeze()
                gc.disable()
            torch.cuda.synchronize() if device == "cuda" else None
            begun = time.perf_counter()
        with torch.cuda.nvtx.range("step") if device == "cuda" else contextlib.nullcontext():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            batch = [{"row": [number]} for number in range(6_000)]  # what a loader leaves behind in each step
            if step % 3 == 2:
                gc.collect()
            del batch
    torch.cuda.synchronize() if device == "cuda" else None
    print(f"{1e3 * (time.perf_counter() - begun) / options.steps:.3f} ms a step, {len(kept)} objects")


if __name__ == "__main__":
    main()
