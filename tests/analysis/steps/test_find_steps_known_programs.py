"""Steps of recorded programs are found by their ranges, and by their kernels alone where the ranges are taken away.

Each program is known: the third column is what its source does. Without ranges a trace may say that it does not know,
but never that a layer or a part of a step is a step.
"""

from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.attribution.attribute import close_ranges
from nsysprof.analysis.steps.find_steps import find_steps
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

# Trace, what runs, steps of the program, whether its kernels alone tell them.
PROGRAMS = (
    ("ddp_rank0", "DDP training of two ranks", 20, True),
    ("ddp_rank1", "DDP training of two ranks", 20, True),
    ("h200-ddp/rank00000", "DDP training with a straggler", 30, True),
    ("h200-ddp-even/rank00001", "DDP training", 30, True),
    ("h200-programs/fsdp-even_rank0", "FSDP training", 16, True),
    ("h200-programs/fsdp-slow0_rank1", "FSDP training with a straggler", 16, True),
    ("h200-faults/fsdp_rank0", "FSDP training of a transformer", 24, True),
    ("h200-faults/clean", "eager training of a transformer", 7, True),
    ("h200-faults/sync", "eager training that waits in each step", 10, True),
    ("h200-faults/small-kernels", "eager training with many small kernels", 7, True),
    ("h200-faults/unfused-attention", "eager training, attention in pieces", 10, True),
    ("h200-programs/decode", "generate: one token at a time", 24, True),
    ("h200-busy/gpt-none", "GPT training in bf16", 6, True),
    ("h200-busy/bert", "BERT training in fp32", 6, True),
    ("h200-busy/llama-mended", "Llama training", 6, True),
    ("h200-busy/vit", "ViT training", 6, True),
    ("h200-busy/resnet-none", "ResNet training", 6, True),
    ("h200-busy/vgg", "VGG training", 6, True),
    # Each range `step` holds four denoising steps of one network; without it, these are what repeats.
    ("h200-busy/diffusion-nchw", "diffusion: 4 denoising steps in each", 6, 24),
    ("h200-ranges/train-eager", "eager GPT training", 24, True),
    ("h200-ranges/train-compiled", "torch.compile: GPT training", 24, True),
    ("h200-ranges/layers-reduce-overhead", "torch.compile in mode reduce-overhead", 6, True),
    ("h200-ranges/layers-cudagraphs", "torch.compile with graphs", 6, True),
    ("h200-ranges/layers-compiled", "torch.compile of layers", 6, False),
    ("h200-forms/node_graphs", "CUDA graphs, traced by node", 50, True),
    ("h200-forms/whole_graphs", "CUDA graphs, traced as a whole", 50, False),
    ("h200-forms/mps", "a process under MPS", 20, True),
    ("h200-programs/jax", "JAX training", 20, False),
    ("h200-programs/cupy", "CuPy, in blocks", 16, True),
    ("h200-layers/collected_garbage", "training with collections of Python", 70, True),
)


def told(steps):
    """Return how many steps are told, and how long the usual one takes (ns)."""
    return steps.count + steps.warmup, float(np.median(np.diff(steps.bounds_ns)))


@pytest.mark.parametrize(("name", "program", "count", "alone"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_steps_of_a_known_program_are_right_or_unknown(trace_path, name, program, count, alone):
    with open_trace(trace_path(name)) as trace:
        tables = read_tables(trace)
    by_range = find_steps(tables, close_ranges(tables)[0])
    found, step_ns = told(by_range)
    assert by_range.are_known, program
    assert found == count
    bare = replace(tables, ranges=None)
    by_kernels = find_steps(bare, close_ranges(bare)[0])
    assert by_kernels.are_known == bool(alone)
    if not alone:
        return
    found, alone_ns = told(by_kernels)
    parts = 1 if alone is True else alone // count
    # Nothing begins behind the last one, and what warms up may have other kernels, or one more step before the range.
    assert count * parts - 3 <= found <= count * parts + 3
    assert alone_ns * parts == pytest.approx(step_ns, rel=0.05)
