"""Blocks of made-up samples whose truth is known."""

import numpy as np

from nsysprof.results.samples import Block


def make_blocks(
    rng, count, *, median=100_000.0, between=0.0, within=0.01, samples=10, cell=0, processes=3, drift=0.0, **fields
):
    """Return `count` blocks of lognormal samples around `median` (ns).

    between, within: the relative spread of blocks, and of samples in a block.
    drift: the relative change from the first block to the last.
    """
    blocks = []
    for index in range(count):
        level = median * np.exp(rng.normal(0, between)) * (1 + drift * index / max(1, count - 1))
        values = level * np.exp(rng.normal(0, within, samples))
        blocks.append(
            Block(
                cell=cell,
                process=index * processes // count,
                round=index,
                status="ok",
                started_ns=1_000_000_000 * index,
                values_ns=tuple(int(value) for value in values),
                offsets_ns=tuple(range(0, samples * 1000, 1000)),
                **fields,
            )
        )
    return blocks


def process_turns(rng, median, *, process=0.005, block=0.005, processes=3, rounds=5):
    """Log medians by process and round, with relative deviations of processes and of blocks."""
    found = {}
    for number in range(processes):
        level = np.log(median) + rng.normal(0, process)
        found |= {(number, turn): float(level + rng.normal(0, block)) for turn in range(rounds)}
    return found
