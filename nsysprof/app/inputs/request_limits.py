"""Name the limits of requests that the option of a command and the check of its use case share."""

from __future__ import annotations

from nsysprof.results.block import LEAST_BLOCKS

# A tuner that ends with fewer blocks of its best backends has only begun to measure them.
LEAST_TUNING_BLOCKS = LEAST_BLOCKS
# The limits of a recording of a held program: its length (s), how long steps around it are watched (s), parts kept.
LONGEST_RECORDING_S = 24 * 3600.0
MOST_WATCHED_S = 3600.0
MOST_KEPT_PARTS = 10_000
