"""Define the one threshold of "launch-bound", which the measured process, the analysis and the reports share."""

from __future__ import annotations

# A call is launch-bound when the CPU's launching takes at least this part of it, or the GPU's kernels fill less.
LAUNCH_BOUND_SHARE = 0.75
