"""The DDL of nsys exports from 2020.3 to 2026.2 as data: which table and column came when, and what may be NULL.

What is real: 2022.4, 2023.4 and 2024.2 are those of full exports (`nsys export --lazy=false`) by 2022.4.2, 2023.4.4 and
2024.2.3, and 2025.3 that of the exports by 2025.3.2 in traces/; tests/trace/test_generations.py compares them. The
others follow the history in NVIDIA's documentation and in public traces: 2020.3, 2020.5, 2021.3, 2022.2 (schema 2.9.1),
2026.1 (3.24.14) and 2026.2 (3.25.0). In them a column that the history does not name is as in the nearest real one, and
TARGET_INFO_CUDA_GPU and the TARGET_INFO_GPU of 2020.5 hold only the columns that are known.

Only tables that matter to a reader of CUDA and NVTX are here; an export has a hundred more.
"""

from __future__ import annotations

import re
from functools import cache

GENERATIONS = (
    "2020.3", "2020.5", "2021.3", "2022.2", "2022.4", "2023.4", "2024.2", "2025.3", "2026.1", "2026.2",
)  # fmt: skip
# Of each generation that writes them: its metadata table, product version and schema version. Which product wrote the
# schemas 2.9.1, 3.24.14 and 3.25.0 is inferred, and the last digits of those three products are made up.
VERSIONS = {
    "2022.2": ("EXPORT_META_DATA", "2022.2.1.31", "2.9.1"),
    "2022.4": ("EXPORT_META_DATA", "2022.4.2.1", "3.0.0"),
    "2023.4": ("META_DATA_EXPORT", "2023.4.4.54", "3.7.2"),
    "2024.2": ("META_DATA_EXPORT", "2024.2.3.38", "3.11.1"),
    "2025.3": ("META_DATA_EXPORT", "2025.3.2.0", "3.20.3"),
    "2026.1": ("META_DATA_EXPORT", "2026.1.1.0", "3.24.14"),
    "2026.2": ("META_DATA_EXPORT", "2026.2.1.0", "3.25.0"),
}

