"""Tell what each kernel needs at least: from the shapes of its operator, else from what ncu counted of its launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.results.kernel_counters import FP64_METRICS, TENSOR_METRICS, CountedLaunches
from nsysprof.results.roof import Peak
from nsysprof.trace.schema import Floats, Work

# The work of a kernel is known where launches with so much of its time were counted.
_LEAST_COUNTED = 0.9
# The dtype whose rate a metric of tensor cores has, by a part of its name.
_TENSOR_DTYPES = {"src_fp16": "fp16", "src_bf16": "bf16", "src_tf32": "tf32", "src_fp8": "fp8", "src_fp4": "fp4"}


@dataclass(frozen=True)
class KernelNeeds:
    """What each kernel of a trace needs, with one number for each; NaN where it is unknown."""

    flops: Floats
    least_bytes: Floats
    floor_ns: Floats

    @property
    def each(self) -> tuple[Floats, Floats, Floats]:
        """Return the three in the order of their columns."""
        return self.flops, self.least_bytes, self.floor_ns


def needs_of_launch(launches: CountedLaunches, peak: Peak | None) -> tuple[float | None, float | None, float | None]:
    """Return the FLOP, the bytes of DRAM and the floor (ns) of one launch as ncu counted it; None for each unknown.

    The floor is at the rates of the units that it used: a product without tensor cores is at the rate of plain fp32.
    """
    counted = launches.counted
    if counted is None:
        return None, None, None
    values = counted.values
    moved = [values.get(f"dram_{way}_bytes") for way in ("read", "write")]
    least_bytes = None if None in moved else sum(part or 0.0 for part in moved)
    fp64 = sum(weight * counted.more.get(name, 0.0) for name, weight in FP64_METRICS.items())
    single = values.get("fp32_flops")
    tensor: dict[str, float] = defaultdict(float)
    for metric, count in counted.more.items():
        if metric.startswith(TENSOR_METRICS):
            tensor[next((d for part, d in _TENSOR_DTYPES.items() if part in metric), metric)] += count
    flops = None if single is None else single + fp64 + sum(tensor.values())
    if least_bytes is None or flops is None or peak is None:
        return flops, least_bytes, None
    used = {dtype: count for dtype, count in {**tensor, "fp64": fp64}.items() if count}
    if not used.keys() <= peak.flops.keys():
        return flops, least_bytes, None
    # Tensor cores and the other cores can work at the same time.
    times_s = [
        least_bytes / peak.bytes_per_s,
        (single or 0.0) / peak.flops["fp32"] if "fp32" in peak.flops else 0.0,
        sum(count / peak.flops[dtype] for dtype, count in used.items()),
    ]
    return flops, least_bytes, 1e9 * max(times_s)


def needs_of_counted(
    work: Work, names: Names, launches: Sequence[CountedLaunches], peak: Peak | None
) -> KernelNeeds | None:
    """Return what kernels need by their counters; None where nothing was counted.

    All launches of one kernel together need the sum over its grids. A single one has its share by its duration.
    """
    if not any(part.counted is not None for part in launches):
        return None
    of_name: dict[str, list[CountedLaunches]] = defaultdict(list)
    for part in launches:
        of_name[part.kernel].append(part)
    per_ns = np.full((3, len(names.texts)), np.nan)
    for number, text in enumerate(names.texts.tolist()):
        parts = [(part, needs_of_launch(part, peak)) for part in of_name.get(str(text), ())]
        total_ns = sum(part.total_ns for part, _ in parts)
        for row in range(3):
            known = [(part, needs[row]) for part, needs in parts if needs[row] is not None]
            known_ns = sum(part.total_ns for part, _ in known)
            if known_ns > 0 and known_ns >= _LEAST_COUNTED * total_ns:
                per_ns[row, number] = sum(part.instances * (need or 0.0) for part, need in known) / known_ns
    # In the trace a kernel may find in the L2 what it had to read from DRAM when it was counted with cold caches.
    per_ns[2] = np.minimum(per_ns[2], 1.0)
    of_kernel = names.of_variant[work.variant[: work.kernels]]
    duration = work.duration_ns[: work.kernels]
    return KernelNeeds(*(np.multiply(rate[of_kernel], duration, dtype=np.float64) for rate in per_ns))


def join_needs(first: KernelNeeds | None, second: KernelNeeds | None) -> KernelNeeds | None:
    """Return the needs of `first`, and of `second` where the first knows nothing of a kernel."""
    if first is None or second is None:
        return first or second
    nothing = np.isnan(first.flops) & np.isnan(first.least_bytes)
    return KernelNeeds(*(np.where(nothing, two, one) for one, two in zip(first.each, second.each, strict=True)))
