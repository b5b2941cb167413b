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

ROUNDS, TOKENS = 150, 8


def main() -> None:
    """Print the quartiles of the time of a token (ms) with and without, and of the ratio of turns, for wall and CPU."""
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
    of_cpu: dict[str, list[float]] = {"with": [], "without": []}
    for turn in range(ROUNDS + 1):
        for name in ("with", "without") if turn % 2 else ("without", "with"):
            nn.Module.__call__ = patched if name == "with" else original
            begun, cpu_begun = time.perf_counter(), time.thread_time()
            with torch.no_grad():
                model.generate(prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
            if device == "cuda":
                torch.cuda.synchronize()
            if turn:
                times[name].append((time.perf_counter() - begun) / TOKENS * 1e3)
                of_cpu[name].append((time.thread_time() - cpu_begun) / TOKENS * 1e3)
    for what, values in (("wall", times), ("cpu", of_cpu)):
        quartiles = {name: [round(q, 3) for q in statistics.quantiles(taken)] for name, taken in values.items()}
        ratios = statistics.quantiles([a / b for a, b in zip(values["with"], values["without"], strict=True)])
        print(json.dumps({what: quartiles, "ratio": [round(q, 4) for q in ratios]}), flush=True)


if __name__ == "__main__":
    main()