# A line without indentation is a table, then come its columns in order. `!` is NOT NULL, `:text` and `:real` are types
# (INTEGER otherwise), `*` is PRIMARY KEY. `@2023.4` is since that generation, `@2022.4..2023.4` from and up to.
_HISTORY = """
StringIds
    id!* value!:text
ANALYSIS_DETAILS
    globalVid! duration! startTime! stopTime!
TARGET_INFO_SESSION_START_TIME@2021.3
    utcEpochNs utcTime:text localTime:text systemClockNs@2026.1
EXPORT_META_DATA@2022.2..2022.4
    name!:text value:text
META_DATA_EXPORT@2023.4
    name!:text value:text
META_DATA_CAPTURE@2023.4
    name!:text value:text
DIAGNOSTIC_EVENT@2024.2
    timestamp! timestampType! source! severity! text!:text globalPid

TARGET_INFO_CUDA_GPU@2020.3..2020.5
    deviceId! name:text numMultiprocessors numThreadsPerWarp maxWarpsPerMultiprocessor coreClockRate maxIPC
    computeCapabilityMajor
TARGET_INFO_GPU@2020.5
    vmId!@2021.3 deviceId!@2020.5..2020.5 id!@2021.3 name:text busLocation:text isDiscrete l2CacheSize@2021.3
    totalMemory@2021.3 memoryBandwidth@2021.3 clockRate@2021.3 smCount@2021.3 pwGpuId@2021.3 uuid:text luid@2021.3
    chipName:text@2021.3 cuDevice@2021.3 ctxswDevPath:text@2021.3 ctrlDevPath:text@2021.3 revision@2021.3
    nodeMask@2021.3 constantMemory@2021.3 maxIPC@2021.3 maxRegistersPerBlock@2021.3 maxShmemPerBlock@2021.3
    maxShmemPerBlockOptin@2021.3 maxShmemPerSm@2021.3 maxRegistersPerSm@2021.3 threadsPerWarp@2021.3
    asyncEngines@2021.3 maxWarpsPerSm@2021.3 maxBlocksPerSm@2021.3 maxThreadsPerBlock@2021.3 maxBlockDimX@2021.3
    maxBlockDimY@2021.3 maxBlockDimZ@2021.3 maxGridDimX@2021.3 maxGridDimY@2021.3 maxGridDimZ@2021.3
    computeMajor@2021.3 computeMinor@2021.3 smMajor@2021.3 smMinor@2021.3
TARGET_INFO_CUDA_DEVICE@2025.3
    gpuId cudaId! pid!
TARGET_INFO_CUDA_NULL_STREAM@2020.3..2022.4
    streamId! hwId! vmId! processId! deviceId! contextId!
TARGET_INFO_CUDA_CONTEXT_INFO@2023.4
    nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext
TARGET_INFO_CUDA_STREAM
    streamId! hwId! vmId! processId! contextId! priority! flag!

CUPTI_ACTIVITY_KIND_KERNEL
    start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid demangledName! shortName!
    mangledName@2022.2 launchType cacheConfig registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ!
    staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted
    graphNodeId sharedMemoryLimitConfig@2020.5 qmdBulkReleaseDone@2026.1 qmdPreexitDone@2026.1 qmdLastCtaDone@2026.1
    graphId@2026.1 clusterX@2026.1 clusterY@2026.1 clusterZ@2026.1 clusterSchedulingPolicy@2026.1
    maxPotentialClusterSize@2026.1 maxActiveClusters@2026.1 sharedMemoryRequestedPercentage@2026.1
    tensorSizeMinusOneElements!:text@2026.2
CUPTI_ACTIVITY_KIND_MEMCPY
    start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid bytes! copyKind!
    deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause@2020.5 graphNodeId
    virtualAddress@2022.2 copyCount@2025.3
CUPTI_ACTIVITY_KIND_MEMSET
    start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid value! bytes! graphNodeId
    memKind@2021.3
CUPTI_ACTIVITY_KIND_RUNTIME
    start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId@2020.5
CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
    start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid deprecatedSyncType@2025.3
    syncType! eventId! eventSyncId@2025.3
CUPTI_ACTIVITY_KIND_GRAPH_TRACE@2024.2
    start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid graphId! graphExecId!
CUPTI_ACTIVITY_KIND_OVERHEAD@2026.1
    start! end! eventClass! globalTid correlationId nameId overheadType!
PROFILER_OVERHEAD
    start! end! globalTid correlationId@2020.3..2021.3 nameId! returnValue!@2020.3..2025.3 overheadType!@2026.1
CUDA_GRAPH_EVENTS@2022.4
    start! end! eventClass! globalTid nameId! graphNodeId!@2022.4..2023.4 originalGraphNodeId@2022.4..2023.4
    graphId@2024.2 originalGraphId@2024.2 graphExecId@2024.2
CUDA_GRAPH_NODE_EVENTS@2024.2
    start! end! eventClass! globalTid nameId! graphNodeId! originalGraphNodeId

CUDA_GPU_MEMORY_USAGE_EVENTS@2022.2
    start! globalPid! deviceId! contextId! address! pc! bytes! memKind! memoryOperationType! name:text correlationId
    streamId@2025.3 localMemoryPoolAddress@2022.4 localMemoryPoolReleaseThreshold@2022.4 localMemoryPoolSize@2022.4
    localMemoryPoolUtilizedSize@2022.4 importedMemoryPoolAddress@2022.4 importedMemoryPoolProcessId@2022.4
CUDA_GPU_MEMORY_POOL_EVENTS@2022.4
    start! globalPid! deviceId! address! operationType! poolType! correlationId minBytesToKeep
    localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize

NVTX_EVENTS
    start! end eventType! rangeId category color text:text globalTid endGlobalTid textId domainId uint64Value int64Value
    doubleValue:real uint32Value int32Value floatValue:real jsonTextId jsonText:text binaryData:text@2025.3
NVTX_PAYLOAD_SCHEMAS@2025.3
    domainId schemaId name:text type flags numEntries payloadSize alignTo
NVTX_PAYLOAD_SCHEMA_ENTRIES@2025.3
    domainId! schemaId! idx! flags type name:text description:text arrayOrUnionDetail offset

GPU_METRICS@2023.4
    rawTimestamp!@2025.3 timestamp@2023.4..2024.2 timestamp!@2025.3 typeId! metricId! value!
TARGET_INFO_GPU_METRICS@2023.4
    typeId! sourceId! typeName!:text metricId! metricName!:text
GENERIC_EVENTS@2023.4
    rawTimestamp! timestamp typeId! data!:text

ENUM_NSYS_EVENT_TYPE@2022.4
    id!* name:text label:text
ENUM_NSYS_EVENT_CLASS@2022.4
    id!* name:text label:text
ENUM_CUDA_MEMCPY_OPER@2022.4
    id!* name:text label:text
ENUM_CUDA_MEM_KIND@2022.4
    id!* name:text label:text
ENUM_CUDA_DEV_MEM_EVENT_OPER@2022.4
    id!* name:text label:text
ENUM_CUDA_KRENEL_LAUNCH_TYPE@2022.4..2022.4
    id!* name:text label:text
ENUM_CUDA_KERNEL_LAUNCH_TYPE@2023.4
    id!* name:text label:text
"""
# Rows that every export of a generation with such tables has, whatever was traced.
LABELS = {
    "ENUM_NSYS_EVENT_TYPE": {59: "NvtxPushPopRange", 60: "NvtxStartEndRange", 75: "NvtxDomainCreate"},
    "ENUM_NSYS_EVENT_CLASS": {0: "CUDA_RUNTIME", 1: "CUDA_DRIVER", 67: "CUDABACKTRACE"},
    "ENUM_CUDA_MEMCPY_OPER": {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device"},
    "ENUM_CUDA_MEM_KIND": {0: "Pageable", 1: "Pinned", 2: "Device"},
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": {0: "Allocation", 1: "Deallocation"},
    "ENUM_CUDA_KRENEL_LAUNCH_TYPE": {1: "Regular"},
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": {1: "Regular"},
}
_WORD = re.compile(r"(?P<name>\w+)(?P<required>!?)(?P<key>\*?)(:(?P<type>\w+))?(@(?P<span>[\d.]+))?")


@cache
def schema(generation: str) -> dict[str, dict[str, str]]:
    """Return the tables of a generation: for each its columns in order, name -> type and constraints."""
    tables: dict[str, dict[str, str]] = {}
    columns: dict[str, str] = {}
    for line in filter(None, _HISTORY.splitlines()):
        for word in line.split():
            found = _WORD.fullmatch(word)
            assert found, word
            present = generation in _span(found["span"])
            if not line.startswith(" "):
                columns = {}
                if present:
                    tables[found["name"]] = columns
            elif present:
                constraints = " NOT NULL" * bool(found["required"]) + " PRIMARY KEY" * bool(found["key"])
                columns[found["name"]] = (found["type"] or "integer").upper() + constraints
    return tables


def _span(text: str | None) -> tuple[str, ...]:
    """Return the generations of `2023.4`, `2022.4..2023.4` or of no limit."""
    if text is None:
        return GENERATIONS
    first, _, last = text.partition("..")
    end = GENERATIONS.index(last) + 1 if last else len(GENERATIONS)
    return GENERATIONS[GENERATIONS.index(first) : end]
