"""Define the one threshold for "launch-bound" that the measured process, the analysis and the reports share."""

from __future__ import annotations

# A call is launch-bound when its replay as a CUDA graph, which the CPU launches as one call, takes less than this share
# of its time. Where that was not measured, it is when kernels fill less than this share.
LAUNCH_BOUND_SHARE = 0.75
# From this share of launching on, a search also times the call as a CUDA graph, so that calls near the threshold have
# both times in every block.
CAPTURED_SHARE = 0.5
