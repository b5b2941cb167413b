"""Models of public libraries that keep a GPU busy with the wrong work, as they come, and with that mended.

python busy_models.py bert             runs steps in ranges, for a profiler
python busy_models.py bert --time      measures the model as it comes and mended, in turns; prints JSON
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from busy_faults import RECORDED, TURNS, Step, median_step_ms, record

BF16 = torch.bfloat16


def _tf32(*, allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def _training(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def bert(fault: str) -> Step:
    """Train an encoder in fp32; mended, products run in TF32."""
    from transformers import BertConfig, BertForMaskedLM

    _tf32(allowed=fault != "fp32")
    model = BertForMaskedLM(BertConfig(vocab_size=30528)).cuda()
    tokens = torch.randint(0, 30000, (16, 512), device="cuda")
    return _training(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def vit(fault: str) -> Step:
    """Train a vision transformer in fp32; mended, products run in TF32."""
    import torchvision

    _tf32(allowed=fault != "fp32")
    model = torchvision.models.vit_b_16().cuda()
    images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
    return _training(model, lambda: torch.nn.functional.cross_entropy(model(images), labels))


def gpt2(fault: str) -> Step:
    """Train a decoder in bf16 with 50,257 columns; mended, its vocabulary is padded."""
    from transformers import GPT2Config, GPT2LMHeadModel

    columns = 50257 if fault == "odd-vocabulary" else 50304
    model = GPT2LMHeadModel(GPT2Config(vocab_size=columns)).cuda().to(BF16)
    tokens = torch.randint(0, 50000, (8, 1024), device="cuda")
    return _training(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def llama(fault: str) -> Step:
    """Train a decoder in bf16, whose norms and rotary embeddings are formulas; mended, it is compiled."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=8, num_attention_heads=16, vocab_size=32000
    )
    model = LlamaForCausalLM(config).cuda().to(BF16)
    run = model if fault == "pieces" else torch.compile(model)
    tokens = torch.randint(0, 32000, (8, 1024), device="cuda")
    return _training(model, lambda: run(input_ids=tokens, labels=tokens).loss)


def resnext(fault: str) -> Step:
    """Train a convolutional net under autocast in NCHW; mended, it is channels_last."""
    import torchvision

    _tf32(allowed=True)
    layout = torch.contiguous_format if fault == "nchw" else torch.channels_last
    model = torchvision.models.resnext50_32x4d().cuda().to(memory_format=layout)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=layout)
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def loss() -> torch.Tensor:
        with torch.autocast("cuda", BF16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return _training(model, loss)


def vgg(fault: str) -> Step:
    """Run inference of a convolutional net in fp32; mended, in TF32."""
    import torchvision

    _tf32(allowed=fault != "fp32")
    model = torchvision.models.vgg16_bn().cuda().eval().to(memory_format=torch.channels_last)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)

    @torch.no_grad()
    def step() -> None:
        model(images)

    return step


def lstm(fault: str) -> Step:
    """Train a recurrent net in fp32; mended, in TF32."""
    _tf32(allowed=fault != "fp32")
    model = torch.nn.LSTM(1024, 1024, 4, batch_first=True).cuda()
    tokens = torch.randn(64, 256, 1024, device="cuda")
    return _training(model, lambda: model(tokens)[0].square().mean())


MODELS: dict[str, tuple[Callable[[str], Step], str]] = {
    "bert": (bert, "fp32"), "vit": (vit, "fp32"), "gpt2": (gpt2, "odd-vocabulary"), "llama": (llama, "pieces"),
    "resnext": (resnext, "nchw"), "vgg": (vgg, "fp32"), "lstm": (lstm, "fp32"),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--steps", type=int, default=RECORDED, help="steps between start and stop of the profiler")
    arguments = parser.parse_args()
    build, fault = MODELS[arguments.model]
    torch.manual_seed(0)
    if not arguments.time:
        record(build("" if arguments.mended else fault), steps=arguments.steps)
        return
    times: dict[str, list[float]] = {fault: [], "none": []}
    for _ in range(TURNS):
        for name, measured in times.items():
            step = build("" if name == "none" else name)
            measured.append(round(median_step_ms(step), 4))
            del step
            torch.cuda.empty_cache()
    print(json.dumps({"program": arguments.model, "step_ms": times}))


if __name__ == "__main__":
    main()
