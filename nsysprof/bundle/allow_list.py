"""List what a shared trace may contain: tables, columns, metadata and diagnostic texts. Everything else is dropped.

An nsys export contains the program's whole environment, user, host, command line, the names of all processes, and what
the program printed. An allow-list stays safe when a new nsys version adds a table; a deny-list does not.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from functools import cache
from importlib.resources import files

from nsysprof.bundle.public_names import is_gpu, is_nsys_text


class Kind(Enum):
    """The kind of a column's content, which decides how it is copied."""

    INT = "integer"  # copied; anything but an integer becomes NULL
    GLOBAL_ID = "globalPid or globalTid"  # process and thread renumbered
    PROCESS_ID = "pid"  # renumbered in the same way
    STRING_ID = "row of StringIds"  # copied, and that string is kept
    TEXT = "text"  # redacted
    PAYLOAD = "payload of an NVTX range"  # sizes, ranks and renumbered communicators of NCCL are copied
    SAMPLE = "counters as JSON"  # counters of DRAM and SMs are copied, if they are numbers


def _read_tables() -> dict[str, tuple[str, ...]]:
    text = files("nsysprof.bundle").joinpath("shared_tables.txt").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\n ", " ").splitlines()
    return {table: tuple(columns) for table, *columns in map(str.split, lines)}


TABLES = _read_tables()
# Names on which no number depends: of variables in the user's code, and a second copy of kernels' names.
PRIVATE_COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("mangledName",),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": ("name",),
}
# Kept for people who look at the trace; our numbers do not depend on them.
_UNREAD_WORDS = "TARGET_INFO_CUDA_STREAM TARGET_INFO_CUDA_CONTEXT_INFO TARGET_INFO_CUDA_NULL_STREAM"
UNREAD = frozenset(_UNREAD_WORDS.split())
SAMPLED = frozenset({"GPU_METRICS", "TARGET_INFO_GPU_METRICS", "GENERIC_EVENTS"})
METADATA_TABLES = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
# Tables that nsys itself writes. The name of any other table may be private and is not shown.
NSYS_TABLE = re.compile(
    r"(ANALYSIS|COMPOSITE|CUBLAS|CUDA|CUDNN|CUPTI|D3D1?\d?|DIAGNOSTIC|DX1[12]|ENUM|ETW|EXPORT|FAULT|FECS|FTRACE|GENERIC"
    r"|GPU|KHR|META_DATA|MPI|NET|NIC|NVTX|NVVIDEO|OPENACC|OPENGL|OPENMP|OPENXR|OSRT|PERF|PMU|PROCESS|PROFILER|QNX"
    r"|SAMPLING|SCHED|SLI|SOC|TARGET_INFO|THREAD|UCX|UNIFIED|UVM|VULKAN|WDDM)_[A-Z0-9_]{1,60}"
    r"|PROCESSES|ProcessStreams|StringIds|ThreadNames|UnwindMethodType"
)
ENUM_COLUMNS = ("id", "name", "label")
ENUM_NAME = re.compile(r"ENUM_(NSYS|CUDA|CUPTI|DIAGNOSTIC|NVTX|OPENGL|OPENACC|MPI|UCX|VULKAN|D3D|WDDM|OSRT)_[A-Z0-9_]+")
ENUM_MAX_ROWS = 1000
STRINGS = "StringIds"

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("globalPid", "globalTid", "endGlobalTid"), Kind.GLOBAL_ID),
    **dict.fromkeys(("pid", "processId", "importedMemoryPoolProcessId"), Kind.PROCESS_ID),
    **dict.fromkeys(("demangledName", "shortName", "mangledName", "nameId", "textId"), Kind.STRING_ID),
    "data": Kind.SAMPLE,
    "binaryData": Kind.PAYLOAD,
    **dict.fromkeys(("name", "label", "text", "chipName", "typeName", "metricName"), Kind.TEXT),
}


def column_kind(column: str) -> Kind:
    return _KINDS.get(column, Kind.INT)


@cache
def base_name(table: str) -> str:
    """Return the name without the `_V2` that some exporters append."""
    return re.sub(r"_V\d+$", "", table)


def allowed_columns(table: str) -> tuple[str, ...] | None:
    """Return the columns to copy, or None for a table to drop. Metadata and StringIds are rebuilt separately."""
    if ENUM_NAME.fullmatch(table):
        return ENUM_COLUMNS
    return TABLES.get(base_name(table))


_GPU_TABLES = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")


