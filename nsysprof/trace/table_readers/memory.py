"""Read allocations and frees, and the memory pools that some of them come from."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.trace.columns import read_integers
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL
from nsysprof.trace.table_readers.devices import Gpus

_REQUIRED = {"start": "time_ns", "address": "address", "bytes": "bytes", "memoryOperationType": "operation"}
_OPTIONAL = {
    "globalPid": "global_pid", "deviceId": "device_id", "memKind": "kind", "localMemoryPoolAddress": "pool",
    "localMemoryPoolSize": "pool_bytes", "importedMemoryPoolAddress": "imported",
}  # fmt: skip
_POOL_REQUIRED = {"start": "time_ns", "address": "pool", "operationType": "pool_operation"}
_POOL_OPTIONAL = {"globalPid": "global_pid", "deviceId": "device_id", "localMemoryPoolSize": "pool_bytes"}
_POOL_DESTROYED = 2
POOL_RESIZED = 2
_DEVICE_KIND = 2


def read_memory(trace: Trace, gpus: Gpus) -> pd.DataFrame | None:
    """Return the rows of CUDA_GPU_MEMORY_USAGE_EVENTS, with the pools of CUDA_GPU_MEMORY_POOL_EVENTS.

    Return None where the first table has no rows. A full export has it even when memory was not traced (without
    --cuda-memory-usage=true), and every CUDA program allocates some.
    """
    table = read_integers(trace, "CUDA_GPU_MEMORY_USAGE_EVENTS", _REQUIRED, _OPTIONAL)
    if table is None or len(table) == 0:
        return None
    pools = read_integers(trace, "CUDA_GPU_MEMORY_POOL_EVENTS", _POOL_REQUIRED, _POOL_OPTIONAL)
    if pools is not None and len(pools):
        pools.loc[pools.pop("pool_operation") == _POOL_DESTROYED, "pool_bytes"] = 0
        blank = {"address": NULL, "bytes": 0, "operation": POOL_RESIZED, "kind": _DEVICE_KIND, "imported": NULL}
        table = pd.concat([table, pools.assign(**blank)[table.columns]], ignore_index=True)
    table["device_id"] = gpus.numbers(
        *(table[column].to_numpy(dtype=np.int64) for column in ("global_pid", "device_id"))
    )
    return table
