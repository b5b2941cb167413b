"""Define the columns of the files in an analysis folder of one trace."""

from __future__ import annotations

from typing import Any

from nsysprof.results.column_registry.column import FileColumn, TableFile, flag, integer, number, text

RANGE = text("range", "Name of the NVTX range.")
STYLE = text("style", "`PushPop` (a range of one thread) or `StartEnd` (a range of the whole process).")
DOMAIN = text("domain", "NVTX domain of the range; empty for the default domain.", nullable=True)
_PATH = text("path", "Names of the enclosing push/pop ranges of the thread and of the range itself, from the outermost "
             "one, joined by ` > `; several paths are joined by ` | `.")  # fmt: skip
_FAMILY = text("family", "Name with its counter folded: `step#` for `step0`, `step1` and so on.")
NAME = text("name", "Demangled name of the kernel.")
SHORT_NAME = text("short_name", "Name of the kernel without namespaces and template arguments.")
LABEL = text("label", "Readable name of the kernel, such as `add<bf16>` or `gemm<tf32> 128x128x32 nt`; no two kernels "
             "of a trace have the same.")  # fmt: skip
CATEGORY = text(
    "category", "What the kernel does: `gemm`, `attention`, `communication` and so on; `graph` for a whole CUDA graph."
)
_CAUSED: dict[str, Any] = {"nullable": True, "of_work": True}
_ADOPTED = (
    integer("adopted_kernel_count", "", "Number of kernels that a thread without a range of its own launched while "
            "this range waited for it; never kernels that the range launched.", **_CAUSED),
    integer("adopted_kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_CAUSED),
)  # fmt: skip
_CAPTURED = (
    integer("captured_kernel_count", "", "Number of kernels of replayed CUDA graphs whose nodes were created in this "
            "range; never kernels that the range launched.", **_CAUSED),
    integer("captured_kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_CAUSED),
)  # fmt: skip
_COUNTED: dict[str, Any] = {"nullable": True, "only_with": "hardware counters"}
_WORK: dict[str, Any] = {"nullable": True, "of_work": True}


def duration_columns(what: str) -> tuple[FileColumn, ...]:
    """Return the statistics of durations that every summary has. what: the things counted, in the plural."""
    return (
        integer("total_ns", "ns", f"Sum of the durations of these {what}."),
        number("avg_ns", "ns", "Mean duration."),
        number("med_ns", "ns", "Median duration."),
        integer("min_ns", "ns", "Shortest duration."),
        integer("max_ns", "ns", "Longest duration."),
        number("stddev_ns", "ns", "Sample standard deviation of the durations; 0 for a single one."),
    )


# Means over the launches that ncu counted. Present only where a capture or --ncu brought counters.
KERNEL_COUNTERS = (
    integer("counted_instances", "", "Number of launches that ncu counted.", **_COUNTED),
    integer("dram_read_bytes", "B", "Bytes read from DRAM per launch.", **_COUNTED),
    integer("dram_write_bytes", "B", "Bytes written to DRAM per launch.", **_COUNTED),
    integer("l2_bytes", "B", "Bytes that passed through the L2 cache per launch.", **_COUNTED),
    number("l2_hit_pct", "%", "Share of L2 sectors that were found in the cache.", **_COUNTED),
    integer("l1_bytes", "B", "Bytes that passed through the L1 caches per launch; TMA copies are not included.",
            **_COUNTED),
    number("flops", "FLOP", "Floating-point operations per launch, of the tensor cores and of single threads.",
           **_COUNTED),
    number("l2_pct", "%", "Utilisation of the L2 cache, of ncu's peak.", **_COUNTED),
    number("sm_pct", "%", "Utilisation of the busiest unit of the SMs, of ncu's peak.", **_COUNTED),
    number("tensor_pct", "%", "Share of cycles in which the tensor pipe was active.", **_COUNTED),
    number("fma_pct", "%", "Share of the peak rate of FMA instructions.", **_COUNTED),
    number("occupancy_pct", "%", "Achieved occupancy: active warps of the possible ones.", **_COUNTED),
    integer("registers", "", "Registers per thread of the longest launch.", **_COUNTED),
    integer("shared_bytes", "B", "Shared memory per block of the longest launch.", **_COUNTED),
)  # fmt: skip

KERNELS = TableFile("analysis", "kernels.csv", "One row per kernel name, and one per CUDA graph that was recorded as a "
                    "whole (`[CUDA graph 3]`, by its id), largest total first.", (
    NAME, SHORT_NAME, CATEGORY,
    integer("instances", "", "How often the kernel ran."),
    *duration_columns("kernels"),
    number("share_pct", "%", "Share of the time of all kernels and whole graphs."),
    LABEL,
    *KERNEL_COUNTERS,
    text("unit", "What the kernel runs on, as `unit` in `work.csv`, by its name."),
))  # fmt: skip
RANGES = TableFile("analysis", "ranges.csv", "One row per range name, style and domain.", (
    RANGE, STYLE, DOMAIN,
    integer("instances", "", "How often the range was entered."),
    integer("wall_ns", "ns", "Sum of the durations of the instances, from the start of the range to its end."),
    integer("projected_ns", "ns", "Sum over instances of the last end minus the first start of their GPU work, as in "
            "`nvtx_gpu_proj_sum`.", **_WORK),
    integer("gpu_busy_ns", "ns", "Union of the GPU work on each device, added over devices.", **_WORK),
    integer("kernel_total_ns", "ns", "Sum of the durations of the kernels.", **_WORK),
    integer("kernel_count", "", "Number of kernels, those of nested ranges included.", **_WORK),
    integer("launch_count", "", "Number of API calls that launched kernels or graphs, whether or not the trace holds "
            "what they launched.", **_WORK),
    integer("graph_launch_count", "", "Number of CUDA graph replays.", **_WORK),
    integer("memcpy_bytes", "B", "Bytes copied by `cudaMemcpy` and its kin; migrations of unified memory are not, for "
            "no call asks for them.", **_WORK),
    integer("memset_bytes", "B", "Bytes set by `cudaMemset` and its kin.", **_WORK),
    integer("peak_vram_bytes", "B", "Most device memory that the process held while the range was open.",
            nullable=True),
    integer("dram_read_bytes", "B", "Bytes read from DRAM meanwhile, from sampled GPU metrics.", **_WORK),
    integer("dram_write_bytes", "B", "Bytes written to DRAM meanwhile, from sampled GPU metrics.", **_WORK),
    integer("dram_read_error_bytes", "B", "Bound on the error of `dram_read_bytes`.", **_WORK),
    integer("dram_write_error_bytes", "B", "Bound on the error of `dram_write_bytes`.", **_WORK),
    integer("exclusive_kernel_count", "", "Number of kernels that no inner push/pop range of the same thread launched; "
            "empty for start/end ranges, which do not nest.", **_WORK),
    integer("exclusive_kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_WORK),
    _PATH, _FAMILY, *_ADOPTED, *_CAPTURED,
    integer("warmup_instances", "", "Number of instances that belong to the warm-up."),
    integer("steady_wall_med_ns", "ns", "Median duration of the instances after the warm-up.", nullable=True),
    integer("lost_launch_count", "", "Number of those launches whose work is not in the trace: the profiler lost it, "
            "and the other columns do not count it. Where all are lost, the work is unknown.", **_WORK),
    integer("all_busy_ns", "ns", "Union of the GPU work that the range and its helper threads launched, and that it "
            "captured, on each device, added over devices.", **_CAUSED),
    integer("caused_memcpy_bytes", "B", "Bytes of copies that helper threads launched for the range, or that it "
            "captured.", **_CAUSED),
    integer("caused_memset_bytes", "B", "Bytes of fills that helper threads launched for the range, or that it "
            "captured.", **_CAUSED),
))  # fmt: skip
RANGE_KERNELS = TableFile("analysis", "range_kernels.csv", "One row per range and kernel name.", (
    RANGE, STYLE, DOMAIN, NAME, SHORT_NAME, CATEGORY,
    integer("instances", "", "How often the kernel ran inside the range."),
    *duration_columns("kernels"),
    LABEL,
    *KERNEL_COUNTERS,
))  # fmt: skip
CAUSED_KERNELS = TableFile("analysis", "range_caused_kernels.csv", "One row per range and kernel that helper threads "
                           "launched for it, or that it captured.", (
    RANGE, STYLE, DOMAIN,
    text("attribution", "`adopted` (launched by a helper thread) or `captured`, as in `ranges.csv`."),
    NAME, SHORT_NAME, CATEGORY,
    integer("instances", "", "How often the kernel ran on behalf of the range."),
    integer("total_ns", "ns", "Sum of the durations of these kernels."),
    LABEL,
))  # fmt: skip
RANGE_TREE = TableFile("analysis", "range_tree.csv", "One row per place of a range, parents before what they enclose, "
                       "the most time first.", (
    _PATH,
    integer("depth", "", "Number of ranges that enclose it."),
    text("range", "Name of the range, its counter folded: `step#`."),
    STYLE, DOMAIN,
    integer("instances", "", "How often a range was entered in this place."),
    integer("wall_ns", "ns", "Sum of the durations of these instances."),
    integer("kernel_count", "", "Number of kernels launched in this place, those of nested ranges included.", **_WORK),
    integer("kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_WORK),
    *_ADOPTED, *_CAPTURED,
    integer("warmup_instances", "", "Number of instances that belong to the warm-up."),
    integer("steady_wall_med_ns", "ns", "Median duration of the instances after the warm-up.", nullable=True),
))  # fmt: skip
API = TableFile("analysis", "api.csv", "One row per CUDA API function.", (
    text("name", "Name of the function, without a four-digit version suffix."),
    integer("calls", "", "How often it was called."),
    *duration_columns("calls"),
))  # fmt: skip
RANGE_API = TableFile("analysis", "range_api.csv", "One row per range and CUDA API function that its thread called "
                      "inside it, nested ranges included; of a start/end range, any thread of its process. At most the "
                      "64 functions with the most time.", (
    text("range", "Name of the range, counters folded: `step#`."),
    STYLE, DOMAIN,
    text("name", "Name of the function, as in `api.csv`."),
    integer("calls", "", "How often it was called."),
    integer("total_ns", "ns", "Sum of the durations of these calls."),
    number("wall_pct", "%", "`total_ns` in percent of the wall time of the range; empty for start/end ranges, whose "
            "calls may overlap.", nullable=True),
))  # fmt: skip
COLLECTIVES = TableFile("analysis", "collectives.csv", "One row per GPU, operation of NCCL, number of ranks and size "
                        "of message.", (
    integer("device_id", "", "Number of the GPU on the machine."),
    text("operation", "`AllReduce`, `AllGather` and so on, as in the kernel's name."),
    integer("ranks", "", "Ranks of the communicator.", nullable=True),
    integer("message_bytes", "B", "Size of a message as NCCL says it: of a gathering or scattering operation, one "
            "rank's part; of sends and receives that were launched together, the larger sum.", nullable=True),
    integer("kernel_count", "", "Number of kernels."),
    integer("total_bytes", "B", "`message_bytes` of all of them.", nullable=True),
    integer("kernel_total_ns", "ns", "Sum of the durations of the kernels, waiting for other ranks included."),
    integer("kernel_med_ns", "ns", "Their median."),
    integer("kernel_min_ns", "ns", "The shortest."),
    number("bus_bytes_per_s", "B/s", "Median over the kernels of the bandwidth over the slowest link, as NVIDIA's "
           "nccl-tests define it (`busbw`).", nullable=True),
    number("most_bus_bytes_per_s", "B/s", "Bandwidth of the fastest kernel, which waited least. For sends and "
            "receives it can exceed that of the link, if the other side began to send before.", nullable=True),
    text("reason", "Why a size or a bandwidth is unknown, empty where both are known: `no NVTX payload` in the trace; "
         "`in a CUDA graph`, whose replays name no call; `launched in a group` with other calls; `no call recorded`; "
         "`ranks unknown`, because the communicator is older than the recording."),
))  # fmt: skip
ENERGY = TableFile("analysis", "energy.csv", "One row per range and GPU, of a capture with `--power`; without `range`, "
                   "from the first to the last work of the trace.", (
    text("range", "Name of the range, counters folded; empty for the whole trace.", nullable=True),
    text("style", "`PushPop` or `StartEnd`.", nullable=True),
    text("domain", "NVTX domain; empty for the default one.", nullable=True),
    integer("device_id", "", "Number of the GPU on the machine."),
    integer("instances", "", "Number of instances after the warm-up that are included."),
    integer("covered_ns", "ns", "The time from the first to the last work of each instance, each moment once."),
    number("energy_j", "J", "Energy that the whole board used in that time, by its own counter.", nullable=True),
    number("error_j", "J", "Bound on the distance of the truth from `energy_j`, if the counter is right: between two "
           "changes of the counter only the sum is known, and it may be 40 ms late.", nullable=True),
    number("mean_w", "W", "`energy_j` by `covered_ns`.", nullable=True),
    integer("period_ns", "ns", "Median time between two changes of the counter."),
    text("reason", "Why the energy is unknown; empty where it is known."),
))  # fmt: skip
STREAMS = TableFile("analysis", "streams.csv", "One row per CUDA stream that ran anything, the busiest first.", (
    integer("device_id", "", "Number of the GPU on the machine."),
    text("stream", "The stream's number, with its GPU, process and context where the number alone is not unique."),
    integer("threads", "", "Number of threads of the program that launched work into the stream.", nullable=True),
    integer("kernel_count", "", "Number of kernels, those of replayed graphs included where nodes were recorded."),
    integer("kernel_total_ns", "ns", "Sum of their durations."),
    integer("memcpy_count", "", "Number of copies."),
    integer("memcpy_bytes", "B", "Bytes copied."),
    integer("memset_count", "", "Number of fills."),
    integer("memset_bytes", "B", "Bytes filled."),
    integer("busy_ns", "ns", "Union of all work of the stream, including graphs that were recorded as wholes."),
    integer("span_ns", "ns", "Time from the start of its first work to the end of its last."),
))  # fmt: skip
OS_CALLS = TableFile("analysis", "os_calls.csv", "One row per function of the OS runtime that a program without GPU "
                     "work called, the most time first. Times of different threads are added up. Calls that were too "
                     "short to be recorded are not in it: below 100 us in a capture, 1 us with nsys' own options.", (
    text("name", "Name of the function."),
    integer("threads", "", "Number of threads that called it."),
    *API.columns[1:],
))  # fmt: skip
GPU_USE = TableFile("analysis", "gpu_use.csv", "One row per range and sampled unit of the GPU; without `range`, the "
                    "whole trace from its first to its last work.", (
    text("range", "Name of the range, counters folded; empty for the whole trace.", nullable=True),
    text("style", "`PushPop` or `StartEnd`.", nullable=True),
    DOMAIN,
    text("metric", "Name that nsys gives the metric, without its unit: `SMs Active`, `Tensor Active`, "
         "`PCIe RX Throughput`, `NVLink ...`."),
    number("mean_pct", "%", "Mean of the samples from the first to the last work of each instance after the "
           "warm-up, work of helper threads included, in percent of the most that is possible; over the GPUs of the "
           "process."),
    number("error_pct", "%", "Bound on the distance of the truth from `mean_pct`: rounding, edges and gaps, as for "
           "DRAM bytes."),
    integer("sampled_ns", "ns", "The time that samples cover, added over the GPUs."),
))  # fmt: skip
MEMOPS = TableFile("analysis", "memops.csv", "One row per kind of copy or fill.", (
    text("operation", "Name as in `nsys stats`: `[CUDA memcpy Host-to-Device]`, `[CUDA memset]` and so on."),
    integer("count", "", "Number of operations."),
    integer("total_ns", "ns", "Sum of their durations."),
    integer("total_bytes", "B", "Sum of their sizes."),
    number("avg_bytes", "B", "Mean size."),
    integer("max_bytes", "B", "Largest size."),
    number("bytes_per_s", "B/s", "Bandwidth: the sum of the sizes over the sum of the durations.", nullable=True),
    integer("pageable_count", "", "Number of copies whose memory on the host's side is pageable; empty where the trace "
            "does not say of any.", nullable=True),
    integer("pinned_count", "", "Number of copies whose memory on the host's side is pinned, likewise.", nullable=True),
))  # fmt: skip
# Every cause of idle time; docs/causes.md defines each. The position of a cause is its code.
CAUSES = (
    "sync-then-late-launch", "host-outside-cuda", "slow-call", "pageable-copy", "dependency", "collective", "profiler",
    "unknown", "python-gc", "jit-compile", "waiting-for-work",
)  # fmt: skip


def cause_column(cause: str) -> str:
    """Return the name of the column that has the idle time with a cause."""
    return f"{cause.replace('-', '_')}_ns"


RANGE_INSTANCES = TableFile("analysis", "range_instances.csv", "One row per instance of a range.", (
    RANGE, STYLE, DOMAIN,
    integer("instance", "", "Number of the instance among those of its range, by start, from 0."),
    integer("start_ns", "ns", "Start of the range since the start of the session."),
    integer("wall_ns", "ns", "Duration of the range."),
    integer("kernel_count", "", "Number of kernels launched inside the instance.", **_WORK),
    integer("kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_WORK),
    integer("gpu_busy_ns", "ns", "Union of the GPU work of the instance on each device, added over devices.", **_WORK),
    integer("gpu_idle_ns", "ns", "Time without work of the instance between its first and its last GPU work.", **_WORK),
    flag("is_warmup", "True for instances that belong to the warm-up.", nullable=True),
    _PATH, *_ADOPTED,
    text("slow_because", "Why the instance took unusually long: how it differed from the median one; empty for all "
            "others.",
         nullable=True),
    integer("op_id", "", "Number of the operator, from the name that torch's `emit_nvtx` gives.", nullable=True),
    integer("seq", "", "Sequence number of autograd, from the name that torch's `emit_nvtx` gives.", nullable=True),
    *_CAPTURED,
))  # fmt: skip
WORK = TableFile("analysis", "work.csv", "One row per device, range, category and unit of work: what the GPU does "
                 "while it works. Without `range`, the whole trace; these rows add up to the `gpu_busy_ns` of the "
                 "summary exactly. A range has the work that it and its helper threads launched.", (
    integer("device_id", "", "Number of the GPU on the machine."),
    text("range", "Name of the range; empty for the whole trace.", nullable=True),
    text(
        "category",
        "What the work does, as `category` in `kernels.csv`; copies and fills between memories included. Elementwise "
        "kernels of an optimizer, known by their order or their operators, are `optimizer`.",
    ),
    text("unit", "What it runs on: `tensor` (tensor cores), `plain` (the other cores, where tensor cores could do), "
         "`memory` (limited by memory), or `other`, where the name does not tell."),
    integer("busy_ns", "ns", "Time that counts for this work alone. Of several that run at once, computation counts "
            "before communication, and then the one that began first."),
    integer("kernel_count", "", "Number of kernels."),
    integer("kernel_total_ns", "ns", "Sum of their durations."),
    integer("flops", "FLOP", "Floating-point operations, from the shapes of operators, else counted by ncu; empty "
            "where they are unknown.", nullable=True),
    integer("least_bytes", "B", "Bytes that the work has to read and write at least, from shapes, else the bytes of "
            "DRAM that ncu counted from cold caches; empty where they are unknown.", nullable=True),
    integer("floor_ns", "ns", "The least time in which this GPU can do it: the larger of `flops` at its rate and of "
            "`least_bytes` at the rate of memory; empty where they are unknown.", nullable=True),
))  # fmt: skip
OPERATORS = TableFile("analysis", "operators.csv", "One row per operator of a step, with its shapes and where it "
                      "is. Times are those of steps that were not recorded with operators and run the same kernels in "
                      "the same order.", (
    text("operator", "Name of the operator that launched the kernels, as torch has it."),
    text("shapes", "Sizes of the tensors that it was given.", nullable=True),
    text("dtype", "Data type that it computes with.", nullable=True),
    text("range", "Innermost range of the program around it.", nullable=True),
    text("layer", "Path of the module that called it, or whose gradient it computes.", nullable=True),
    text("location", "Line of the program that called the module.", nullable=True),
    text("pass", "`forward`, `backward` or `optimizer`."),
    integer("calls", "", "Calls in a step that launched kernels."),
    integer("kernel_count", "", "Number of their kernels in a step."),
    integer("kernel_total_ns", "ns", "Sum of the durations of these kernels, as a mean over steps."),
    integer("flops", "FLOP", "Floating-point operations in a step, from the shapes; empty where they are unknown.",
            nullable=True),
    integer("least_bytes", "B", "Bytes of the tensors that it reads and writes in a step, each once; empty where they "
            "are unknown.", nullable=True),
    integer("floor_ns", "ns", "The larger of `flops` of products at their rate and of `least_bytes` at the rate of "
            "memory, added over calls; empty where either is unknown.", nullable=True),
    text("limit", "What gives the floor: `compute` or `memory`; `latency` where kernels under 5 us take more than "
         "twice their floor.", nullable=True),
))  # fmt: skip
LAYERS = TableFile("analysis", "layers.csv", "One row per module of torch and pass, over the whole trace. What its "
                   "inner modules did is in their rows, so that all rows add up to the whole.", (
    text("layer", "Path of the module in the outermost one, which itself has the name of its class; empty for what no "
         "module launched.", nullable=True),
    text("pass", "`forward`, `backward` or `optimizer`; empty for what no module launched.", nullable=True),
    integer("calls", "", "Number of calls; of a backward pass, how often it began.", nullable=True),
    integer("wall_ns", "ns", "Time of the host in it and in none of its inner modules; empty outside of modules.",
            nullable=True),
    integer("kernel_count", "", "Number of kernels that it launched, or that were captured in it into a graph."),
    integer("kernel_total_ns", "ns", "Sum of the durations of these kernels."),
    integer("flops", "FLOP", "Floating-point operations of these kernels, from the shapes of operators; empty where "
            "they are unknown.", nullable=True),
    integer("peak_bytes", "B", "The most memory that the process held on one device while it ran; empty where memory "
            "was not recorded.", nullable=True),
    text("class", "Class of the module, or of the optimizer.", nullable=True),
))  # fmt: skip
IDLE = TableFile("analysis", "idle.csv", "One row per device, range and cause of idle time.", (
    integer("device_id", "", "Number of the GPU on the machine."),
    text("range", "Range that was open; empty for the rows of the whole device.", nullable=True),
    text("cause", "Cause of the idle time; every idle nanosecond has exactly one."),
    integer("idle_ns", "ns", "Idle time with this cause. Over the rows of a device without a range the sum is "
            "`gpu_span_ns` minus `gpu_busy_ns`."),
    integer("count", "", "Number of gaps."),
))  # fmt: skip
IDLE_INSTANCES = TableFile(
    "analysis", "idle_instances.csv", "One row per instance of a range and device that was idle meanwhile.", (
    RANGE, STYLE, DOMAIN,
    integer("instance", "", "Number of the instance, as in `range_instances.csv`."),
    integer("device_id", "", "Number of the GPU on the machine."),
    integer("span_ns", "ns", "Time of the instance between the first and the last work of the device."),
    integer("busy_ns", "ns", "Part of that time in which the device ran anything, for any range."),
    integer("idle_ns", "ns", "Part of that time in which the device was idle: `span_ns` minus `busy_ns`, and the "
            "sum of all following columns."),
    *(integer(cause_column(cause), "ns", f"Idle time with the cause `{cause}`.") for cause in CAUSES),
))  # fmt: skip
# Every kind of work of a GPU. Where several run at once, the time counts for the first of them, so that communication
# and copies count only where nothing else hides them.
WORK_CATEGORIES = (
    "attention", "gemm", "convolution", "fft", "normalization", "softmax", "reduction", "index", "elementwise",
    "optimizer", "random", "graph", "other", "layout", "fill", "copy", "communication", "wait",
)  # fmt: skip


def work_column(category: str) -> str:
    """Return the name of the column that has the time in which a GPU ran work of a category."""
    return f"busy_{category}_ns"


STEPS = TableFile("analysis", "steps.csv", "One row per step and device of its process; where nothing repeats, the "
                  "whole trace is one step.", (
    integer("step", "", "Number of the step, by start, from 0."),
    integer("device_id", "", "Number of the GPU on the machine."),
    integer("start_ns", "ns", "Start of the step since the start of the session: when the host had begun it and the "
            "GPU had done what was issued before."),
    integer("wall_ns", "ns", "Time from the start of the step to the start of the next one; of the last step, to its "
            "end. The sum of all columns below in ns."),
    flag("is_warmup", "True for steps that belong to the warm-up."),
    flag("is_slow", "True for steady steps that took unusually long. They do not count in the time of a step."),
    integer("outside_ns", "ns", "Time of the step before the device's first or after its last work."),
    *(integer(work_column(category), "ns", f"Time in which the device ran work of category `{category}`, and none of "
              "a category before it.") for category in WORK_CATEGORIES),
    *(integer(cause_column(cause), "ns", f"Idle time with the cause `{cause}`.") for cause in CAUSES),
))  # fmt: skip
# The columns that split the time of a step.
LEDGER = STEPS.names[STEPS.names.index("outside_ns") :]
FINDINGS = TableFile("analysis", "findings.csv", "One row per finding, the largest saving first.", (
    integer("rank", "", "Place in the order of findings, from 1."),
    text("code", "Stable code of the finding, such as `pageable-copy`."),
    text("range", "Range in which it was found, or that has most of it.", nullable=True),
    integer("other_ranges", "", "In how many other ranges a part of it is, where these are two or more and `range` has "
            "less than 90 % of it. The saving is that of all of them."),
    text("location", "Python file and line, or else the native function, where stacks were recorded; the line of what "
         "is compiled also without.", nullable=True),
    number("location_share_pct", "%", "How sure the location is: the share of the stack samples of this finding that "
           "show it.", nullable=True),
    text("layer", "Layer of the model in which, with its inner layers, more than half of its time lies; those that "
         "differ in a number are one (`layers.[0-31].mlp`). Empty where no layer has so much, and without `capture "
         "--layers`.", nullable=True),
    integer("count", "", "How often it occurs."),
    integer("idle_ns", "ns", "Idle GPU time that it explains.", nullable=True),
    integer("saving_ns", "ns", "Expected saving.", nullable=True),
    integer("saving_low_ns", "ns", "Lower bound of the saving.", nullable=True),
    integer("saving_high_ns", "ns", "Upper bound of the saving.", nullable=True),
    text("per", "What the times refer to: a step range, `step` where steps are known by their kernels alone, "
         "`trace`, or `mean step`, the mean of steady steps with slow ones, for what slow steps alone have."),
    text("text", "What was found, with numbers."),
    text("next_step", "What to do about it.", nullable=True),
))  # fmt: skip
ATTENTION = TableFile("analysis", "attention.csv", "One row per attention call site and shape.", (
    text("range", "Line of the program, of a call that `capture --attention` recorded; else the innermost range, "
         "counters folded; empty where neither is known.", nullable=True),
    integer("batch", "", "Batch size.", nullable=True),
    integer("heads", "", "Number of query heads.", nullable=True),
    integer("kv_heads", "", "Number of key and value heads.", nullable=True),
    integer("seq_q", "", "Sequence length of the queries.", nullable=True),
    integer("seq_kv", "", "Sequence length of the keys and values.", nullable=True),
    integer("head_dim", "", "Size of a head.", nullable=True),
    text("dtype", "Data type of the inputs, as the kernels' names or the range say.", nullable=True),
    flag("causal", "True for a causal mask.", nullable=True),
    text("mask", "`none`; `bool`, `float` or `learned` (which needs a gradient), with those of the axes batch, head, "
         "query and key (`bhqk`) that it has at full size; or `nested`, `varlen`, `cache`, `flex`, `bias`.",
         nullable=True),
    number("dropout", "", "Probability of dropout.", nullable=True),
    text("pass", "`fwd` or `bwd`."),
    integer("calls", "", "Number of calls. Of kernels alone: of main kernels, or of softmaxes."),
    text("backend_ran", "Backend that ran, as its kernels say.", nullable=True),
    integer("kernel_count", "", "Number of kernels.", **_WORK),
    integer("kernel_total_ns", "ns", "Sum of the durations of those kernels.", **_WORK),
    number("share_pct", "%", "Share of the time of all kernels and whole graphs.", **_WORK),
    text("function", "Function that was called, where `capture --attention` recorded it.", nullable=True),
    text("layout", "Order of batch, head, length (s) and head size (d) in memory, of q, k and v; + for other memory in "
         "between.", nullable=True),
    integer("mask_stride", "", "Distance of the mask's keys in memory, in elements; empty where it is not known, or "
            "does not matter because the call ran on a CPU.", nullable=True),
    integer("head_dim_v", "", "Size of a head of v, where a recorded call has another one than q.", nullable=True),
))  # fmt: skip
PHASES = TableFile("analysis", "phases.csv", "One row per phase of inference that steps belong to.", (
    text("phase", "`prefill`, `decode`, or `mixed` for both at once."),
    text("told_by", "`annotation`: an engine's range names each batch; `attention`: the recorded calls in each."),
    integer("steps", "", "Number of steps."),
    number("sequences", "", "Median number of sequences of a step.", nullable=True),
    number("tokens", "", "Median number of tokens that a step computes.", nullable=True),
    number("host_med_ns", "ns", "Median time that the host spends on a step: its range, or to the next one's begin."),
    number("interval_med_ns", "ns", "Median time from a step to the next one; of a decode, the time per output token "
           "of a sequence.", nullable=True),
    number("kernel_count", "", "Median number of kernels that a step launched."),
    integer("kernel_total_ns", "ns", "Sum of the durations of the kernels of all these steps."),
    number("share_pct", "%", "Share of the time of all kernels and whole graphs.", nullable=True),
    *(number(name, "ns", f"Mean over the steps of this phase of `{name}` in `steps.csv`, of the busiest device.",
             nullable=True) for name in LEDGER),
))  # fmt: skip
MEMORY = TableFile("analysis", "memory.csv", "One row per owner of memory at the peak; the rows add up to the peak.", (
    text("owner", "Line of the program that allocated the memory, where torch's allocator history was recorded; else "
         "the range."),
    integer("peak_bytes", "B", "Bytes that the owner held at the peak."),
    number("share_pct", "%", "Share of the peak."),
    text("range", "Range that was open at the allocation, where the owner is a line.", nullable=True),
))  # fmt: skip
RECORDING_COST = TableFile("analysis", "recording_cost.csv", "One row per range that both runs have.", (
    text("range", "Range, counters folded."),
    integer("instances", "", "Number of instances in the recording, without the first."),
    integer("plain_instances", "", "Number of instances without the first, where only NVTX, or nothing, was "
            "recorded."),
    integer("wall_med_ns", "ns", "Median time of an instance in the recording."),
    integer("plain_wall_med_ns", "ns", "Median time of an instance where only NVTX, or nothing, was recorded."),
    number("slowdown", "", "The first median divided by the second."),
    number("slowdown_low", "", "Lower bound of the 95 % interval of `slowdown`; empty for fewer than six instances.",
            nullable=True),
    number("slowdown_high", "", "Upper bound of the 95 % interval of `slowdown`.", nullable=True),
    flag("is_distorted", "True where recording makes it slower by more than 10 %, and not by chance."),
))  # fmt: skip
FILES = (
    KERNELS,
    RANGES,
    RANGE_KERNELS,
    CAUSED_KERNELS,
    RANGE_TREE,
    API,
    OS_CALLS,
    STREAMS,
    WORK,
    OPERATORS,
    LAYERS,
    COLLECTIVES,
    ENERGY,
    RANGE_API,
    PHASES,
    GPU_USE,
    MEMOPS,
    RANGE_INSTANCES,
    IDLE,
    IDLE_INSTANCES,
    STEPS,
    FINDINGS,
    ATTENTION,
    MEMORY,
    RECORDING_COST,
)
