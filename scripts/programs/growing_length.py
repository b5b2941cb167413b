"""Train a GPT on sequences that grow at every step, so that no block of memory of the step before is long enough."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(([*sys.argv[1:], "20"])[0])
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
# A tensor of the width grows by 2 MiB at each step, which is the unit of torch's allocator for large ones.
BATCH, FIRST, GROWTH, WIDTH, HEADS, LAYERS = (16, 1024, 64, 1024, 16, 6) if device == "cuda" else (1, 16, 8, 32, 2, 2)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


dtype = torch.bfloat16 if device == "cuda" else torch.float32
model = nn.Sequential(*[Layer() for _ in range(LAYERS)]).to(device, dtype)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
for step in range(steps):
    x = torch.randn(BATCH, FIRST + GROWTH * step, WIDTH, device=device, dtype=dtype)
    loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
