"""Train an encoder whose sequences are padded: every call has a bool mask."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(([*sys.argv[1:], "15"])[0])
torch.manual_seed(0)
BATCH, LENGTH, WIDTH, HEADS = 16, 512, 768, 12


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in self.qkv(self.norms[0](x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


model = nn.ModuleList([Layer() for _ in range(6)]).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
lengths = torch.randint(LENGTH // 4, LENGTH + 1, (BATCH,), device="cuda")
mask = (torch.arange(LENGTH, device="cuda") < lengths[:, None])[:, None, None, :]
for step in range(steps):
    out = x
    for layer in model:
        out = layer(out, mask)
    loss = out.float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