def keeps_label(table: str, column: str, text: str) -> bool:
    """Return whether a text that nsys writes by itself, and no program, is one that it can have written."""
    if ENUM_NAME.fullmatch(table) or base_name(table) == "TARGET_INFO_GPU_METRICS":
        return is_nsys_text(text)
    return column not in ("name", "chipName") or base_name(table) not in _GPU_TABLES or is_gpu(text)


_VERSION = (
    r"\d{1,4}(\.\d{1,4}){0,4}(\.?(dev|post|rc|a|b)\d{0,8})?(-\d{6,14}v\d)?"
    r"(\+(cpu|cu\d{2,3}|rocm\d(\.\d{1,2}){0,2}|(git)?[0-9a-f]{7,10}(\.nv\d\d\.\d\d)?))?"
)
_SWITCH = r"true|false|\d{0,10}"
# The values of metadata that are shared, by name.
_METADATA: dict[str, str] = {
    r"EXPORT_SCHEMA_VERSION(_MAJOR|_MINOR|_MICRO)?|EXPORT_PRODUCT_(VERSION|DATE)|NSYSPROF:(TOOL_)?VERSION": _VERSION,
    r"EXPORT_SCHEMA_VERSION_CKSUM": r"\d{1,10} \d{1,8}",
    r"EXPORT_PRODUCT_NAME": r"NVIDIA Nsight Systems",
    r"EXPORT_PLATFORM": r"(linux|windows|macosx?|qnx|android|tegra)(-(desktop|embedded|server|sbsa|l4t|arm64)){0,2}",
    r"EXPORT_ARCH": r"x64|x86|x86_64|amd64|arm64|aarch64|sbsa",
    r"EXPORT_(PARAM_|CONFIG_)?TIME_SHIFT": r"-?\d{1,19}",
    r"EXPORT_(PARAM_)?TIMES_TO_EXPORT": r"|\d{1,13}(ns|us|ms|s)?([-/,: ]\d{1,13}(ns|us|ms|s)?){0,20}",
    r"EXPORT_(PARAM_)?(LAZY|TIME_NORMALIZE|INCLUDE_(JSON|BLOBS))|RATE_HZ|RUN_DURATION_MS|INCLUDE_CHILDREN": _SWITCH,
    r"(PROCESS_\d{1,3}:)?(COLLECT_[A-Z0-9_]+|CUDA_FLUSH_[A-Z_]+|CUDA_SKIP_SOME_API_CALLS)": _SWITCH,
    r"GPU_METRICS[A-Z0-9_:]*": _SWITCH,
    r"NSYSPROF:TOOL": r"nsys|torch",
    r"NSYSPROF:WORK_KIND": r"kernel|operator",
    r"NSYSPROF:MEMORY_KIND": r"allocator|driver",
}
_METADATA_PATTERNS = tuple((re.compile(name), re.compile(value)) for name, value in _METADATA.items())
_WORDED = re.compile(r"(PROCESS_\d{1,3}:)?CUDA_GRAPH_TRACE_OPTIONS:MODE|CAPTURE_EVENT_TYPE|GPU_METRICS[A-Z0-9_:]*")
_TABLES_CHOSEN = re.compile(r"EXPORT_(PARAM_)?TABLES_TO_EXPORT|NSYSPROF:LEFT_OUT")
_OUTSIDE = ("everything outside the requested ranges", "everything outside the ranges that were asked for")


def keeps_metadata(name: str, value: str) -> bool:
    """Return whether this row says how the trace was made, in a value of the form that nsys or nsysprof writes."""
    if _TABLES_CHOSEN.fullmatch(name):
        return len(value) < 4_000 and all(map(_is_part_of_trace, re.split(r"[ ]?[,;][ ]?", value)))
    if _WORDED.fullmatch(name) and is_nsys_text(value):
        return is_nsys_text(name)
    is_known = any(names.fullmatch(name) and values.fullmatch(value) for names, values in _METADATA_PATTERNS)
    return is_known and is_nsys_text(name)


def _is_part_of_trace(name: str) -> bool:
    return not name or name in _OUTSIDE or name in METADATA_TABLES or base_name(name) in TABLES or is_nsys_text(name)


_COUNTER = re.compile(
    r"([DV]RAM [\w ]{0,40}(Throughput|Bandwidth)|SMs? Active)[\w ]{0,20}( ?\[[\w %]{1,20}\])?", re.IGNORECASE
)


def sample_of(data: str | None) -> str | None:
    """Return the counters of DRAM and SMs in a sample as JSON, or None for an event of another kind."""
    try:
        event = json.loads(data or "")
    except (ValueError, RecursionError):
        return None
    counters = event.items() if isinstance(event, dict) else ()
    kept = {name: number for name, value in counters if _COUNTER.fullmatch(name) and (number := _number(value))}
    return json.dumps(kept) if kept else None


