"""Train blocks of a Swin transformer: windows of 49 tokens, with a learned bias on the scores of every head.

    window_attention.py [STEPS] [--contiguous-mask] [--fixed-bias]

The bias of a window is a view whose keys do not lie side by side in memory, as Swin programs have it. With
--contiguous-mask, or CONTIGUOUS_MASK=1 in the environment, it is copied so that they do. With --fixed-bias nothing of
it is learned: it falls with the distance of two tokens, by a slope for each head, as in ALiBi.
"""

import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

numbers = [word for word in sys.argv[1:] if not word.startswith("--")]
steps = int([*numbers, "15"][0])
has_contiguous_mask = "--contiguous-mask" in sys.argv or os.environ.get("CONTIGUOUS_MASK") == "1"
has_fixed_bias = "--fixed-bias" in sys.argv
torch.manual_seed(0)
SIDE, WINDOW, WIDTH, HEADS, BATCH = 56, 7, 128, 4, 64


class Block(nn.Module):
    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        places = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + WINDOW - 1
        if has_fixed_bias:
            distance = (apart - (WINDOW - 1)).float().norm(dim=0)
            slopes = 2.0 ** -torch.arange(1, HEADS + 1)
            self.register_buffer("fixed", -(slopes[:, None, None] * distance)[None])
        else:
            self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, HEADS) * 0.02)
            self.register_buffer("index", apart[0] * (2 * WINDOW - 1) + apart[1])

    def bias(self) -> torch.Tensor:
        if has_fixed_bias:
            return self.fixed
        strided = self.table[self.index].permute(2, 0, 1)[None]
        return strided.contiguous() if has_contiguous_mask else strided

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.roll(self.norms[0](x), (-self.shift, -self.shift), (1, 2))
        many = SIDE // WINDOW
        y = y.view(BATCH, many, WINDOW, many, WINDOW, WIDTH).transpose(2, 3).reshape(-1, WINDOW * WINDOW, WIDTH)
        q, k, v = self.qkv(y).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias()).transpose(1, 2).flatten(2))
        y = y.view(BATCH, many, many, WINDOW, WINDOW, WIDTH).transpose(2, 3).reshape(x.shape)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norms[1](x))


model = nn.Sequential(*[Block(number % 2 * (WINDOW // 2)) for number in range(4)]).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
x = torch.randn(BATCH, SIDE, SIDE, WIDTH, device="cuda", dtype=torch.bfloat16)
for step in range(steps):
    loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
