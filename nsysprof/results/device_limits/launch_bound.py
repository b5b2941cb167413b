"""Define the one threshold of "launch-bound", which the measured process, the analysis and the reports share."""

from __future__ import annotations

# A call is launch-bound when a replay as a CUDA graph, which the CPU launches at once, takes less than this part of it.
# Where that was not measured: when the GPU's kernels fill less than this part.
LAUNCH_BOUND_SHARE = 0.75