def _number(value: object) -> str | None:
    """Return a number as a text, as nsys writes it there."""
    text = str(value)
    return text if isinstance(value, int | float | str) and re.fullmatch(r"-?\d{1,20}(\.\d{1,20})?", text) else None


# Messages of nsys itself. `<path>` stands where a message names a file.
_DIAGNOSTICS = re.compile(
    r"Profiling has (started|stopped)\."
    r"|Process was launched by the profiler, see <path> and stderr\.log for program output"
    r"|Number of [\w ]+ events (collected|produced|lost|dropped): ?\s?\d+[.,]?( CUPTI buffers: \d+\.)?"
    r"|No(t all)? [\w ]+ events (collected|might have been collected)\.( Does the process use [\w ]+\?)?"
    r"|(Common|CUDA|NVTX|OS runtime libraries) injection (library )?initialized successfully\."
    r"|Buffers holding CUDA trace data will be flushed on CudaProfilerStop\(\) call\."
    r" See --flush-on-cudaprofilerstop to control this behavior\."
    r"|Loaded CUPTI library: <path>"
    r"|Enabling trace for device graph launch"
    r"|(Starting|Stopping) the profiling session using [\w ]+ trigger\."
    r"|[\w ]+ profiling might have not been started correctly\."
    r"|GPU Metrics \[\d+\]: [\w .,:()@#%/-]+"
    r"|NVTX (function|payload) [\w .,()=!?-]+"
    r"|Installed CUDA driver version \([\d.]+\) is not supported by this build[\w .,()-]*"
    r"|[\w ]*buffers? [\w ]*(overflow|full|lost|dropped)[\w .,:()-]*"
    r"|Error when processing events: Source ID=(\nDynamic exception type: boost::wrapexcept<QuadD\w+::\w+>)?"
    r"(\nCannot find [a-z ]{1,60})?"
    r"|An error of nsys was left out\."
    r"|(CUPTI|CUDA|GPU)[\w ]* (error|failed|failure|lost|dropped|overflow|unsupported|not supported)[\w .,:()=-]*",
    re.IGNORECASE,
)


# The text that replaces an error of nsys in any other form, so that the reader still learns that something was lost.
LEFT_OUT_ERROR = "An error of nsys was left out."
# ENUM_DIAGNOSTIC_SEVERITY_LEVEL.
ERROR_SEVERITY = 3
_IMPORT_FAILED = re.compile(r"Error when processing events: Source ID=")
# The parts of such a message that are nsys' own and say what happened.
_IMPORT_PARTS = re.compile(
    r"^Error when processing events: Source ID=|^Dynamic exception type: boost::wrapexcept<QuadD\w{1,60}::\w{1,60}>"
    r"|Cannot find [a-z ]{1,60}$",
    re.MULTILINE,
)


def condense_import_failure(text: str) -> str:
    """Return only nsys' own words of a message on a failed import; any other message unchanged."""
    if not _IMPORT_FAILED.match(text):
        return text
    return "\n".join(dict.fromkeys(_IMPORT_PARTS.findall(text[:4_000])))


def keeps_diagnostic(text: str) -> bool:
    """Return whether a message, with its paths already replaced, is one that nsys itself writes."""
    return len(text) <= 1000 and bool(_DIAGNOSTICS.fullmatch(text))


# Every word that any sanitised trace contains anyway, so that finding it reveals nothing.
PUBLIC_TEXT = "\n".join(
    [
        *TABLES,
        *(column for columns in TABLES.values() for column in columns),
        *METADATA_TABLES,
        STRINGS,
        "SQLite format 3\nCREATE TABLE INTEGER REAL TEXT PRIMARY KEY\nid name label value sqlite_schema",
        "EXPORT_SCHEMA_VERSION_MAJOR EXPORT_SCHEMA_VERSION_MINOR EXPORT_SCHEMA_VERSION_MICRO EXPORT_PRODUCT_NAME",
        "EXPORT_PRODUCT_VERSION EXPORT_PRODUCT_DATE EXPORT_SCHEMA_VERSION_CKSUM EXPORT_PLATFORM EXPORT_ARCH",
        "NVIDIA Nsight Systems\nlinux-desktop\nPROCESS_0:COLLECT_ CUDA_GRAPH_TRACE_OPTIONS:MODE NSYSPROF",
        "Profiling has started. Profiling has stopped.\nCommon injection library initialized successfully.",
        "<redacted> <path-1> <path> <url-1> <email>",
    ]
)
