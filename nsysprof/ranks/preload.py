"""Load all that reading a trace needs. The fork server loads this module, so its forks have it already."""

from __future__ import annotations

import pyarrow.pandas_compat
import pyarrow.parquet  # noqa: F401

from nsysprof.native.load import native_problem
from nsysprof.ranks.summarize import (
    code_version,
    summarize_rank,  # noqa: F401
)

# What these find is kept.
code_version()
native_problem()
