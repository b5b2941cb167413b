"""Small models of different kinds, to record with their operators by `nsysprof capture --operators`.

python small_models.py gpt|gpt-compile|unet|lstm [--once]     --once: one step between cudaProfilerStart and Stop
"""

from __future__ import annotations

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORDS, WIDTH, HEADS, LENGTH, BATCH, STEPS, WARM_UP = 32_000, 1024, 16, 1024, 8, 20, 3
ONCE = "--once" in sys.argv


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.n1(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(seen)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.n, self.head = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, words: Tensor) -> Tensor:
        x = self.e(words)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.n(x)).float().flatten(0, 1), words.flatten())


class LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.l, self.o = (
            nn.Embedding(10_000, 512),
            nn.LSTM(512, 512, 2, batch_first=True),
            nn.Linear(512, 10_000),
        )

    def forward(self, words: Tensor) -> Tensor:
        return F.cross_entropy(self.o(self.l(self.e(words))[0]).flatten(0, 1), words.flatten())


def unet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 128, 3, padding=1), nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 256, 3, stride=2, padding=1),
        nn.GroupNorm(32, 256), nn.SiLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ConvTranspose2d(256, 64, 2, stride=2),
        nn.Conv2d(64, 4, 1),
    )  # fmt: skip


def window(step: int) -> None:
    """Let a profiler see one step, and end after it."""
    if not ONCE or step not in (WARM_UP, WARM_UP + 1):
        return
    torch.cuda.synchronize()
    if step == WARM_UP:
        torch.cuda.cudart().cudaProfilerStart()
        return
    torch.cuda.cudart().cudaProfilerStop()
    sys.exit(0)


def train(model: nn.Module, words: Tensor, *, in_bf16: bool) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(STEPS):
        window(step)
        with torch.autocast("cuda", torch.bfloat16, enabled=in_bf16):
            loss = model(words)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("gpt", "gpt-compile", "unet", "lstm"))
    parser.add_argument("--once", action="store_true")
    name = parser.parse_args().model
    torch.manual_seed(0)
    if name == "unet":
        model, given = (
            unet().to("cuda", torch.float16),
            torch.randn(16, 4, 128, 128, device="cuda", dtype=torch.float16),
        )
        with torch.inference_mode():
            for step in range(STEPS):
                window(step)
                model(given)
    elif name == "lstm":
        train(LSTM().cuda(), torch.randint(10_000, (32, 128), device="cuda"), in_bf16=False)
    else:
        gpt = GPT().cuda()
        words = torch.randint(WORDS, (BATCH, LENGTH), device="cuda")
        train(torch.compile(gpt) if name == "gpt-compile" else gpt, words, in_bf16=True)


if __name__ == "__main__":
    main()
