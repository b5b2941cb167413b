"""Define the columns of files with a row per case or shape: of capture, bench and tune, and of ncu's counters."""

from __future__ import annotations

from typing import Any

from nsysprof.results.column_registry.column import FileColumn, TableFile, flag, integer, number, text

_UNKNOWN: dict[str, Any] = {"nullable": True}
_OF_SHAPE = {
    column.name: column
    for column in (
        integer("batch", "", "Batch size."),
        integer("heads", "", "Number of query heads."),
        integer("kv_heads", "", "Number of key and value heads."),
        integer("seq", "", "Sequence length."),
        integer("head_dim", "", "Size of a head."),
        text("dtype", "Data type: `fp16`, `bf16` or `fp32`."),
        flag("causal", "True for a causal mask."),
        text("pass", "`fwd`, `bwd` or `fwdbwd`."),
        integer("kv_seq", "", "Sequence length of k and v."),
        text(
            "mask",
            "`none`, or `bool`, `float` or `learned` and which of the axes batch, head, query and key the mask has. A "
            "`learned` mask needs a gradient. `window:LEFT:RIGHT` are the keys before and after its place that a query "
            "sees, or `all`.",
        ),
        text("layout", "Order of batch, head, length (s) and head size (d) in memory; + for other memory in between."),
        integer("head_dim_v", "", "Size of a head of v."),
        number("softcap", "", "Bound of the scores, x becoming softcap * tanh(x / softcap); 0 for none."),
        flag("sinks", "True where each head has a sink, a number that takes part in the softmax without a value."),
        text("kv_dtype", "`same` where k and v are stored in the data type of q, or `fp8`."),
        integer("page_size", "", "Keys in a page of a paged cache; 0 for keys that follow each other."),
    )
}
# Columns of shapes that came later stand at the end of each file.
_NEWER = ("head_dim_v", "softcap", "sinks", "kv_dtype", "page_size")
_BACKEND = text("backend", "Name of the attention backend.")
_REASON = text("reason", "Why the case failed, or why its traced run did; else empty.", **_UNKNOWN)


_BY_NAME = (
    number("cold_ns", "ns", "Cold GPU time: median between two events around a call, after the caches were emptied.",
           **_UNKNOWN),
    number("warm_ns", "ns", "Warm end-to-end time: the same with calls back to back and warm caches, so that the time "
           "to launch counts where the GPU waits for it.", **_UNKNOWN),
    number("event_over_graph", "", "Median latency over the median as a CUDA graph, both with the same caches; above "
           "1.33 the case is launch-bound.", **_UNKNOWN),
    number("empty_ns", "ns", "Time that the sample clock measures with no call at all.", **_UNKNOWN),
)  # fmt: skip


def _shape(*names: str) -> tuple[FileColumn, ...]:
    return tuple(_OF_SHAPE[name] for name in names)


