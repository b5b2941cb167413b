"""Train or run a model of a public library, as its users write it: for the study of `optimize`.

public_models.py bert|resnet50|lstm|vit|gpt2 [STEPS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train(model: Any, steps: int, loss_of: Callable[[Any], torch.Tensor], **options: float) -> None:
    model.to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), **{"lr": 1e-4, **options})
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.6f}")


def bert(steps: int) -> None:
    """Train BERT base with its masked-language loss. The program forbids TF32, as some examples do."""
    from transformers import BertConfig, BertForMaskedLM

    torch.backends.cuda.matmul.allow_tf32 = False
    model = BertForMaskedLM(BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    tokens = torch.randint(0, 30000, (32, 256), device=DEVICE)
    train(model, steps, lambda net: net(input_ids=tokens, labels=tokens).loss)


def resnet50(steps: int) -> None:
    from torchvision.models import resnet50 as make

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    images = torch.randn(64, 3, 224, 224, device=DEVICE)
    labels = torch.randint(0, 1000, (64,), device=DEVICE)
    train(make(), steps, lambda net: torch.nn.functional.cross_entropy(net(images), labels))


class Reader(torch.nn.Module):
    """A language model of two layers of LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(20000, 1024)
        self.layers = torch.nn.LSTM(1024, 1024, 2, batch_first=True)
        self.head = torch.nn.Linear(1024, 20000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.layers(self.embed(tokens))
        logits: torch.Tensor = self.head(hidden)
        return logits


def lstm(steps: int) -> None:
    tokens = torch.randint(0, 20000, (32, 129), device=DEVICE)

    def loss_of(net: Any) -> torch.Tensor:
        logits = net(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    train(Reader(), steps, loss_of)


def vit(steps: int) -> None:
    from torchvision.models import vit_b_16

    images = torch.randn(32, 3, 224, 224, device=DEVICE)
    labels = torch.randint(0, 1000, (32,), device=DEVICE)
    train(vit_b_16(), steps, lambda net: torch.nn.functional.cross_entropy(net(images), labels))


def gpt2(steps: int) -> None:
    """Generate with GPT-2 from random weights, greedily."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).to(DEVICE).eval()
    prompt = torch.randint(0, 50000, (8, 64), device=DEVICE)
    with torch.no_grad():
        made = model.generate(prompt, max_new_tokens=steps, min_new_tokens=steps, do_sample=False, pad_token_id=0)
    print(f"made {made.shape[1]} tokens")


PROGRAMS: dict[str, tuple[Callable[[int], None], int]] = {
    "bert": (bert, 20), "resnet50": (resnet50, 20), "lstm": (lstm, 30), "vit": (vit, 20), "gpt2": (gpt2, 100),
}  # fmt: skip

if __name__ == "__main__":
    program, usual = PROGRAMS[sys.argv[1]]
    torch.manual_seed(0)
    program(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
