"""Define the columns of the files in an analysis folder of many traces."""

from __future__ import annotations

from typing import Any

from nsysprof.results.column_registry.analysis_columns import (
    CATEGORY,
    DOMAIN,
    ENERGY,
    FINDINGS,
    NAME,
    RANGE,
    SHORT_NAME,
    STYLE,
)
from nsysprof.results.column_registry.column import FileColumn, TableFile, flag, integer, number, text

_UNKNOWN: dict[str, Any] = {"nullable": True}
_RANK = integer("rank", "", "Number of the rank.", **_UNKNOWN)

PER_RANK = TableFile("ranks", "per_rank.csv", "One row per trace, in order of rank.", (
    _RANK,
    text("source", "Name of the input."),
    text("reason", "Why the trace could not be read; else empty.", **_UNKNOWN),
    text("rank_from", "Where the rank comes from: manifest, environment, range, file name or order.", **_UNKNOWN),
    integer("world_size", "", "Number of ranks of the job.", **_UNKNOWN),
    text("host", "Token that is the same for traces of one host.", **_UNKNOWN),
    text("sha256", "SHA-256 of the trace.", **_UNKNOWN),
    integer("bytes", "B", "Size of the trace.", **_UNKNOWN),
    text("nsys_version", "Version of nsys that recorded it.", **_UNKNOWN),
    text("gpus", "Names of the GPUs, separated by semicolons.", **_UNKNOWN),
    integer("session_start_utc_ns", "ns", "Start of the session, since 1970 in UTC.", **_UNKNOWN),
    integer("first_ns", "ns", "Start of the first kernel since the start of the session.", **_UNKNOWN),
    integer("last_ns", "ns", "End of the last kernel since the start of the session.", **_UNKNOWN),
    integer("span_ns", "ns", "Time from the first kernel to the last.", **_UNKNOWN),
    integer("gpu_busy_ns", "ns", "Union of kernels, copies and fills on each device, added over devices.", **_UNKNOWN),
    integer("idle_ns", "ns", "Time between the first and the last kernel of each device in which it did nothing.",
            **_UNKNOWN),
    integer("compute_ns", "ns", "Union of the kernels that are not NCCL's, added over devices.", **_UNKNOWN),
    integer("comm_ns", "ns", "Union of NCCL's kernels, added over devices.", **_UNKNOWN),
    integer("overlap_ns", "ns", "Time in which both ran.", **_UNKNOWN),
    integer("exposed_comm_ns", "ns", "Time in which NCCL's kernels ran and no other.", **_UNKNOWN),
    integer("kernel_count", "", "Number of kernels.", **_UNKNOWN),
    integer("kernel_total_ns", "ns", "Sum of the kernel durations.", **_UNKNOWN),
    integer("launch_count", "", "Number of launches.", **_UNKNOWN),
    integer("api_total_ns", "ns", "Sum of the durations of API calls.", **_UNKNOWN),
    integer("memcpy_bytes", "B", "Bytes copied.", **_UNKNOWN),
    integer("memset_bytes", "B", "Bytes set.", **_UNKNOWN),
    integer("peak_vram_bytes", "B", "Most device memory in use.", **_UNKNOWN),
    text("clock", "How the clock was aligned with the reference: `reference`, `utc` or `collectives`.", **_UNKNOWN),
    integer("clock_offset_ns", "ns", "Offset to add to its times to get those of the reference.", **_UNKNOWN),
    flag("is_straggler", "True for a rank that keeps the others waiting.", **_UNKNOWN),
    text("outlier", "The quantities in which the rank is far from the others; else empty.", **_UNKNOWN),
))  # fmt: skip
RANK_RANGES = TableFile("ranks", "rank_ranges.csv", "One row per rank and range.", (
    integer("rank", "", "Number of the rank."),
    RANGE, STYLE, DOMAIN,
    integer("instances", "", "How often the range was entered."),
    integer("wall_ns", "ns", "Sum of the durations of the instances."),
    integer("host_ns", "ns", "Wall time without the ranges nested in it."),
    integer("compute_ns", "ns", "Time of the computing kernels whose innermost range it is."),
    integer("comm_ns", "ns", "Time of the NCCL kernels whose innermost range it is."),
    integer("exposed_comm_ns", "ns", "Part of `comm_ns` in which no other kernel ran."),
    integer("kernel_count", "", "Number of kernels whose innermost range it is."),
))  # fmt: skip
STRAGGLERS = TableFile("ranks", "stragglers.csv", "One row per straggler and range in which it falls behind.", (
    integer("rank", "", "Number of the rank."),
    text("evidence", "`collectives` (it arrives last) or `own work` (it computes longer)."),
    integer("late_ns", "ns", "Time that the others' kernels waited for it."),
    number("late_pct", "%", "`late_ns` as a share of the time between the first and the last collective."),
    integer("exposed_late_ns", "ns", "Part of `late_ns`, at least, in which the others had nothing to compute.",
            **_UNKNOWN),
    number("exposed_late_pct", "%", "`exposed_late_ns` as a share of the time between the first and the last "
            "collective.", **_UNKNOWN),
    integer("last_in", "", "Number of collectives in which it arrived last.", **_UNKNOWN),
    integer("collectives", "", "Number of collectives that were compared.", **_UNKNOWN),
    integer("cost_ns", "ns", "How much less time the job would take if this rank were like the others, by a replay. "
            "It is unknown where no steps were found in the stretches of a long job.", **_UNKNOWN),
    integer("cost_low_ns", "ns", "Lower end of the 95 % interval of the cost.", **_UNKNOWN),
    integer("cost_high_ns", "ns", "Upper end of the 95 % interval of the cost.", **_UNKNOWN),
    number("cost_pct", "%", "The cost, of the time that was judged.", **_UNKNOWN),
    text("range", "Range in which it falls behind, or `(no range)`."),
    text("style", "Style of the range.", **_UNKNOWN),
    DOMAIN,
    text("where", "`GPU` or `host`: whose time exceeds the usual one.", **_UNKNOWN),
    integer("own_ns", "ns", "Its time in the range.", **_UNKNOWN),
    integer("typical_ns", "ns", "The usual rank's time in the range (the lower median).", **_UNKNOWN),
    integer("excess_ns", "ns", "The difference of the two.", **_UNKNOWN),
    number("excess_pct", "%", "The difference relative to the usual time.", **_UNKNOWN),
))  # fmt: skip
JOB_FINDINGS = TableFile("ranks", "findings.csv", "One row per finding of the job, the largest saving first. Savings "
                         "are those of the whole job: what a rank saves while others are slower does not count.", (
    *FINDINGS.columns,
    text("ranks", "The ranks that have it."),
))  # fmt: skip
COMMUNICATION = TableFile("ranks", "communication.csv", "One row per rank, range and kind of collective, as means over "
                          "the steady steps of the rank.", (
    integer("rank", "", "Number of the rank."),
    text("range", "Innermost range that launched them; empty where none did.", nullable=True),
    text("kind", "`AllReduce`, `AllGather`, `ReduceScatter`, `Broadcast`, `Reduce`, `SendRecv` or `other`."),
    text("library", "`NCCL`; empty for collectives of engines.", nullable=True),
    number("calls", "", "Collectives a step."),
    integer("message_bytes", "B", "Bytes of their messages a step, from NCCL's NVTX payloads; empty where a size is "
            "unknown.", **_UNKNOWN),
    number("bus_bytes_per_s", "B/s", "Median bus bandwidth, as nccl-tests defines it; empty where sizes are "
           "unknown.", **_UNKNOWN),
    number("share_of_link_pct", "%", "The bus bandwidth as a share of what a link between two GPUs carries in "
           "one direction: as `capture --ceilings` measured it, else NVLink by the datasheet; empty where ranks may be "
           "on several hosts, or the link is unknown.", **_UNKNOWN),
    integer("hidden_ns", "ns", "Time a step in which other kernels ran meanwhile."),
    integer("exposed_ns", "ns", "Time a step in which no other kernel ran."),
))  # fmt: skip
_RANKS = integer("ranks", "", "Number of ranks that have it.", **_UNKNOWN)
_INSTANCES = (
    integer("instances", "", "Number of instances of all ranks."),
    integer("total_ns", "ns", "Sum of all durations."),
    number("avg_ns", "ns", "Mean duration."),
    integer("min_ns", "ns", "Shortest duration."),
    *(number(f"{name}_ns", "ns", f"{title} of the durations of all instances.") for name, title in (
        ("p05", "5th percentile"), ("q25", "Lower quartile"), ("med", "Median"), ("q75", "Upper quartile"),
        ("p95", "95th percentile"), ("p99", "99th percentile"),
    )),
    integer("max_ns", "ns", "Longest duration."),
    number("stddev_ns", "ns", "Sample standard deviation of the durations."),
    number("error_pct", "%", "Bound on the error of the quantiles; 0 where they are exact."),
)  # fmt: skip
_OF_RANKS = (
    integer("rank_least_ns", "ns", "Smallest total of a rank.", **_UNKNOWN),
    number("rank_med_ns", "ns", "Median of the ranks' totals.", **_UNKNOWN),
    integer("rank_most_ns", "ns", "Largest total of a rank.", **_UNKNOWN),
    integer("slowest_rank", "", "Rank with the largest total.", **_UNKNOWN),
    number("imbalance_pct", "%", "How far the largest total is above the mean of the ranks' totals.", **_UNKNOWN),
)


