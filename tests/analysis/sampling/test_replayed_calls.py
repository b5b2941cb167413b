"""Short calls are judged by their replays only where every one of a shape has its replay."""

import pytest
from msgspec.structs import replace

from nsysprof.analysis.sampling.replayed_calls import (
    POLICY_NS,
    leave_launching,
    replayed_shapes,
    say_replayed,
    use_replays,
)
from nsysprof.analysis.sampling.tune import Choice
from nsysprof.attention.shape import Case
from nsysprof.results.samples import OK, Block

CELLS = [Case(backend, seq=77) for backend in ("auto", "flash", "math")]


def block(cell, launch_share, graph_ns=(), status=OK):
    """Return a block of three calls; offsets and throttled samples belong to the times of calls."""
    return Block(
        cell, 0, 0, status, values_ns=(150, 151, 152), offsets_ns=(0, 1, 2), throttled=(1,), graph_ns=graph_ns,
        launch_share=launch_share,
    )  # fmt: skip


def test_times_of_short_calls_are_those_of_their_replays():
    blocks = [block(0, 0.96, (20, 21, 22)), block(1, 0.6, (30, 31, 32)), block(2, 0.3)]
    first, second, third = use_replays(CELLS, blocks)
    assert (first.values_ns, first.offsets_ns, first.throttled) == ((20, 21, 22), (), ())
    assert second.values_ns == (30, 31, 32)  # near the threshold: both have work of the GPU
    assert third == blocks[2]
    assert replayed_shapes(CELLS, blocks) == {CELLS[0].shape}
    assert say_replayed(replayed_shapes(CELLS, blocks))[0].startswith("Calls of 1 shape are mostly launching")


@pytest.mark.parametrize(
    "blocks",
    [
        [block(0, 0.96), block(1, 0.96, (30, 31, 32))],  # torch's own choice cannot be captured
        [block(0, 0.96, (20, 21, 22)), block(0, 0.97), block(1, 0.97, (30, 31, 32))],
        [block(0, 0.6, (20, 21, 22)), block(1, 0.6, (30, 31, 32))],  # no call is mostly launching
        [block(0, None), block(1, None)],  # a CPU
    ],
)
def test_otherwise_they_are_left_as_they_are(blocks):
    assert use_replays(CELLS, blocks) == blocks
    assert say_replayed(replayed_shapes(CELLS, blocks)) == ()


def test_a_backend_that_failed_does_not_count():
    failed = replace(block(2, 0.99, status="failed"), values_ns=())
    blocks = [block(0, 0.96, (20, 21, 22)), failed]
    assert use_replays(CELLS, blocks)[0].values_ns == (20, 21, 22)


@pytest.mark.parametrize(
    ("own_us", "other_us", "flush", "stays"),
    [(40, 45, True, False), (40, 38, True, False), (40, 30, True, True), (40, 30, False, True), (40, 45, False, False)],
)
def test_a_backend_that_costs_the_cpu_more_is_left_to_torch(own_us, other_us, flush, stays):
    blocks = [
        replace(block(cell, 0.96, (20, 21, 22)), **{"other_caches_ns" if flush else "values_ns": (time * 1000,) * 3})
        for cell, time in enumerate((own_us, other_us))
    ]
    chosen = Choice(CELLS[0].shape, "flash", "winner", 20.0, 1.78)
    (choice,), said = leave_launching([chosen], CELLS, blocks, flush=flush)
    assert (choice.backend, choice.why) == (("flash", "winner") if stays else ("auto", "launching"))
    assert bool(said) is not stays
    if said:
        assert said[0].startswith("1 shape is left to torch (flash 1.78 times as fast by the time of the GPU): the CPU")
        assert f"{POLICY_NS / 1000:g} us" in said[0]


def test_calls_that_are_work_of_the_gpu_keep_their_choice():
    blocks = [block(0, 0.3), block(1, 0.3)]
    chosen = Choice(CELLS[0].shape, "flash", "winner", 20.0, 1.78)
    assert leave_launching([chosen], CELLS, blocks) == ([chosen], ())
