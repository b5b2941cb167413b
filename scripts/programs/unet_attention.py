"""Sample with a diffusion U-Net like Stable Diffusion's: heads of 40, 80 and 160, self-attention and a text of 77."""

import itertools
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(([*sys.argv[1:], "20"])[0])
torch.manual_seed(0)
WIDTHS, HEADS, TEXT, BATCH, SIZE = (320, 640, 1280), 8, 768, 8, 64


class Block(nn.Module):
    """A residual block of convolutions, and a transformer over its pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(TEXT, 2 * width, bias=False)
        self.cross = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x = x + self.conv(F.silu(self.norm(x)))
        shape = x.shape
        y = x.flatten(2).transpose(1, 2)
        q, k, v = (split(part) for part in self.qkv(self.norms[0](y)).chunk(3, -1))
        y = y + self.out(join(F.scaled_dot_product_attention(q, k, v)))
        k, v = (split(part) for part in self.kv(text).chunk(2, -1))
        y = y + self.cross(join(F.scaled_dot_product_attention(split(self.q(self.norms[1](y))), k, v)))
        gate, value = self.up(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(F.gelu(gate) * value)
        return y.transpose(1, 2).reshape(shape)


def split(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def join(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, WIDTHS[0], 3, padding=1), nn.Conv2d(WIDTHS[0], 4, 3, padding=1)
        self.before = nn.ModuleList([nn.ModuleList([Block(width), Block(width)]) for width in WIDTHS])
        self.after = nn.ModuleList([nn.ModuleList([Block(width), Block(width)]) for width in WIDTHS])
        pairs = list(itertools.pairwise(WIDTHS))
        self.smaller = nn.ModuleList([nn.Conv2d(one, two, 3, 2, 1) for one, two in pairs])
        self.larger = nn.ModuleList([nn.ConvTranspose2d(two, one, 2, 2) for one, two in pairs])

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x, kept = self.first(x), []
        for level, blocks in enumerate(self.before):
            for block in blocks:
                x = block(x, text)
            if level < 2:
                kept.append(x)
                x = self.smaller[level](x)
        for level in (2, 1, 0):
            for block in self.after[level]:
                x = block(x, text)
            if level:
                x = self.larger[level - 1](x) + kept[level - 1]
        return self.last(x)


model = Unet().to("cuda", torch.float16).eval()
x = torch.randn(BATCH, 4, SIZE, SIZE, device="cuda", dtype=torch.float16)
text = torch.randn(BATCH, 77, TEXT, device="cuda", dtype=torch.float16)
with torch.inference_mode():
    for step in range(steps):
        x = x - 0.05 * model(x, text)
        print("step", step, "mean", x.float().abs().mean().item(), flush=True)
