"""Tables of calls and work made at random, for compiled loops that must do what numpy does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Calls, Work

_PIDS = (5 << 24, 7 << 24)
_TIDS = (_PIDS[0] + 1, _PIDS[0] + 2, _PIDS[0] + 3, _PIDS[1] + 1, _PIDS[1] + 2)
# Kind, device and stream of each variant of work.
_KINDS = (
    (KERNEL, 0, 7), (KERNEL, 0, 8), (KERNEL, 1, 7), (KERNEL, 0, 7), (COPY, 0, 7), (FILL, 0, 8), (COPY, 1, 7),
    (MIGRATION, 0, 9),
)  # fmt: skip


def random_tables(random: np.random.Generator, count: int = 400) -> SimpleNamespace:
    """Return calls of several threads and processes and the work that they launch, before or after they end."""
    scale = int(random.choice([20, 1000, 40_000]))
    start = np.cumsum(random.integers(0, scale, count))
    if random.random() < 0.3:
        random.shuffle(start)
    duration = random.integers(0, 3 * scale, count).astype(np.uint32)
    variants = np.stack([np.zeros(5, np.int64), np.array(_TIDS), np.zeros(5, np.int64)], axis=1)
    calls = Calls(start, duration, random.integers(0, random.integers(1, 6), count).astype(np.int16), variants, 0)
    launch = np.where(random.random(count) < 0.9, random.permutation(count), -1).astype(np.int32)
    began = np.where(launch >= 0, start[launch], start) + random.integers(-scale, 4 * scale, count)
    late = random.random(count) < random.choice([0, 0.1])
    order = np.argsort(late, kind="stable") if random.random() < 0.3 else np.lexsort((began, late))
    kernels, others = int((~late).sum()), int(late.sum())
    took = random.integers(0, scale, count)
    if random.random() < 0.2:
        took[0] += 1 << 33
    variant = np.where(np.arange(count) < kernels, random.integers(0, 4, count), random.integers(4, len(_KINDS), count))
    variants = np.array([[kind, _PIDS[0], device, 0, stream, 0, 0, 0] for kind, device, stream in _KINDS])
    work = Work(
        began[order], took.astype(np.int64 if took.max() >> 32 else np.uint32), variant.astype(np.int16),
        random.integers(0, 99, others), random.integers(0, 3, others), np.zeros(others, np.int8), np.zeros(0, np.int64),
        variants, kernels, 0, 0,
    )  # fmt: skip
    names = ("overheads", "collections", "compiles", "waits")
    held = {name: _held(random, scale, count) for name in names}
    return SimpleNamespace(calls=calls, work=work, launch=launch[order], ranges=None, loads=None, **held)


def _held(random: np.random.Generator, scale: int, count: int) -> pd.DataFrame:
    """Return times in which something other than a call held up a thread."""
    begun = random.integers(0, scale * count, 20)
    return pd.DataFrame({"start_ns": begun, "end_ns": begun + scale, "global_tid": random.choice(_TIDS, 20)})
