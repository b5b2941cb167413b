"""Decode with grouped heads and a KV cache: one query a step against a cache that grows."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

steps = int(([*sys.argv[1:], "64"])[0])
torch.manual_seed(0)
BATCH, HEADS, GROUPS, SIZE, LAYERS, PROMPT = 16, 32, 8, 128, 4, 2048
WIDTH = HEADS * SIZE
layers = [nn.Linear(WIDTH, WIDTH + 2 * GROUPS * SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
outs = [nn.Linear(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
caches = [torch.randn(2, BATCH, GROUPS, PROMPT + steps, SIZE, device="cuda", dtype=torch.bfloat16) for _ in layers]
with torch.no_grad():
    x = torch.randn(BATCH, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
    for step in range(steps):
        length = PROMPT + step + 1
        begin = time.perf_counter()
        for layer, out, cache in zip(layers, outs, caches, strict=True):
            q, k, v = layer(x).split([WIDTH, GROUPS * SIZE, GROUPS * SIZE], -1)
            for kept, new in zip(cache, (k, v), strict=True):
                kept[:, :, length - 1] = new.view(BATCH, GROUPS, SIZE)
            q = q.view(BATCH, 1, HEADS, SIZE).transpose(1, 2)
            seen = F.scaled_dot_product_attention(q, cache[0, :, :, :length], cache[1, :, :, :length], enable_gqa=True)
            x = x + out(seen.transpose(1, 2).flatten(2))
        x = x / x.float().pow(2).mean().sqrt().to(x.dtype)
        value = x.float().abs().mean().item()
        print(f"step {step} took {1e3 * (time.perf_counter() - begin):.4f} ms, mean {value:.5f}", flush=True)
