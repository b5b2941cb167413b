"""Replay a job with another communication: fewer or larger collectives, a faster link, and more ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.replay.replay import ExecutionGraph, replay
from nsysprof.errors import UsageError
from nsysprof.ranks.job_facts import REDUCTIONS
from nsysprof.ranks.replay.joined_graph import FAR_NS, RankGraph, SharedCollectives, join_graphs
from nsysprof.trace.schema import Bools, Floats, Int64s

# A collective that is left out saves this share of the host's time for it, beyond the time of a usual launch: the
# estimate, and the least. On two H200s, trainings saved 6.7 and 20.2 ms a step, and the estimates are 7.6 and 22.7 ms.
_OF_HOST, _LEAST_OF_HOST = 1.0, 0.5
MIB = 1 << 20
# A collective takes at least about this long (ns), where messages of one size do not show it.
_LATENCY_NS = 15_000


@dataclass(frozen=True)
class Saving:
    """How long a step takes with a change, with bounds (ns)."""

    step_ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class ReplayedJob:
    """The last common steps of all ranks of a job.

    transfers: of each shared collective `kind`, `bytes`, `pass`, `is_needed`, `stream`, `transfer_ns`, and the times
        that depend on its size and that do not, `moving_ns` and `latency_ns`.
    """

    ranks: Sequence[RankGraph]
    shared: SharedCollectives

    @property
    def count(self) -> int:
        """Return how many steps a replay lasts."""
        return min(len(rank.step_calls) for rank in self.ranks) - 2

    @cached_property
    def transfers(self) -> pd.DataFrame:
        """Return what is known of each shared collective."""
        first = self.ranks[0].collectives.iloc[self.shared.row[0]].reset_index(drop=True)
        table: pd.DataFrame = first.assign(transfer_ns=self.shared.transfer_ns, latency_ns=0.0)
        for _, group in table.groupby("kind"):
            latency = _fit_latency(group["bytes"].to_numpy(), group["transfer_ns"].to_numpy())
            table.loc[group.index, "latency_ns"] = np.minimum(latency, group["transfer_ns"])
        table["moving_ns"] = table["transfer_ns"] - table["latency_ns"]
        return table

    @cached_property
    def recorded_ns(self) -> float:
        """Return how long the replayed steps took, as a mean."""
        ends = [
            rank.steps.bounds_ns[[-1 - self.count, -1]] + offset
            for rank, offset in zip(self.ranks, self.shared.offset_ns.tolist(), strict=True)
        ]
        return float(np.diff(np.max(ends, axis=0))[0]) / self.count

    @cached_property
    def replayed_ns(self) -> float:
        """Return how long a step of the unchanged replay takes."""
        return self._replay([rank.graph for rank in self.ranks], self.shared.transfer_ns, self._all)

    @property
    def _all(self) -> Int64s:
        return np.arange(self.shared.row.shape[1])

    def _replay(self, graphs: Sequence[ExecutionGraph], transfer_ns: Int64s, joined: Int64s) -> float:
        return replay(join_graphs(self.ranks, graphs, self.shared, transfer_ns, joined)) / self.count

    def without(self, is_kept: Bools, transfer_ns: Int64s) -> Saving:
        """Return how long a step would take with some of the collectives only.

        As for one trace, the saving is without the profiler, and the saving with it is one of the bounds.

        transfer_ns: how long each collective takes then.
        """
        traced = [rank.graph for rank in self.ranks]
        bare = [replace(rank.graph, gap_ns=rank.bare_gap_ns, cost_ns=rank.bare_cost_ns) for rank in self.ranks]
        base = self._replay(bare, self.shared.transfer_ns, self._all)
        kept = np.flatnonzero(is_kept)

        def saved(graphs: Sequence[ExecutionGraph], unchanged: float, of_host: float) -> float:
            changed = [
                without_collectives(rank, graph, row[~is_kept], of_host)
                for rank, graph, row in zip(self.ranks, graphs, self.shared.row, strict=True)
            ]
            return unchanged - self._replay(changed, transfer_ns, kept)

        best = saved(bare, base, _OF_HOST)
        others = (saved(traced, self.replayed_ns, _OF_HOST), saved(bare, base, _LEAST_OF_HOST))
        low, high = min(best, *others), max(best, *others)
        return Saving(self.replayed_ns - best, self.replayed_ns - high, self.replayed_ns - low)


def _fit_latency(size: Floats, transfer_ns: Int64s) -> float:
    """Return what of the time of a collective does not depend on its size (ns)."""
    least = float(transfer_ns.min())
    medians = pd.Series(transfer_ns).groupby(size).median()
    if len(medians) < 2 or np.isnan(size).any():
        return min(_LATENCY_NS, least)
    slope, latency = np.polyfit(medians.index.to_numpy(float), medians.to_numpy(float), 1)
    return float(np.clip(latency, 0, least)) if slope > 0 else least


@dataclass(frozen=True)
class CommunicationChange:
    """How a job communicates.

    no_sync: whether gradients are reduced only before the optimizer steps.
    bucket_bytes: neighbouring messages are sent together up to this size; 0 sends each by itself. Reductions are sent
        with the last of them, and parameters are gathered with the first.
    link_scale: how many times as fast the link is.
    halves_fp32: whether what is added up in fp32 is sent in 16 bits instead.
    ranks: on how many ranks the job runs, with the same work on each; 0 for as many as it has.
    """

    no_sync: bool = False
    bucket_bytes: int = 0
    link_scale: float = 1.0
    halves_fp32: bool = False
    ranks: int = 0


def replay_change(job: ReplayedJob, change: CommunicationChange) -> Saving:
    """Return how long a step would take with another communication.

    More ranks are a projection by the cost model of a ring: each rank sends (n - 1) / n of a message once or twice.
    What does not depend on the size grows as in a tree; at the bounds it does not grow, or grows as in a ring.

    Raises UsageError for a change that is none, or about which the traces do not say enough.
    """
    table = job.transfers
    is_kept = _needed(job) if change.no_sync else np.ones(len(table), dtype=bool)
    moving = table["moving_ns"].to_numpy(dtype=np.float64)
    if change.halves_fp32:
        moving = np.where(table["is_fp32"], moving / 2, moving)
    if change.bucket_bytes:
        is_first, moving = _fill_buckets(table[is_kept], change.bucket_bytes, moving)
        is_kept[is_kept] = is_first
    now, then = len(job.ranks), change.ranks or len(job.ranks)
    moving = moving / change.link_scale * ((then - 1) / then) / ((now - 1) / now)
    latency = table["latency_ns"].to_numpy(dtype=np.float64)
    growths = dict.fromkeys((np.log2(then) / np.log2(now), 1.0, (then - 1) / (now - 1)))
    # A faster link may also shorten what does not depend on the size.
    latencies = [latency * growth for growth in growths] + [latency / change.link_scale] * (change.link_scale != 1)
    savings = [job.without(is_kept, (moving + fixed).astype(np.int64)) for fixed in latencies]
    low, high = min(saving.low_ns for saving in savings), max(saving.high_ns for saving in savings)
    return Saving(savings[0].step_ns, low, high)


def _needed(job: ReplayedJob) -> Bools:
    """Return which collectives are left where gradients are reduced only before the optimizer steps."""
    if not all(rank.has_passes for rank in job.ranks):
        raise UsageError(
            "It is unknown which reductions the optimizer needs: no kernel runs once in each pass.",
            "Record several steps with their optimizer, and all of their kernels.",
        )
    needed = job.transfers["is_needed"].to_numpy(dtype=bool)
    if needed.all():
        raise UsageError(
            "--no-sync would change nothing: gradients are not reduced more often than the optimizer steps.",
            "Leave it out. nsysprof analyze of the folder says what its communication costs.",
        )
    return needed


def _fill_buckets(table: pd.DataFrame, bucket_bytes: int, moving_ns: Floats) -> tuple[Bools, Floats]:
    """Return which of the collectives in a table stand for their bucket, and the times of all with the buckets' own."""
    if table["bytes"].isna().any():
        raise UsageError(
            "The sizes of this job's messages are unknown.", "Record with nsysprof capture, which records NCCL's sizes."
        )
    bucket = _bucket(table, bucket_bytes)
    is_last, is_first = ~bucket.duplicated(keep="last"), ~bucket.duplicated()
    stands = is_last.where(table["kind"].isin(REDUCTIONS), is_first).to_numpy(dtype=bool)
    if stands.all():
        raise UsageError(
            f"No two neighbouring messages fit into {bucket_bytes / MIB:g} MiB: there is nothing to send together.",
            "A replay can join messages and cannot split them: give a larger size.",
        )
    filled = moving_ns.copy()
    filled[table.index] = table.groupby(bucket)["moving_ns"].transform("sum")
    return stands, filled


