"""Train a small GPT under torch.compile, in plain fp32 with --fp32."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
WIDTH, HEADS, LENGTH, BATCH = 1024, 16, 1024, 8
dtype = torch.float32 if "--fp32" in sys.argv else torch.bfloat16


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


model = nn.Sequential(*[Layer() for _ in range(4)]).to("cuda", dtype)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
run = model if "--eager" in sys.argv else torch.compile(model)
x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=dtype)
for step in range(15):
    loss = run(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
