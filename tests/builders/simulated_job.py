"""Jobs of several ranks whose truth is known, as what the ranks' traces would say of their collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysprof.ranks.collective_waits.collectives import Arrivals, Collectives, Matched, choose_kept
from nsysprof.trace.schema import NULL

LAUNCH_NS, TRANSFER_NS, RESUME_NS = 5_000, 200_000, 10_000


@dataclass(frozen=True)
class SimulatedJob:
    """A training in steps of some collectives each; before each collective a host prepares and a GPU computes."""

    ranks: int
    steps: int = 40
    collectives: int = 4
    # Time of the host and of the GPU before each collective (ns), and the standard deviation of both, relative.
    host_ns: float = 300_000.0
    gpu_ns: float = 2_000_000.0
    jitter: float = 0.02
    # How much of its deviation a rank keeps from one step to the next.
    rho: float = 0.0
    # Whether hosts wait for their GPUs after each step.
    waits: bool = True
    # How much later each rank's host begins, and how much more host and GPU time it takes in each step.
    lag_ns: Sequence[float] = ()
    slow_host_ns: Sequence[float] = ()
    slow_gpu_ns: Sequence[float] = ()
    # How much more GPU time the slower rank of the moment takes in each step, and for how many steps on average a rank
    # is the slower one; with 1, ranks take turns step by step.
    in_turn_ns: float = 0.0
    in_turn_steps: float = 1.0

    def run(self, seed: object) -> tuple[Arrivals, float]:
        """Return what the traces say, and how long the job takes from the first collective's end to the last's (ns)."""
        rng = np.random.default_rng(seed)  # type: ignore[arg-type]
        count = self.steps * self.collectives
        host = np.array([self._of(self.lag_ns, rank) for rank in range(self.ranks)])
        gpu, last_end = host.copy(), 0.0
        waited, wait_end, computed = np.zeros(self.ranks), np.full(self.ranks, float(NULL)), np.zeros(self.ranks)
        wait_computed, started, started_computed = computed.copy(), np.full(self.ranks, float(NULL)), computed.copy()
        columns: dict[str, list[np.ndarray]] = {name: [] for name in _COLUMNS}
        deviation, slower = rng.normal(0, self.jitter, (2, self.ranks)), self._slower(seed)
        for number in range(count):
            if number % self.collectives == 0:
                fresh = rng.normal(0, self.jitter, (2, self.ranks))
                deviation = self.rho * deviation + np.sqrt(1 - self.rho**2) * fresh
            is_first = number % self.collectives == 0
            slow_host = np.array([self._of(self.slow_host_ns, rank) * is_first for rank in range(self.ranks)])
            slow_gpu = np.array([self._of(self.slow_gpu_ns, rank) * is_first for rank in range(self.ranks)])
            slow_gpu[slower[number // self.collectives]] += self.in_turn_ns * is_first
            issued = host + LAUNCH_NS
            idle = issued > gpu
            started = np.where(idle, issued, started)
            started_computed = np.where(idle, computed, started_computed)
            busy = self.gpu_ns * (1 + deviation[0]) + slow_gpu
            gpu = np.maximum(gpu, issued) + busy
            computed = computed + busy
            host = host + self.host_ns * (1 + deviation[1]) + slow_host
            begin = np.maximum(np.maximum(host + LAUNCH_NS, gpu), last_end)
            end = float(begin.max()) + TRANSFER_NS
            values = (begin, np.full(self.ranks, end), host, waited, wait_end, wait_computed, gpu, computed,
                      np.full(self.ranks, float(NULL)), np.zeros(self.ranks), started, started_computed)  # fmt: skip
            for name, value in zip(_COLUMNS, values, strict=True):
                columns[name].append(value.copy())
            last_end = end
            if self.waits and number % self.collectives == self.collectives - 1:
                waited = waited + (end + RESUME_NS - host)
                host = np.full(self.ranks, end + RESUME_NS)
                wait_end, wait_computed = host.copy(), computed.copy()
        whole = {name: np.array(each).T.round().astype(np.int64) for name, each in columns.items()}
        return self._arrivals(whole, count), float(whole["end_ns"][0, -1] - whole["end_ns"][0, 0])

    def _slower(self, seed: object) -> np.ndarray:
        """Return for each step the rank that is the slower one of the moment."""
        rng = np.random.default_rng(seed)  # type: ignore[arg-type]
        ends = rng.random(self.steps) < 1 / self.in_turn_steps
        return (np.cumsum(ends) + rng.integers(self.ranks)) % self.ranks

    @staticmethod
    def _of(values: Sequence[float], rank: int) -> float:
        return values[rank] if rank < len(values) else 0.0

    def _arrivals(self, columns: dict[str, np.ndarray], count: int) -> Arrivals:
        kept = np.array(choose_kept(count), dtype=np.int64)
        columns = {name: values[:, kept] for name, values in columns.items()}
        rows = np.arange(len(kept), dtype=np.int64)
        matched = [
            Matched(
                Collectives(
                    names=("ncclDevKernel_AllReduce#0",), streams=np.zeros(1, np.int64),
                    counts=np.array([count]), of=np.zeros(len(kept), np.int64),
                    ordinal=kept, exposed_ns=np.zeros(len(kept), np.int64),
                    **{name: values[rank] for name, values in columns.items()},
                ), rows, 0,
            )
            for rank in range(self.ranks)
        ]  # fmt: skip
        begin, end = columns["start_ns"], columns["end_ns"]
        weight = np.full(len(kept), count / len(kept))
        return Arrivals(list(range(self.ranks)), begin, end - begin, end - begin, weight, tuple(matched))


_COLUMNS = (
    "start_ns", "end_ns", "launch_ns", "waited_ns", "wait_end_ns", "wait_computed_ns", "done_ns", "computed_ns",
    "resumed_ns", "resumed_computed_ns", "started_ns", "started_computed_ns",
)  # fmt: skip