def _over_ranks(name: str, row: str, *columns: FileColumn) -> TableFile:
    return TableFile("ranks", name, row, (*columns, _RANKS, *_INSTANCES, *_OF_RANKS))


RANGES_OVER_RANKS = _over_ranks(
    "ranges_over_ranks.csv", "One row per range; its durations are wall times.", RANGE, STYLE, DOMAIN
)
KERNELS_OVER_RANKS = _over_ranks(
    "kernels_over_ranks.csv", "One row per kernel name.", NAME, SHORT_NAME, CATEGORY,
    number("share_pct", "%", "Share of the time of all kernels and whole graphs."),
)  # fmt: skip
RANGE_KERNELS_OVER_RANKS = TableFile(
    "ranks", "range_kernels_over_ranks.csv", "One row per range and kernel name.",
    (RANGE, STYLE, DOMAIN, NAME, SHORT_NAME, CATEGORY, *_INSTANCES),
)  # fmt: skip
API_OVER_RANKS = _over_ranks(
    "api_over_ranks.csv", "One row per CUDA API function.", text("name", "Name of the function.")
)
MEMOPS_OVER_RANKS = _over_ranks(
    "memops_over_ranks.csv", "One row per kind of copy or fill.", text("operation", "Name as in `nsys stats`."),
    integer("total_bytes", "B", "Sum of the sizes."),
)  # fmt: skip
RANK_ENERGY = TableFile(
    "ranks", "rank_energy.csv", "One row per rank, range and GPU, of a job with `--power`; without `range`, from the "
    "first to the last work of the rank. Ranks that share a board each have all of its energy.", (
    integer("rank", "", "Number of the rank."),
    text("gpu", "UUID of the board."),
    *ENERGY.columns,
))  # fmt: skip
ENERGY_OVER_RANKS = TableFile("ranks", "energy_over_ranks.csv", "One row per range, of a job with `--power`; without "
                              "`range`, from the first to the last work of each rank.", (
    *ENERGY.columns[:3],
    integer("ranks", "", "Number of ranks that have the range."),
    integer("boards", "", "Number of their boards."),
    integer("instances", "", "Number of instances after the warm-up that are included, of all ranks."),
    number("energy_j", "J", "Energy of all boards together while work of the range ran.", **_UNKNOWN),
    number("error_j", "J", "Sum of the bounds on the errors of the boards.", **_UNKNOWN),
    number("board_least_w", "W", "Least mean power of a board.", **_UNKNOWN),
    number("board_most_w", "W", "Largest mean power of a board.", **_UNKNOWN),
    integer("most_rank", "", "Rank whose board has the largest mean power.", **_UNKNOWN),
    text("reason", "Why the energy is unknown; empty where it is known."),
))  # fmt: skip
FILES = (
    JOB_FINDINGS, COMMUNICATION, PER_RANK, RANK_RANGES, STRAGGLERS, RANGES_OVER_RANKS, KERNELS_OVER_RANKS,
    RANGE_KERNELS_OVER_RANKS, API_OVER_RANKS,
    MEMOPS_OVER_RANKS, ENERGY_OVER_RANKS, RANK_ENERGY,
)  # fmt: skip
