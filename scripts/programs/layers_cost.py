"""Decode with a transformers model, in turns with and without the ranges of modules, and print what a token takes.

Run it by `nsysprof capture --layers -- python layers_cost.py`; nsys records all turns. Without --layers, both take the
same.
"""

from __future__ import annotations

import inspect
import json
import statistics
import time

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

ROUNDS, TOKENS = 60, 8


def main() -> None:
    """Print the median time of a token (ms) with and without, and the ratio."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=24, num_attention_heads=16, num_key_value_heads=8,
        vocab_size=32000,
    )  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = LlamaForCausalLM(config).to(device, torch.bfloat16).eval()
    prompt = torch.randint(0, 32000, (1, 32), device=device)
    patched = nn.Module.__call__
    original = inspect.getclosurevars(patched).nonlocals.get("original", patched)
    times: dict[str, list[float]] = {"with": [], "without": []}
    for turn in range(ROUNDS + 1):
        for name in ("with", "without") if turn % 2 else ("without", "with"):
            nn.Module.__call__ = patched if name == "with" else original
            begun = time.perf_counter()
            with torch.no_grad():
                model.generate(prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
            if device == "cuda":
                torch.cuda.synchronize()
            if turn:
                times[name].append((time.perf_counter() - begun) / TOKENS * 1e3)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = [a / b for a, b in zip(times["with"], times["without"], strict=True)]
    print(json.dumps({**medians, "ratio": statistics.median(ratios), "ratios": [round(r, 4) for r in sorted(ratios)]}))


if __name__ == "__main__":
    main()
