"""Train or run a model of a public library, as its users write it: for the study of `optimize`.

public_models.py NAME [STEPS]      NAME: see PROGRAMS

BY_HAND=tf32,compile (with commas): the same program as somebody would write it who knows what helps:
tf32, compile, graphs (torch.compile with CUDA graphs), channels_last, benchmark (of cuDNN), fused (optimizer).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BY_HAND = set(filter(None, os.environ.get("BY_HAND", "").split(",")))


def timed(steps: int) -> Iterator[None]:
    """Give so many steps; where BY_HAND is set, also print their median time but for the first third."""
    if "BY_HAND" not in os.environ:
        yield from [None] * steps
        return
    times_s = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        yield
        torch.cuda.synchronize()
        times_s.append(time.perf_counter() - begin_s)
    print(f"a step takes {1e6 * statistics.median(times_s[steps // 3 :]):.1f} us")


def prepared(model: Any) -> Any:
    """Return a model on the device, with the changes by hand."""
    if "tf32" in BY_HAND:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if "benchmark" in BY_HAND:
        torch.backends.cudnn.benchmark = True
    model.to(DEVICE)
    if "channels_last" in BY_HAND:
        model.to(memory_format=torch.channels_last)
    if {"compile", "graphs"} & BY_HAND:
        model.forward = torch.compile(model.forward, mode="reduce-overhead" if "graphs" in BY_HAND else None)
    return model


def train(model: Any, steps: int, loss_of: Callable[[Any], torch.Tensor]) -> None:
    model = prepared(model).train()
    fused = {"fused": True} if "fused" in BY_HAND else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
    loss = torch.zeros(())
    for _ in timed(steps):
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


def infer(model: Any, steps: int, inputs: Callable[[], tuple[torch.Tensor, ...]]) -> None:
    """Run a model over batches; what it gives is summed, so that each batch is waited for at the end alone."""
    model = prepared(model).eval()
    total = torch.zeros((), device=DEVICE)
    with torch.no_grad():
        for _ in timed(steps):
            total += model(*inputs()).float().mean()
    print(f"mean {total.item() / steps:.6f}")


def resnet_infer(steps: int) -> None:
    from torchvision.models import resnet50 as make

    images = torch.randn(64, 3, 224, 224, device=DEVICE)
    torch.backends.cudnn.allow_tf32 = False
    infer(make(), steps, lambda: (images,))


def gpt2(steps: int, **options: Any) -> None:
    """Generate with GPT-2 from random weights, greedily. options: of `generate`."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = prepared(GPT2LMHeadModel(GPT2Config())).eval()
    prompt = torch.randint(0, 50000, (8, 64), device=DEVICE)
    with torch.no_grad():
        for _ in timed(3 if "BY_HAND" in os.environ else 1):
            made = model.generate(
                prompt, max_new_tokens=steps, min_new_tokens=steps, do_sample=False, pad_token_id=0, **options
            )
    print(f"made {made.shape[1]} tokens")


def gpt2_static(steps: int) -> None:
    """Generate with a cache of one size, for which transformers compiles the model by itself."""
    gpt2(steps, cache_implementation="static")


def gpt2_train(steps: int) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokens = torch.randint(0, 50000, (8, 512), device=DEVICE)
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    train(GPT2LMHeadModel(config), steps, lambda net: net(input_ids=tokens, labels=tokens).loss)


class Denoiser(torch.nn.Module):
    """The U-Net of a small diffusion model of diffusers, which gives a tensor."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers import UNet2DConditionModel

        channels = (128, 256, 512)
        kinds = ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D")
        ups = ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D")
        self.net = UNet2DConditionModel(
            sample_size=64, block_out_channels=channels, down_block_types=kinds, up_block_types=ups,
            cross_attention_dim=512,
        )  # fmt: skip

    def forward(self, noisy: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        sample: torch.Tensor = self.net(noisy, time, encoder_hidden_states=text).sample
        return sample


def unet(steps: int) -> None:
    noisy, text = torch.randn(8, 4, 64, 64, device=DEVICE), torch.randn(8, 77, 512, device=DEVICE)
    time = torch.full((8,), 500, device=DEVICE)
    infer(Denoiser(), steps, lambda: (noisy, time, text))


def dit(steps: int) -> None:
    """Train a diffusion transformer of diffusers."""
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(num_attention_heads=12, attention_head_dim=64, num_layers=12, sample_size=32)
    noisy = torch.randn(16, 4, 32, 32, device=DEVICE)
    time, label = torch.full((16,), 500, device=DEVICE), torch.zeros(16, dtype=torch.long, device=DEVICE)
    train(model, steps, lambda net: net(noisy, timestep=time, class_labels=label).sample.pow(2).mean())


class Recommender(torch.nn.Module):
    """Twenty-six tables of embeddings, their products, and two small towers, as DLRM has them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(100_000, 64, mode="sum") for _ in range(26))
        self.dense = torch.nn.Sequential(torch.nn.Linear(13, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
        self.top = torch.nn.Sequential(
            torch.nn.Linear(27 * 26 // 2 + 64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))

    def forward(self, numbers: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        dense = self.dense(numbers)
        found = torch.stack([dense, *(table(ids) for table, ids in zip(self.tables, words, strict=True))], dim=1)
        products = (found @ found.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        score: torch.Tensor = self.top(torch.cat([dense, products], dim=1))
        return score


def recommender(steps: int) -> None:
    numbers = torch.randn(8192, 13, device=DEVICE)
    words = torch.randint(0, 100_000, (26, 8192, 4), device=DEVICE)
    train(Recommender(), steps, lambda net: net(numbers, words).square().mean())


def graph(steps: int) -> None:
    """Train a graph attention network of torch-geometric."""
    from torch_geometric.nn import GAT

    features, edges = torch.randn(20_000, 256, device=DEVICE), torch.randint(0, 20_000, (2, 400_000), device=DEVICE)
    train(GAT(256, 256, 3, heads=4), steps, lambda net: net(features, edges).square().mean())


def process(steps: int) -> None:
    """Fit an exact Gaussian process of gpytorch."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, points: Any, values: Any, likelihood: Any) -> None:
            super().__init__(points, values, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, points: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(points), self.kernel(points))

    points = torch.rand(4000, 8, device=DEVICE)
    values = points.sum(1).sin()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(DEVICE)
    model = Model(points, values, likelihood)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    train(model, steps, lambda net: -marginal(net(points), values))


PROGRAMS: dict[str, tuple[Callable[[int], None], int]] = {
    "bert": (bert, 20), "resnet50": (resnet50, 20), "lstm": (lstm, 30), "vit": (vit, 20), "gpt2": (gpt2, 100),
    "gpt2-static": (gpt2_static, 100), "gpt2-train": (gpt2_train, 20), "resnet-infer": (resnet_infer, 30),
    "unet": (unet, 30), "dit": (dit, 20), "recommender": (recommender, 30), "graph": (graph, 30),
    "process": (process, 20),
}  # fmt: skip

if __name__ == "__main__":
    program, usual = PROGRAMS[sys.argv[1]]
    torch.manual_seed(0)
    program(int(sys.argv[2]) if len(sys.argv) > 2 else usual)
