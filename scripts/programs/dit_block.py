"""Train blocks of a diffusion transformer: self-attention over 1025 tokens, cross-attention to 77 of a text."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(([*sys.argv[1:], "15"])[0])
torch.manual_seed(0)
WIDTH, HEADS = 1024, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.kv, self.cross = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        q, k, v = (split(part) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(join(F.scaled_dot_product_attention(q, k, v)))
        k, v = (split(part) for part in self.kv(text).chunk(2, -1))
        x = x + self.cross(join(F.scaled_dot_product_attention(split(self.q(self.norms[1](x))), k, v)))
        return x + self.mlp(self.norms[2](x))


def split(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def join(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


blocks = nn.ModuleList([Block() for _ in range(4)]).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(blocks.parameters(), 1e-4, fused=True)
image = torch.randn(8, 1025, WIDTH, device="cuda", dtype=torch.bfloat16)
text = torch.randn(8, 77, WIDTH, device="cuda", dtype=torch.bfloat16)
for step in range(steps):
    x = image
    for block in blocks:
        x = block(x, text)
    loss = x.float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
