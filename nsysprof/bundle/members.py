"""List which files of a folder may be in a bundle, one per line, with the fields that each may have.

A JSON field or a CSV column that is not listed is dropped with its value. To add a file, add a line to MEMBERS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Role(Enum):
    """What the texts in a column are, which decides how they are cleaned."""

    TEXT = "a message of ours or of a library"  # paths, secrets and the user's backends are replaced
    KERNEL = "the name of a kernel"


@dataclass(frozen=True)
class Member:
    """A file of a folder. A CSV keeps its numbers, and the texts in the columns `texts`."""

    name: str
    texts: dict[str, Role] = field(default_factory=dict)
    # Whether columns that are not listed may hold numbers, because counters have too many names to list.
    any_number: bool = False


_CASE = (
    "range", "case", "backend", "dtype", "pass", "mask", "layout", "status", "reason", "dram_source", "limiter", "why",
)  # fmt: skip
MEMBERS: tuple[Member, ...] = (
    Member("manifest.json"),
    Member("samples.json"),
    Member("recording_cost.json"),
    Member("results.csv", dict.fromkeys(_CASE, Role.TEXT), any_number=True),
    Member(
        "counters.csv",
        {"kernel": Role.KERNEL} | dict.fromkeys(("run", "range", "grid", "block", "gpu"), Role.TEXT),
        any_number=True,
    ),
)
# The reason why a file of a capture is not in the bundle.
LEFT_BEHIND = {
    "logs": "what the programs printed",
    "nsys.nsys-rep": "holds the environment and command line, and cannot be cleaned",
    "ncu.ncu-rep": "holds the environment and command line, and cannot be cleaned",
    "ncu-traffic.ncu-rep": "holds the environment and command line, and cannot be cleaned",
    ".work": "belongs to a running capture",
}
OTHER_FILE = "not on the list of what a bundle may hold"

# What a measurement ran on, without host, user, folder or serial number.
_ENVIRONMENT_KEYS_WORDS = (
    "os python_version cpu_model cpu_count memory_bytes git_commit torch_version cuda_version device gpu_name "
    "gpu_memory_bytes compute_capability sdpa_flags tf32_matmul torch_threads cudnn_loaded_version cudnn_loaded_from "
    "cublas_loaded_version cublas_loaded_from gpu_count driver_version nsys_version ncu_version clocks comparable_hash "
    "cudnn_version triton_version nsysprof_version ceilings power_limit_w clocks_locked"
)
ENVIRONMENT_KEYS = frozenset(_ENVIRONMENT_KEYS_WORDS.split())
_FIELDS = (
    "backend seq kv_seq batch heads kv_heads head_dim dtype causal pass mask layout "
    "format_version created_utc complete profiler method traced_calls range_keys cases environment steps notes missing "
    "name argv exit_code program duration_ns code severity text next_step kind "
    "before during after samples sm_clock_mhz sm_clock_mhz_min sm_clock_mhz_max memory_clock_mhz temperature_c "
    "temperature_c_max power_w throttle_reasons unit values "
    "plan processes rounds sample_seconds warmup_seconds seed flush graph check copies case_timeout_s "
    "ceilings bytes_per_s l2_bytes_per_s link_bytes_per_s flops blocks "
    "cell process round status reason started_ns values_ns offsets_ns graph_ns "
    "other_caches_ns empty_ns sustained locked_clock_mhz "
    "graph_reason launch_share warmup_calls stable throttled peak_bytes errors case time_ns "
    "session alpha again_from least_samples input_bytes peak_reserved_bytes peak_beyond_inputs_bytes "
    "costs range instances plain_instances wall_med_ns plain_wall_med_ns slowdown slowdown_low slowdown_high "
    "is_distorted in_one_run"
)
JSON_KEYS = ENVIRONMENT_KEYS | frozenset(_FIELDS.split())
# Objects whose keys are data: ranges, dtypes, tensors, flags. Where the value is not an object, it is a plain field.
MAPS = frozenset({"samples", "flops", "errors", "sdpa_flags", "sm_clock_mhz"})
