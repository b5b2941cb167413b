"""Define the limits of requests that both a command's option and its use case check."""

from __future__ import annotations

from nsysprof.results.samples import LEAST_BLOCKS

# With fewer blocks of its best backends, a tuning has barely begun to measure them.
LEAST_TUNING_BLOCKS = LEAST_BLOCKS
# The limits of recording a held program: the length of a recording (s), how long steps before and after it are watched
# (s), and how many parts are kept.
LONGEST_RECORDING_S = 24 * 3600.0
MOST_WATCHED_S = 3600.0
MOST_KEPT_PARTS = 10_000
# The smallest value of time options where zero would measure nothing (s).
LEAST_SECONDS = 0.001