CAPTURE_RESULTS = TableFile("capture", "results.csv", "One row per case.", (
    text("range", "Name of the NVTX range of the case."),
    _BACKEND, *_shape("batch", "heads", "kv_heads", "seq", "head_dim", "dtype", "causal", "pass"),
    text("status", "`ok`, `ineligible`, `wrong`, `out_of_memory`, `timeout`, `crashed`, `error` or `not_run`."),
    _REASON,
    integer("samples", "", "Number of calls timed in the untraced pass.", **_UNKNOWN),
    integer("latency_median_ns", "ns", "Median latency of a call in the untraced pass.", **_UNKNOWN),
    integer("latency_ci_low_ns", "ns",
            "Lower end of the 95 % interval of the median, for more calls in that process. Empty where so many samples "
            "stalled that the case's own time may lie anywhere below.",
            **_UNKNOWN),
    integer("latency_ci_high_ns", "ns", "Upper end of the 95 % interval of the median.", **_UNKNOWN),
    integer("input_bytes", "B", "Size of the inputs.", **_UNKNOWN),
    integer("peak_allocated_bytes", "B", "Peak of torch's allocated memory in the untraced pass; unknown on the CPU.",
            **_UNKNOWN),
    integer("peak_reserved_bytes", "B", "Peak of torch's reserved memory in the untraced pass.", **_UNKNOWN),
    integer("peak_beyond_inputs_bytes", "B", "Peak of allocated memory beyond the inputs.", **_UNKNOWN),
    integer("traced_calls", "", "Number of calls in the traced range; the counts below are sums over all of them.",
            **_UNKNOWN),
    integer("launch_count", "", "Number of launches in the traced range.", **_UNKNOWN),
    integer("kernel_count", "", "Number of kernels in the traced range.", **_UNKNOWN),
    integer("kernel_total_ns", "ns", "Sum of the kernel durations in the traced range.", **_UNKNOWN),
    integer("gpu_busy_ns", "ns", "Union of the GPU work in the traced range.", **_UNKNOWN),
    integer("memcpy_bytes", "B", "Bytes copied in the traced range.", **_UNKNOWN),
    integer("memset_bytes", "B", "Bytes set in the traced range.", **_UNKNOWN),
    integer("trace_peak_vram_bytes", "B", "Peak of device memory during the traced range, from the trace.", **_UNKNOWN),
    integer("sampled_read_bytes", "B", "Bytes read from DRAM during the traced range, from sampled GPU metrics.",
            **_UNKNOWN),
    integer("sampled_read_error_bytes", "B", "Bound on the error of `sampled_read_bytes`.", **_UNKNOWN),
    integer("sampled_write_bytes", "B", "Bytes written to DRAM during the traced range, from sampled GPU metrics.",
            **_UNKNOWN),
    integer("sampled_write_error_bytes", "B", "Bound on the error of `sampled_write_bytes`.", **_UNKNOWN),
    integer("counted_kernels", "", "Number of kernels of the one call that ncu counted.", **_UNKNOWN),
    integer("counted_time_ns", "ns", "Their time in ncu's traffic run.", **_UNKNOWN),
    integer("counted_read_bytes", "B", "Bytes read from DRAM by one call, counted by ncu.", **_UNKNOWN),
    integer("counted_write_bytes", "B", "Bytes written to DRAM by one call, counted by ncu.", **_UNKNOWN),
    integer("counted_l2_bytes", "B", "Bytes of one call that passed through the L2 cache.", **_UNKNOWN),
    integer("counted_l1_bytes", "B", "Bytes of one call that passed through the L1 caches.", **_UNKNOWN),
    number("counted_flops", "FLOP", "Floating-point operations of one call, counted by ncu.", **_UNKNOWN),
    number("l2_hit_pct", "%", "Share of L2 sectors that were found in the cache.", **_UNKNOWN),
    number("l2_pct", "%", "Utilisation of the L2 cache, weighted by time.", **_UNKNOWN),
    number("sm_pct", "%", "Utilisation of the busiest unit of the SMs, weighted by time.", **_UNKNOWN),
    number("tensor_pct", "%", "Share of cycles in which the tensor pipe was active.", **_UNKNOWN),
    number("fma_pct", "%", "Share of the peak rate of FMA instructions.", **_UNKNOWN),
    number("occupancy_pct", "%", "Achieved occupancy, weighted by time.", **_UNKNOWN),
    number("flops", "FLOP", "Floating-point operations of one call by formula.", **_UNKNOWN),
    integer("least_bytes", "B", "Least possible traffic by formula: each input read once, each result written once.",
            **_UNKNOWN),
    integer("dram_bytes", "B", "DRAM bytes of one call: counted, else sampled.", **_UNKNOWN),
    integer("dram_error_bytes", "B", "Bound on the error of `dram_bytes` where it was sampled.", **_UNKNOWN),
    text("dram_source", "`counted` or `sampled`; empty where `dram_bytes` is unknown.", **_UNKNOWN),
    number("intensity", "FLOP/B", "FLOP by formula per byte of DRAM traffic.", **_UNKNOWN),
    number("flops_per_s", "FLOP/s", "FLOP by formula per second of untraced latency.", **_UNKNOWN),
    number("flops_per_s_low", "FLOP/s", "`flops_per_s` at the upper end of the latency's interval.", **_UNKNOWN),
    number("flops_per_s_high", "FLOP/s", "`flops_per_s` at the lower end of the latency's interval.", **_UNKNOWN),
    number("roof_flops_per_s", "FLOP/s", "Measured roof of the device at this intensity.", **_UNKNOWN),
    flag("above_roof", "True for a case above the roof, which points to an error of a ceiling or a count.",
         **_UNKNOWN),
    text("limiter", "What limits the case: `launch-bound`, `memory-bound` and so on.", **_UNKNOWN),
    text("why", "The numbers behind `limiter`.", **_UNKNOWN),
    *_shape("kv_seq", "mask", "layout"),
    *_BY_NAME,
    number("graph_median_ns", "ns", "Median latency of a replay as a CUDA graph, with warm caches.", **_UNKNOWN),
    text("graph_reason", "Why there is no measurement as a CUDA graph.", **_UNKNOWN),
    integer("dram_beyond_error_bytes", "B", "How far counted and sampled DRAM bytes differ beyond the bound on the "
            "error of the sampled ones; 0 where they agree, unknown unless there are both.", **_UNKNOWN),
    *_shape(*_NEWER),
))  # fmt: skip
# Version 0.1.0 wrote these columns; the rest came with hardware counters.
FIRST_CAPTURE_RESULTS = CAPTURE_RESULTS.names[: CAPTURE_RESULTS.names.index("sampled_read_bytes")]

