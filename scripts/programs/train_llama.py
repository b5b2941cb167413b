#!/usr/bin/env python3
"""Train a small Llama (Hugging Face transformers, random weights, bf16) with faults that can be switched on.

    scripts/programs/train_llama.py --faults pageable-copy,sync --steps 12 --times times.json
    scripts/programs/train_llama.py --in-turn --rounds 4 --steps 8 --times times.json  # each fault in turn, one process

Each step is a range `step#` with `load`, `forward`, `backward` and `optimizer` inside. Step times are taken with CUDA
events that are read after the last step, so that measuring adds no synchronisation. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, masking_utils

FAULTS = {
    "pageable-copy": "256 MiB of pageable host memory are copied to the GPU in each step",
    "sync": "the gradient of each parameter is read back, which waits for the GPU each time",
    "unfused-attention": "attention is computed by separate matrix products and a softmax",
    "unfused-optimizer": "AdamW updates one parameter after the other",
    "alloc-in-loop": "torch.cuda.empty_cache() is called in each step",
    "sleeping-loader": "the data loader sleeps (--sleep-ms)",
    "small-kernels": "many additions of 1,024 numbers are launched one by one (--small-kernels)",
    "stream-dependency": "the forward pass waits for a preparation on another stream, which needs one SM",
}
# The same work as with a fault, done as the finding advises: a CUDA graph of the additions, no wait for the stream.
# "none" has one fault of transformers' own, which looks in each step for packed sequences and waits for the answer;
# "clean" does not look.
REMEDIES = {"small-kernels": "small-graph", "stream-dependency": "stream-beside", "none": "clean"}
# What takes the place of a fault that is left out of all, where the program does the work in another way.
OTHERWISE = {name: {REMEDIES[name]} for name in ("small-kernels", "stream-dependency")}
HOST_BYTES = 256 << 20
SKIPPED = 2  # steps after a change of faults that are not timed
PREPARE_CYCLES = 20_000_000  # of a kernel that only waits; about 10 ms


@contextmanager
def annotate(name: str) -> Iterator[None]:
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def main() -> None:
    options = parse()
    torch.manual_seed(0)
    training = Training(options)
    if options.in_turn:
        report = {"step_ms": run_in_turn(training, options)}
    else:
        faults = chosen(options.faults)
        training.use(faults)
        report = {"faults": sorted(faults), **run(training, options.steps)}
    print(json.dumps(report))
    if options.times:
        options.times.write_text(json.dumps(report), encoding="utf-8")


def run(training: Training, steps: int) -> dict[str, list[float]]:
    """Return how long each step took (ms): from end to end on the GPU, and on the host."""
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    ends[0].record()
    walls = [time.perf_counter()]
    for step in range(steps):
        with annotate(f"step{step}"):
            training.step()
        ends[step + 1].record()
        walls.append(time.perf_counter())
    torch.cuda.synchronize()
    return {
        "step_ms": [a.elapsed_time(b) for a, b in itertools.pairwise(ends)],
        "host_step_ms": [1e3 * (b - a) for a, b in itertools.pairwise(walls)],
    }


def run_in_turn(training: Training, options: argparse.Namespace) -> dict[str, list[list[float]]]:
    """Return how long the steps of each round took (ms) with each fault alone, its remedy, none, and all of them."""
    ways = {name: {name} for name in (*FAULTS, *REMEDIES.values())} | {"none": set(), "all": set(FAULTS)}
    if options.leave_out:
        every = set(FAULTS)
        ways = {"all": every, **{f"without-{name}": every - {name} | OTHERWISE.get(name, set()) for name in FAULTS}}
    if options.only:
        ways = {name: ways[name] for name in options.only.split(",")}
    for faults in ways.values():
        training.use(faults)
        run(training, SKIPPED)
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    order = random.Random(0)
    for _ in range(options.rounds):
        for name in order.sample(list(ways), len(ways)):
            training.use(ways[name])
            found[name].append(run(training, SKIPPED + options.steps)["step_ms"][SKIPPED:])
    return found


class Training:
    """A model, its optimizers and its data, with faults that can be changed between steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model = make_model(options)
        if options.compile:
            self.model.compile()
        self.print_loss = options.print_loss
        self.find_packed = masking_utils.find_packed_sequence_indices
        # Each has its own state, so that they can take turns.
        self.fused = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.single = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False)
        self.optimizer: torch.optim.Optimizer = self.fused
        self.extras = Extras(options)
        self.ids = torch.randint(0, 8192, (options.batch, options.seq)).pin_memory()

    def use(self, faults: set[str]) -> None:
        masking_utils.find_packed_sequence_indices = (lambda *_: None) if "clean" in faults else self.find_packed
        self.model.set_attn_implementation("eager" if "unfused-attention" in faults else "sdpa")
        self.optimizer = self.single if "unfused-optimizer" in faults else self.fused
        self.extras.use(faults)

    def step(self) -> None:
        with annotate("load"):
            batch = self.ids.to("cuda", non_blocking=True)
            self.extras.load()
        with annotate("forward"):
            self.extras.forward()
            loss = self.model(input_ids=batch, labels=batch).loss
        with annotate("backward"):
            loss.backward()
        with annotate("optimizer"):
            self.extras.check_gradients(self.model)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.extras.finish()
        if self.print_loss:
            print("loss", round(loss.item(), 3), flush=True)


