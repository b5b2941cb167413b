"""Programs that keep a GPU busy with the wrong work, one fault at a time.

Each program is a function from the set of its faults to a step. Without faults it does the same work as it should.

    python busy_faults.py gpt --faults fp32-head,pieces      runs steps in ranges, for a profiler
    python busy_faults.py gpt --time                         measures every fault in turns, prints JSON
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[], object]
BF16 = torch.bfloat16
WARM_UP, RECORDED, TIMED, TURNS = 6, 6, 8, 5


class PiecewiseNorm(nn.Module):
    """RMSNorm written as its formula, where every operator reads and writes the whole tensor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def piecewise_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


def fused_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


class CastLinear(nn.Module):
    """A linear layer whose weight is kept in fp32 and cast at each call."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, faults: frozenset[str]) -> None:
        super().__init__()
        self.heads = heads
        norm = PiecewiseNorm if "pieces" in faults else nn.RMSNorm
        linear = CastLinear if "casts" in faults else lambda a, b: nn.Linear(a, b, bias=False)
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down = linear(width, 4 * width), linear(4 * width, width)
        self.gelu = piecewise_gelu if "pieces" in faults else fused_gelu

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(a)
        return x + self.down(self.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self, faults: frozenset[str], width: int = 1024, layers: int = 8, heads: int = 16) -> None:
        super().__init__()
        self.faults = faults
        columns = 50257 if "odd-vocabulary" in faults else 50304
        self.embedding = nn.Embedding(50304, width)
        self.blocks = nn.ModuleList([Block(width, heads, faults) for _ in range(layers)])
        self.norm = PiecewiseNorm(width) if "pieces" in faults else nn.RMSNorm(width)
        self.head = nn.Linear(width, columns, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x).flatten(0, 1)
        if "fp32-head" in self.faults:
            logits = F.linear(x.float(), self.head.weight.float())
        else:
            logits = self.head(x)
            if "fp32-logits" in self.faults:
                logits = logits.float()
        return F.cross_entropy(logits, targets.flatten())


def gpt(faults: frozenset[str]) -> Step:
    model = Gpt(faults).cuda()
    for name, parameter in model.named_parameters():
        if not ("casts" in faults and parameter.ndim == 2 and "blocks" in name):
            parameter.data = parameter.data.to(BF16)
    loop = "loop-optimizer" in faults
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not loop, foreach=False if loop else None)
    tokens = torch.randint(0, 50000, (8, 1024), device="cuda")

    def step() -> None:
        model(tokens, tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def resnet(faults: frozenset[str]) -> Step:
    import torchvision

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = "fp32" not in faults
    layout = torch.contiguous_format if "nchw" in faults else torch.channels_last
    model = torchvision.models.resnet50().cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=layout)
    labels = torch.randint(0, 1000, (128,), device="cuda")

    def step() -> None:
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class Residual(nn.Module):
    def __init__(self, width: int, faults: frozenset[str]) -> None:
        super().__init__()
        self.faults = faults
        self.norms = nn.ModuleList([nn.GroupNorm(32, width), nn.GroupNorm(32, width)])
        self.convolutions = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            y = norm(y)
            y = y * (1.0 / (1.0 + torch.exp(-y))) if "pieces" in self.faults else F.silu(y)
            if "copies" in self.faults:
                y = y.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
            y = convolution(y)
        return x + y


def diffusion(faults: frozenset[str]) -> Step:
    layout = torch.contiguous_format if faults & {"nchw", "copies"} else torch.channels_last
    blocks: list[nn.Module] = [nn.Conv2d(4, 320, 3, padding=1)]
    for width in (320, 640, 1280):
        blocks += [Residual(width, faults), Residual(width, faults)]
        if width < 1280:
            blocks.append(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
    model = nn.Sequential(*blocks).cuda().to(BF16).to(memory_format=layout)
    noise = torch.randn(16, 4, 96, 96, device="cuda", dtype=BF16).to(memory_format=layout)

    @torch.no_grad()
    def step() -> None:
        for _ in range(4):
            model(noise)

    return step


class DecodeLayer(nn.Module):
    def __init__(self, width: int, heads: int, faults: frozenset[str]) -> None:
        super().__init__()
        self.heads = heads
        norm = PiecewiseNorm if "pieces" in faults else nn.RMSNorm
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.up = (
            nn.ModuleList([nn.Linear(width, n * width // parts, bias=False) for _ in range(parts)])
            for n, parts in (((3, 3), (8, 2)) if "split-products" in faults else ((3, 1), (8, 1)))
        )
        self.out = nn.Linear(width, width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, width = x.shape
        y = self.norms[0](x)
        q = torch.cat([layer(y) for layer in self.qkv], -1) if len(self.qkv) > 1 else self.qkv[0](y)
        q, new_k, new_v = q.view(batch, 3, self.heads, 1, -1).unbind(1)
        k[:, :, -1:], v[:, :, -1:] = new_k, new_v
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).reshape(batch, width))
        y = self.norms[1](x)
        gate, up = (layer(y) for layer in self.up) if len(self.up) > 1 else self.up[0](y).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def decode(faults: frozenset[str]) -> Step:
    width, heads, layers = 1024, 16, 16
    model = nn.ModuleList([DecodeLayer(width, heads, faults) for _ in range(layers)]).cuda().to(BF16)
    k, v = (torch.randn(layers, 4, heads, 512, width // heads, device="cuda", dtype=BF16) for _ in range(2))
    x = torch.randn(4, width, device="cuda", dtype=BF16)

    @torch.no_grad()
    def token() -> Tensor:
        y = x
        for number, layer in enumerate(model):
            y = layer(y, k[number], v[number])
        return y

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            token()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()

    def step() -> None:
        for _ in range(20):
            graph.replay()

    return step


PROGRAMS: dict[str, tuple[Callable[[frozenset[str]], Step], tuple[str, ...]]] = {
    "gpt": (gpt, ("fp32-head", "pieces", "odd-vocabulary", "loop-optimizer", "casts", "fp32-logits")),
    "resnet": (resnet, ("fp32", "nchw")),
    "diffusion": (diffusion, ("nchw", "pieces", "copies")),
    "decode": (decode, ("pieces", "split-products")),
}


def record(step: Step, *, with_operators: bool = False, steps: int = RECORDED) -> None:
    for number in range(WARM_UP + steps):
        if number == WARM_UP:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
        operators = with_operators and number >= WARM_UP + steps // 2
        with torch.autograd.profiler.emit_nvtx(enabled=operators, record_shapes=True), torch.cuda.nvtx.range("step"):
            step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def median_step_ms(step: Step) -> float:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(TIMED + 1)]
    for _ in range(3):
        step()
    for event in events:
        event.record()
        step()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(second) for first, second in pairwise(events))


def measure(
    build: Callable[[frozenset[str]], Step], faults: tuple[str, ...], *, is_whole: bool
) -> dict[str, list[float]]:
    """Return the step's milliseconds of each turn: without faults, with each alone, with all, and with all but one."""
    every = frozenset(faults)
    forms = {"none": frozenset[str](), **{name: frozenset({name}) for name in faults}, "all": every}
    if is_whole:
        forms |= {f"all but {name}": every - {name} for name in faults}
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(TURNS):
        for name, chosen in forms.items():
            step = build(chosen)
            times[name].append(round(median_step_ms(step), 4))
            del step
            torch.cuda.empty_cache()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--faults", default="")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--operators", action="store_true", help="torch names operators in the last recorded steps")
    parser.add_argument("--steps", type=int, default=RECORDED, help="steps between start and stop of the profiler")
    arguments = parser.parse_args()
    build, faults = PROGRAMS[arguments.program]
    torch.manual_seed(0)
    if arguments.time:
        begin = time.perf_counter()
        times = measure(build, faults, is_whole=True)
        print(json.dumps({"program": arguments.program, "step_ms": times, "seconds": time.perf_counter() - begin}))
        return
    chosen = frozenset(faults if arguments.faults == "all" else filter(None, arguments.faults.split(",")))
    record(build(chosen), with_operators=arguments.operators, steps=arguments.steps)


if __name__ == "__main__":
    main()