BENCH_RESULTS = TableFile("bench", "results.csv", "One row per case.", (
    text("case", "Name of the case: its backend and every dimension that varies."),
    _BACKEND, *_shape("seq", "batch", "heads", "head_dim", "dtype", "causal", "pass", "kv_heads", "kv_seq", "mask",
                      "layout"),
    text("status", "`ok`, `unreliable`, `wrong`, `ineligible`, `out_of_memory`, `timeout`, `crashed`, `error` or "
         "`not_run`."),
    text("reason", "Why the case failed; else empty.", **_UNKNOWN),
    integer("samples", "", "Number of timed calls.", **_UNKNOWN),
    integer("blocks", "", "Number of blocks of samples.", **_UNKNOWN),
    integer("processes", "", "Number of processes that measured the case.", **_UNKNOWN),
    number("median_ns", "ns", "Latency: the geometric mean of the processes, each of its blocks' medians.", **_UNKNOWN),
    number("low_ns", "ns", "Lower end of the 95 % interval of the median.", **_UNKNOWN),
    number("high_ns", "ns", "Upper end of the 95 % interval of the median.", **_UNKNOWN),
    text("interval_of", "What the interval comes from: `processes`, `blocks` or `samples`.", **_UNKNOWN),
    number("mean_ns", "ns", "Mean latency.", **_UNKNOWN),
    number("stddev_ns", "ns", "Sample standard deviation of the latency.", **_UNKNOWN),
    number("cv_pct", "%", "Standard deviation over the mean.", **_UNKNOWN),
    number("min_ns", "ns", "Shortest sample.", **_UNKNOWN),
    number("max_ns", "ns", "Longest sample.", **_UNKNOWN),
    number("p95_ns", "ns", "95th percentile; unknown below 20 samples.", **_UNKNOWN),
    number("p99_ns", "ns", "99th percentile; unknown below 100 samples.", **_UNKNOWN),
    integer("outliers", "", "Samples more than three interquartile ranges outside the quartiles; they are kept.",
            **_UNKNOWN),
    number("drift_pct", "%", "Change of the blocks' medians from the first block to the last.", **_UNKNOWN),
    number("drift_p", "", "Kendall's p value of the drift.", **_UNKNOWN),
    number("graph_median_ns", "ns", "Median latency of a replay as a CUDA graph.", **_UNKNOWN),
    number("graph_low_ns", "ns", "Lower end of the 95 % interval of `graph_median_ns`.", **_UNKNOWN),
    number("graph_high_ns", "ns", "Upper end of the 95 % interval of `graph_median_ns`.", **_UNKNOWN),
    text("graph_reason", "Why there is no measurement as a CUDA graph.", **_UNKNOWN),
    number("launch_share", "", "The CPU's share of a call, from 0 to 1.", **_UNKNOWN),
    integer("throttled_samples", "", "Number of samples taken while the GPU was throttled.", **_UNKNOWN),
    integer("unstable_blocks", "", "Number of blocks whose warm-up ended at its time limit.", **_UNKNOWN),
    number("largest_error", "", "Largest error against the float64 reference, relative to it.", **_UNKNOWN),
    integer("peak_bytes", "B", "Most memory that torch's allocator held beyond what was there before; unknown on the "
            "CPU.", **_UNKNOWN),
    number("flops", "FLOP", "Floating-point operations of one call by formula."),
    integer("least_bytes", "B", "Least possible traffic by formula."),
    number("flops_per_s", "FLOP/s", "FLOP by formula per second of median latency.", **_UNKNOWN),
    number("bytes_per_s", "B/s", "Least possible bytes per second of median latency.", **_UNKNOWN),
    number("measured_flops_pct", "%", "Share of the matrix product's rate measured on this device.", **_UNKNOWN),
    number("measured_bytes_pct", "%", "Share of the copy's rate measured on this device.", **_UNKNOWN),
    number("datasheet_flops_pct", "%", "Share of the datasheet's dense FLOP/s.", **_UNKNOWN),
    number("datasheet_bytes_pct", "%", "Share of the datasheet's bandwidth.", **_UNKNOWN),
    integer("rank", "", "Place among equal work, from 1.", **_UNKNOWN),
    text("verdict", "`fastest`, `tie` (shown to be the same), `slower`, `inconclusive`, `far behind`, `alone`, "
         "`approximate` or `too few processes`.", **_UNKNOWN),
    number("against_best", "", "Latency over that of the fastest, in the rounds that both have.", **_UNKNOWN),
    number("against_best_low", "", "Lower end of the 95 % interval of that ratio.", **_UNKNOWN),
    number("against_best_high", "", "Upper end of the 95 % interval of that ratio.", **_UNKNOWN),
    number("to_beat_ns", "ns", "For the fastest case of a shape: the latency below which such a bench would call "
           "another one faster in 80 % of runs.", **_UNKNOWN),
    *_BY_NAME, *_shape(*_NEWER),
    flag("approximate", "True where results are farther from the reference than rounding explains. Such a case has no "
         "rank, unless --allow-error covers `largest_error`."),
))  # fmt: skip
WINNERS = TableFile("tune", "winners.csv", "One row per shape.", (
    *_shape("seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass", "kv_seq", "mask", "layout"),
    text("backend", "Backend with the least median; empty where nothing ran.", **_UNKNOWN),
    text("verdict", "`winner`, `tie`, `inconclusive`, `alone` or `unknown`."),
    text("tied", "Other backends that are not shown to be slower, separated by commas.", **_UNKNOWN),
    number("median_ns", "ns", "Its median latency.", **_UNKNOWN),
    number("low_ns", "ns", "Lower end of the 95 % interval of the median.", **_UNKNOWN),
    number("high_ns", "ns", "Upper end of the 95 % interval of the median.", **_UNKNOWN),
    text("runner_up", "Next backend that is slower.", **_UNKNOWN),
    number("margin", "", "Median of the runner-up over the best median.", **_UNKNOWN),
    number("over_auto", "", "Median of torch's own choice over the best median; unknown where `auto` was not measured.",
           **_UNKNOWN),
    flag("measured_again", "True where the best backends were measured again in fresh processes, to which the numbers "
         "belong."),
    *_shape(*_NEWER),
))  # fmt: skip
_PER_LAUNCH = (
    number("time_ns", "ns", "Duration.", **_UNKNOWN),
    number("dram_read_bytes", "B", "Bytes read from DRAM.", **_UNKNOWN),
    number("dram_write_bytes", "B", "Bytes written to DRAM.", **_UNKNOWN),
    number("l2_bytes", "B", "Bytes that passed through the L2 cache.", **_UNKNOWN),
    number("l2_sectors", "", "L2 sectors that were looked up.", **_UNKNOWN),
    number("l2_hit_sectors", "", "L2 sectors that were found.", **_UNKNOWN),
    number("l1_bytes", "B", "Bytes that passed through the L1 caches.", **_UNKNOWN),
    number("tensor_flops", "FLOP", "Floating-point operations of the tensor cores.", **_UNKNOWN),
    number("fp32_flops", "FLOP", "Single-precision operations of threads.", **_UNKNOWN),
    number("l2_pct", "%", "Utilisation of the L2 cache.", **_UNKNOWN),
    number("sm_pct", "%", "Utilisation of the busiest unit of the SMs.", **_UNKNOWN),
    number("tensor_pct", "%", "Share of cycles in which the tensor pipe was active.", **_UNKNOWN),
    number("fma_pct", "%", "Share of the peak rate of FMA instructions.", **_UNKNOWN),
    number("occupancy_pct", "%", "Achieved occupancy.", **_UNKNOWN),
    number("occupancy_limit_pct", "%", "Possible occupancy.", **_UNKNOWN),
    number("registers", "", "Registers per thread.", **_UNKNOWN),
    number("shared_bytes", "B", "Shared memory per block.", **_UNKNOWN),
    number("waves", "", "Waves of blocks per SM.", **_UNKNOWN),
    number("blocks_by_registers", "", "Blocks per SM that the registers allow.", **_UNKNOWN),
    number("blocks_by_shared", "", "Blocks per SM that shared memory allows.", **_UNKNOWN),
    number("blocks_by_warps", "", "Blocks per SM that the warps allow.", **_UNKNOWN),
    number("blocks_by_slots", "", "Blocks per SM that the block slots allow.", **_UNKNOWN),
    number("clock_hz", "Hz", "SM clock during the launch.", **_UNKNOWN),
)
COUNTERS = TableFile("capture", "counters.csv", "One row per counted launch and run of ncu; metrics given with "
                     "`--metrics` follow under ncu's names.", (
    text("run", "`traffic` (caches as they are, DRAM bytes and time) or `detail` (replayed from cold caches)."),
    text("range", "Name of the NVTX range of the case."),
    integer("position", "", "Number of the launch in its range, from 0."),
    text("kernel", "The kernel's name in the capture's trace; empty where it is not known.", **_UNKNOWN),
    text("name", "Name of the kernel as ncu demangles it; a bundle leaves it out.", **_UNKNOWN),
    text("symbol", "Mangled name of the kernel; a bundle leaves it out.", **_UNKNOWN),
    text("grid", "Size of the grid."),
    text("block", "Size of a block."),
    text("gpu", "Name of the GPU.", **_UNKNOWN),
    integer("passes", "", "How often the launch was replayed.", **_UNKNOWN),
    *_PER_LAUNCH,
))  # fmt: skip
FILES = (CAPTURE_RESULTS, COUNTERS, BENCH_RESULTS, WINNERS)
