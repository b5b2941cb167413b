"""Steps of recorded programs are found by their ranges, and by their kernels alone where the ranges are taken away.

Each program is known: the third column is what its source does. Without ranges a trace may say that it does not know,
but never that a layer or a part of a step is a step.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.attribution.attribute import close_ranges
from nsysprof.analysis.overview.summarize import summarize
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


def cut_in_half(path):
    """Leave in a trace what a recording has that ended when the GPU had done half of its work."""
    with closing(sqlite3.connect(path)) as database:
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        columns = {
            name: {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in database.execute(names).fetchall()
        }
        kinds = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
        work = next(name for name in kinds if name in columns)
        (middle,) = database.execute(f"SELECT (min(start) + max(end)) / 2 FROM {work}").fetchone()
        for name, present in columns.items():
            if name == "NVTX_EVENTS":
                ranges = "eventType IN (59, 60, 70, 71)"
                database.execute(f"DELETE FROM {name} WHERE {ranges} AND start >= {middle}")
                database.execute(f"UPDATE {name} SET end = NULL WHERE {ranges} AND end >= {middle}")
            elif present >= {"start", "end"} and not name.startswith(("META", "TARGET", "ANALYSIS", "DIAGNOSTIC")):
                database.execute(f'DELETE FROM "{name}" WHERE start >= {middle}')
        database.commit()


# What each of these showed: work of the last steps that is missing, and a step in which the recording ended.
SHORT = ("h200-busy/vgg", "h200-busy/llama", "h200-forms/whole_graphs")


@pytest.mark.parametrize("bare", [False, True], ids=["ranges", "kernels"])
@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(row[0], marks=pytest.mark.slow) for row in PROGRAMS)])
def test_half_of_a_recording_has_the_same_step_or_none(trace_path, tmp_path, name, bare):
    """A recording that ended in the middle told a step of 2.49 ms where one takes 57 ms."""

    def step():
        with open_trace(path) as trace:
            tables = read_tables(trace)
        times = summarize(replace(tables, ranges=None) if bare else tables).step_times
        return None if times is None or not times.are_steps else (times.per, times.step_ns)

    path = tmp_path / "t.sqlite"
    shutil.copyfile(trace_path(name), path)
    whole = step()
    cut_in_half(path)
    half = step()
    if whole is None or half is None:
        return
    assert half[0] == whole[0]
    assert half[1] == pytest.approx(whole[1], rel=0.1)
