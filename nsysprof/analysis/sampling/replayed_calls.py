"""Take the times of CUDA graphs for calls that are mostly launching, so that a search compares work of the GPU."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nsysprof.attention.shape import Case, Shape
from nsysprof.results.roof import CAPTURED_SHARE, LAUNCH_BOUND_SHARE
from nsysprof.results.samples import OK, Block

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


def say_replayed(shapes: frozenset[Shape]) -> tuple[str, ...]:
    """Return a sentence about the shapes that were judged by replays, or nothing."""
    if not shapes:
        return ()
    count = "1 shape" if len(shapes) == 1 else f"{len(shapes)} shapes"
    return (
        f"Calls of {count} are mostly launching: they were judged by the time of their work on the GPU, replayed as a "
        "CUDA graph. A program that waits for its CPU gains nothing from less of it.",
    )
