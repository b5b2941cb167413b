"""Measure what the hook of `capture --attention` costs small programs, and compare that with the cost it reports.

    scripts/bench.py hook [--processes 3] [--seconds 8] [--device cuda] [--out FILE.json]
    scripts/bench.py hook --only decode,train     the small programs alone
    scripts/bench.py hook --profiler              under nsys, which then records the ranges

`decode` and `train` do so little beside attention that the GPU waits for the CPU, less than any real model does: no
program can lose more by the hook. `llama-decode` and `llama-train` are small models of transformers: tokens with a
cache that grows to 512 tokens before it is cut to 64, so that the first of these steps have shapes that were not seen
before, and steps of training. They are left out where transformers is missing.

Each program has the hook of the CLI, and takes it out and puts it back in itself: blocks of steps without and with the
hook follow each other as without, with, with, without, then the other way around. Such a quad gives one ratio, which no
drift and no difference between processes is in. The interval (95 %) of a process is that of its quads; that of all, of
the processes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nsysprof.capture.user_program.program_hook import hook_environment
from scripts.benches.hook_cost import longer_pct, text_of_all, text_of_each
from scripts.benches.machine import ROOT

LAYERS = 8
STEPS = {"decode": 10, "train": 2, "llama-decode": 5, "llama-train": 2}
OF_TRANSFORMERS = ("llama-decode", "llama-train")
PROGRAM = """
import json, sys, time, torch, torch.nn.functional as F
kinds, device, seconds, out = sys.argv[1].split(","), sys.argv[2], float(sys.argv[3]), sys.argv[4]
dtype = torch.bfloat16 if device == "cuda" else torch.float32
hooked = F.scaled_dot_product_attention
plain = torch._C._nn.scaled_dot_product_attention
calls = next(finder._calls for finder in sys.meta_path if type(finder).__name__ == "AttentionHook")
clock = time.perf_counter if device == "cuda" else time.process_time  # a CPU that others use too
def llama(is_training):
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=4096, hidden_size=512, intermediate_size=1408, num_hidden_layers=LAYERS, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=1 << 20, attn_implementation="sdpa",
    )).to(device, dtype).train(is_training)
    if not is_training:  # where cuDNN may run, a step took 44 ms on an H200
        torch.backends.cuda.enable_cudnn_sdp(False)
    ids, cache = torch.randint(0, 4096, (1, 64), device=device), None
    def step():
        nonlocal ids, cache
        if is_training:
            return model(input_ids=ids, labels=ids).loss
        if cache is not None and cache.get_seq_length() >= 512:
            cache.crop(64)  # or a step would take ever longer, and the GPU would not wait for the CPU
        found = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache, ids = found.past_key_values, found.logits[:, -1:].argmax(-1)
    return model, step
def small(is_training):
    model = torch.nn.ModuleList([torch.nn.ModuleDict({
        "qkv": torch.nn.Linear(64, 192), "out": torch.nn.Linear(64, 64), "up": torch.nn.Linear(64, 128),
        "down": torch.nn.Linear(128, 64), "one": torch.nn.LayerNorm(64), "two": torch.nn.LayerNorm(64)})
        for _ in range(LAYERS)]).to(device, dtype)
    x = torch.randn(1, 32 if is_training else 1, 64, device=device, dtype=dtype)
    kept = torch.randn(2, 1, 4, 64, 16, device=device, dtype=dtype)
    def step():
        y = x
        for layer in model:
            parts = layer["qkv"](layer["one"](y)).chunk(3, -1)
            q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in parts)
            if not is_training:
                k, v = kept
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=is_training)
            y = y + layer["out"](seen.transpose(1, 2).flatten(2))
            y = y + layer["down"](F.gelu(layer["up"](layer["two"](y))))
        return y.float().pow(2).mean() if is_training else y
    return model, step
