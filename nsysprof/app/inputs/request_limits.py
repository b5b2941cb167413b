"""Name the limits of requests that the option of a command and the check of its use case share."""

from __future__ import annotations

from nsysprof.results.block import LEAST_BLOCKS

# A tuner that ends with fewer blocks of its best backends has only begun to measure them.
LEAST_TUNING_BLOCKS = LEAST_BLOCKS
