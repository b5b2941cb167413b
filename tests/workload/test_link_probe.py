"""What links carry is the best of several rounds of copies; which links a machine has."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from nsysprof.workload.link_probe import list_links, main, measure_link


def test_the_rate_is_the_best_round_within_the_time() -> None:
    now, rounds = [0.0], iter([9.0, 0.4, 0.2, 0.5, 0.4, 0.4])

    def copies(_count: int) -> None:
        now[0] += next(rounds)

    # Rounds of four copies of 100 bytes; the first copy sets up the link and does not count.
    assert measure_link(copies, 100, 1.2, lambda: now[0]) == pytest.approx(4 * 100 / 0.2)
    assert next(rounds) == 0.4, "it ends when its time is over"


def test_a_copy_within_memory_has_a_plausible_rate() -> None:
    source = np.ones(32 << 20, dtype=np.uint8)
    target = np.zeros_like(source)

    def copies(count: int) -> None:
        for _ in range(count):
            np.copyto(target, source)

    rate = measure_link(copies, source.nbytes, 0.1, time.perf_counter)
    assert 1e8 < rate < 1e12


def test_each_gpu_is_measured_with_the_next_one() -> None:
    assert list_links(0) == []
    assert list_links(1) == [("cpu", "cuda:0"), ("cuda:0", "cpu")]
    assert list_links(3)[2:] == [("cuda:0", "cuda:1"), ("cuda:1", "cuda:2"), ("cuda:2", "cuda:0")]


def test_without_a_gpu_there_is_nothing_to_measure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main() == 0
    assert json.loads(capsys.readouterr().out) == []