def measure(kind, steps):
    torch.manual_seed(0)
    is_training = kind.endswith("train")
    model, step = (llama if kind.startswith("llama") else small)(is_training)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    def run(count):
        for _ in range(count):
            if is_training:
                step().backward()
                optimizer.step()
                optimizer.zero_grad()
            else:
                with torch.no_grad():
                    step()
        if device == "cuda":
            torch.cuda.synchronize()
    def block(function):
        F.scaled_dot_product_attention = function
        run(1)
        begin = clock()
        run(steps)
        return (clock() - begin) / steps
    run(30)
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 2:
        sides = (plain, hooked, hooked, plain) if len(found) % 2 == 0 else (hooked, plain, plain, hooked)
        times = [block(side) for side in sides]
        found.append([[t for t, side in zip(times, sides) if side is which] for which in (plain, hooked)])
    F.scaled_dot_product_attention = hooked
    said = calls.to_json()
    calls.clear()
    return {"times": found, **{name: said[name] for name in ("own_ns", "own_most_ns", "count", "problems")}}
result = {kind: measure(kind, STEPS[kind]) for kind in kinds}
with open(out, "w") as file:
    json.dump(result, file)
"""


def run_once(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what one process measured of each program: the times of its quads (s), and the hook's own figure (%)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        steps = {kind: options.steps or STEPS[kind] for kind in kinds}
        program = PROGRAM.replace("LAYERS", str(LAYERS)).replace("STEPS", repr(steps))
        out = folder / "found.json"
        command = [sys.executable, "-c", program, ",".join(kinds), options.device, str(options.seconds), str(out)]
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "CUDA_MODULE_LOADING": "LAZY"}
        if options.profiler:
            capture = [sys.executable, "-m", "nsysprof", "capture", "--attention", "--out", str(folder / "capture")]
            command = [*capture, "--", *command]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
        else:
            environment |= hook_environment(folder / "nsys.nsys-rep", environment, ("attention",))
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return {kind: _result(found) for kind, found in json.loads(out.read_text()).items()}


def _result(found: dict[str, Any]) -> dict[str, Any]:
    if found["problems"]:
        raise SystemExit(f"the hook had problems: {found['problems']}")
    times = np.round(found["times"], 9)
    step_s = float(np.median(times[:, 0]))
    a_step = 100.0 * LAYERS / found["count"] / (1e9 * step_s)
    said = {"said_pct": a_step * found["own_ns"], "said_most_pct": a_step * found["own_most_ns"]}
    return {"plain_s": times[:, 0].tolist(), "hooked_s": times[:, 1].tolist(), "step_s": step_s, **said}


def describe(kind: str, processes: list[dict[str, Any]]) -> str:
    """Return what was found as a line."""
    found = [longer_pct(process) for process in processes]
    step_us = 1e6 * float(np.median([process["step_s"] for process in processes]))
    said, most = (float(np.median([each[name] for each in processes])) for name in ("said_pct", "said_most_pct"))
    call = 10.0 * step_us * float(np.mean([mean for mean, _ in found])) / LAYERS
    return (
        f"{kind}: a step of {step_us:.1f} us takes {text_of_all(found)} % longer with the hook "
        f"(each process: {text_of_each(found)}), {call:.0f} ns a call; it says {said:.2f} to {most:.2f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of quads of a program in a process (default 8)")
    parser.add_argument("--steps", type=int, help=f"of a block (default {STEPS})")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(STEPS), help=f"which programs (default {','.join(STEPS)})")
    parser.add_argument("--profiler", action="store_true", help="capture with nsys")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    kinds = [kind for kind in options.only.split(",") if kind not in OF_TRANSFORMERS or find_spec("transformers")]
    for kind in options.only.split(","):
        if kind not in STEPS:
            parser.error(f"there is no program {kind}; there are {', '.join(STEPS)}")
        if kind not in kinds:
            print(f"{kind}: left out, since transformers is not installed")
    processes: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for number in range(options.processes if kinds else 0):
        for kind, found in run_once(kinds, options).items():
            processes[kind].append(found)
            if number + 1 == options.processes:
                print(describe(kind, processes[kind]), flush=True)
        if options.out is not None:  # what there is, should it not come to the next process
            result = [{"program": kind, "profiler": options.profiler, "processes": processes[kind]} for kind in kinds]
            options.out.write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