def _bucket(table: pd.DataFrame, most_bytes: int) -> pd.Series[int]:
    """Return the bucket of each collective: neighbours of a stream, a kind and a pass, up to so many bytes."""
    bucket, next_bucket = np.zeros(len(table), dtype=np.int64), 0
    for _, group in table.groupby(["sequence", "pass"], sort=False):
        filled = most_bytes + 1.0
        for at, size in zip(group.index, group["bytes"], strict=True):
            filled += size
            if filled > most_bytes:
                next_bucket, filled = next_bucket + 1, size
            bucket[at] = next_bucket
    return pd.Series(bucket, index=table.index)


def without_collectives(rank: RankGraph, graph: ExecutionGraph, rows: Int64s, of_host: float) -> ExecutionGraph:
    """Return the graph of a rank without some of its collectives.

    What runs on their streams only to prepare them is left out with them, and what the host does for them.

    rows: rows of rank.collectives.
    of_host: the share of the host's time for them, beyond a usual launch, that is left out.
    """
    works = rank.collectives["work"].to_numpy()
    segment_of = rank.segment[rank.call[works]]
    count = len(rank.segment_ns)
    held = np.bincount(segment_of, minlength=count)
    gone = np.bincount(segment_of[rows], minlength=count)
    share = np.divide(gone, held, out=np.zeros(count), where=held > 0)
    more = np.maximum(rank.segment_ns - rank.usual_ns, 0) / np.maximum(rank.segment_ns, 1)
    kept = (1 - of_host * share * more)[rank.segment]
    dropped = np.zeros(len(graph.duration_ns), dtype=bool)
    dropped[works[rows]] = True
    dropped |= _prepares(rank, rows, share == 1)
    return replace(
        graph,
        gap_ns=np.where(graph.gap_ns > 0, graph.gap_ns * kept, graph.gap_ns).astype(np.int64),
        cost_ns=(graph.cost_ns * np.where(rank.issues_main, 1.0, kept)).astype(np.int64),
        duration_ns=np.where(dropped, 0, graph.duration_ns),
        issue_ns=np.where(dropped, -FAR_NS, graph.issue_ns),
        stream_ns=np.where(dropped, 0, graph.stream_ns),
        other=np.where(dropped, -1, graph.other),
        engine=np.where(dropped, -1, graph.engine),
    )


def _prepares(rank: RankGraph, rows: Int64s, is_empty: Bools) -> Bools:
    """Return the work that is issued beside some collectives, to their streams or to others than the computation's.

    is_empty: which segments hold no other collective.
    """
    works = rank.collectives["work"].to_numpy()[rows]
    segments = np.zeros(len(rank.segment_ns), dtype=bool)
    segments[rank.segment[rank.call[works]]] = True
    beside: Bools = (segments & is_empty)[rank.segment[rank.call]] & ~rank.issues_main[rank.call]
    return beside