class Extras:
    """What the faults add to a step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.faults: set[str] = set()
        self.sleep_s = options.sleep_ms / 1e3
        self.small_kernels = options.small_kernels
        self.host: torch.Tensor | None = None
        self.small = torch.zeros(1024, device="cuda")
        self.graph: torch.cuda.CUDAGraph | None = None
        self.side = torch.cuda.Stream()

    def use(self, faults: set[str]) -> None:
        self.faults = faults
        if "pageable-copy" in faults and self.host is None:
            self.host = torch.zeros(HOST_BYTES, dtype=torch.uint8)
        if "small-graph" in faults and self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.add_often()

    def load(self) -> None:
        if "pageable-copy" in self.faults:
            self.host.to("cuda")
        if "sleeping-loader" in self.faults:
            time.sleep(self.sleep_s)

    def forward(self) -> None:
        if {"stream-dependency", "stream-beside"} & self.faults:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side), annotate("prepare"):
                torch.cuda._sleep(PREPARE_CYCLES)
        if "stream-dependency" in self.faults:
            torch.cuda.current_stream().wait_stream(self.side)
        if {"small-kernels", "small-graph"} & self.faults:
            with annotate("small"):
                if "small-kernels" in self.faults:
                    self.add_often()
                else:
                    self.graph.replay()

    def add_often(self) -> None:
        for _ in range(self.small_kernels):
            self.small.add_(1.0)

    def check_gradients(self, model: LlamaForCausalLM) -> None:
        if "sync" in self.faults:
            for parameter in model.parameters():
                if parameter.grad is not None and not torch.isfinite(parameter.grad).all().item():
                    raise SystemExit("A gradient is not finite.")

    def finish(self) -> None:
        if "alloc-in-loop" in self.faults:
            torch.cuda.empty_cache()


def make_model(options: argparse.Namespace) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=options.layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=options.seq,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).to("cuda", torch.bfloat16).train()


def chosen(text: str) -> set[str]:
    if text in ("all", "none", ""):
        return set(FAULTS) if text == "all" else set()
    names = set(text.split(","))
    known = [*FAULTS, *REMEDIES.values()]
    if names - set(known):
        raise SystemExit(f"Unknown fault {sorted(names - set(known))[0]!r}. Known: {', '.join(known)}.")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default="none", help=f"all, none or a list of: {', '.join(FAULTS)}")
    parser.add_argument("--steps", type=int, default=12, help="steps, or steps that are timed in each turn")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--sleep-ms", type=float, default=20.0, help="how long the sleeping loader sleeps")
    parser.add_argument("--small-kernels", type=int, default=2000, help="how many additions a step")
    parser.add_argument("--in-turn", action="store_true", help="time every fault, in turn and in one process")
    parser.add_argument("--only", default="", help="the faults that have a turn; default: all, and their remedies")
    parser.add_argument("--leave-out", action="store_true", help="with --in-turn: all faults, and all but each of them")
    parser.add_argument("--rounds", type=int, default=4, help="how often each fault has its turn")
    parser.add_argument("--compile", action="store_true", help="compile the model with torch.compile")
    parser.add_argument("--print-loss", action="store_true", help="read and print the loss of each step")
    parser.add_argument("--times", type=Path, help="write the step times there, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
