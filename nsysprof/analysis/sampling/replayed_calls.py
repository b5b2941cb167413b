"""Take the times of CUDA graphs for calls that are mostly launching, so that a search compares work of the GPU."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from msgspec.structs import replace

from nsysprof.analysis.sampling.tune import AUTO, LAUNCHING, Choice
from nsysprof.attention.shape import Case, Shape
from nsysprof.results.roof import LAUNCH_BOUND_SHARE
from nsysprof.results.samples import CAPTURED_SHARE, OK, Block

METHOD = (
    f"A call of which launching takes {100 * CAPTURED_SHARE:.0f} % or more is also captured into a CUDA graph, forward "
    "and backward as they are, and the graph is replayed. Where a backend of a shape is launching for "
    f"{100 * LAUNCH_BOUND_SHARE:.0f} % of its call or more, and every such call could be captured, the times of the "
    "replays decide: what the CPU takes to launch varies from process to process."
)


def replayed_shapes(cells: Sequence[Case], blocks: Sequence[Block]) -> frozenset[Shape]:
    """Return the shapes whose times can be those of replays.

    At least one backend is mostly launching, and no block that is lacks its replay: launching would be compared with
    work of the GPU.
    """
    has_replay: dict[Shape, bool] = {}
    for block in blocks:
        if block.status != OK or not block.values_ns:
            continue
        shape = cells[block.cell].shape
        if is_short(block):
            has_replay[shape] = has_replay.get(shape, True) and bool(block.graph_ns)
    return frozenset(shape for shape, whole in has_replay.items() if whole)


def is_short(block: Block) -> bool:
    """Return whether launching takes most of a block's calls."""
    return block.launch_share is not None and block.launch_share >= LAUNCH_BOUND_SHARE


def use_replays(cells: Sequence[Case], blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks in which the times of short calls are those of their replays, by shape."""
    shapes = replayed_shapes(cells, blocks)
    return [
        replace(block, values_ns=block.graph_ns, offsets_ns=(), throttled=())
        if block.graph_ns and cells[block.cell].shape in shapes
        else block
        for block in blocks
    ]


# What a policy adds to a call of the CPU (ns): the most that docs/policy.md has where a GPU is idle, and a half more.
POLICY_NS = 3_000


def leave_launching(
    choices: Sequence[Choice], cells: Sequence[Case], blocks: Sequence[Block], *, flush: bool = True
) -> tuple[list[Choice], tuple[str, ...]]:
    """Return the choices without those that would cost a program time, and a sentence about them.

    Where launching is most of a call, less work of the GPU saves nothing. There, a backend stays chosen only if a call
    of it from end to end, with what a policy adds, was faster than one of torch's own choice.

    flush: whether the blocks' own times are those of emptied caches.
    """
    shapes, warm = replayed_shapes(cells, blocks), _warm_medians(cells, blocks, flush=flush)
    kept, left = [], []
    for choice in choices:
        own, other = (warm.get((choice.shape, name)) for name in (AUTO, choice.backend))
        gains = own is not None and other is not None and other + POLICY_NS < own
        if choice.backend == AUTO or choice.shape not in shapes or gains:
            kept.append(choice)
        else:
            left.append(choice)
            kept.append(dataclasses.replace(choice, backend=AUTO, why=LAUNCHING))
    if not left:
        return kept, ()
    faster = [f"{choice.backend} {choice.over_auto:.2f} times" for choice in left if choice.over_auto is not None]
    by_gpu = f" ({', '.join(faster[:3])} as fast by the time of the GPU)" if faster else ""
    count = "1 shape is" if len(left) == 1 else f"{len(left)} shapes are"
    return kept, (
        f"{count} left to torch{by_gpu}: the CPU is the bottleneck of their calls, and another backend with a policy "
        f"around it, which adds about {POLICY_NS / 1000:g} us, takes it no less time. CUDA graphs would use them.",
    )


def _warm_medians(cells: Sequence[Case], blocks: Sequence[Block], *, flush: bool) -> dict[tuple[Shape, str], float]:
    """Return the median time of a call with warm caches, launching included, by shape and backend (ns)."""
    times: dict[tuple[Shape, str], list[int]] = {}
    for block in blocks:
        if block.status == OK:
            case = cells[block.cell]
            times.setdefault((case.shape, case.backend), []).extend(block.other_caches_ns if flush else block.values_ns)
    return {key: statistics.median(values) for key, values in times.items() if values}


def say_replayed(shapes: frozenset[Shape]) -> tuple[str, ...]:
    """Return a sentence about the shapes that were judged by replays, or nothing."""
    if not shapes:
        return ()
    count = "1 shape" if len(shapes) == 1 else f"{len(shapes)} shapes"
    return (
        f"Calls of {count} are mostly launching: they were judged by the time of their work on the GPU, replayed as a "
        "CUDA graph. A program that waits for its CPU gains nothing from less of it.",
    )
