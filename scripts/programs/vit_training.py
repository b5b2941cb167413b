"""Train a ViT with random weights: 197 tokens, an odd length, under autocast."""

import sys

import torch
from torch import nn

steps = int(([*sys.argv[1:], "15"])[0])
torch.manual_seed(0)


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 768))
        self.position = nn.Parameter(torch.randn(1, 197, 768) * 0.02)
        self.layers = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
                for _ in range(6)
            ]
        )
        self.head = nn.Linear(768, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


model = Vit().cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
for step in range(steps):
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
