"""Recognise ranges that libraries open around their own work, which say nothing about the user's program."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Bools, Int64s

# Domains of libraries that annotate their own work: their ranges lie inside the program's.
LIBRARY_DOMAINS = frozenset({"NCCL", "CCCL", "CUB", "Thrust", "cuBLAS", "cuBLASLt", "cuDNN", "cuDNN-FE", "TensorRT"})
_LIBRARY_NAMES = re.compile(r"CCCL::|cub::|thrust::|nccl[A-Z]|cublas|cudnn|autograd::engine|aten::|TSL:|Xla[A-Z]")
# XLA's range of a function of the program that JAX compiled.
_COMPILED = "XlaModule:"


def is_of_library(name: str, domain: str) -> bool:
    """Return whether a library opened ranges of this name and domain around its own work."""
    is_named = _LIBRARY_NAMES.match(name) is not None and not name.startswith(_COMPILED)
    return domain in LIBRARY_DOMAINS or is_named


def users_ranges(ranges: pd.DataFrame) -> Bools:
    """Return for each range whether the user's program opened it, and not a library or an operator of torch.

    ranges: name, domain, optionally torch's op_id and seq (-1: none), and optionally the group of each range: ranges of
        one group have the same name and domain.
    """
    code, some = one_of_each_group(ranges)
    named = [_LIBRARY_NAMES.match(name) is None for name in some["name"].tolist()]
    of_user: Bools = np.array(named, dtype=bool) & ~some["domain"].isin(LIBRARY_DOMAINS).to_numpy(dtype=bool)
    of_user = of_user[code]
    for column in ("op_id", "seq"):
        if column in ranges:
            of_user &= ranges[column].to_numpy(dtype=np.int64) < 0
    return of_user


def one_of_each_group(ranges: pd.DataFrame) -> tuple[Int64s, pd.DataFrame]:
    """Return one range of each name and domain, and for each range which of these it is like."""
    if "group" in ranges:
        group = ranges["group"].to_numpy(dtype=np.int64)
    else:
        group = pd.factorize(pd.MultiIndex.from_frame(ranges[["name", "domain"]]))[0].astype(np.int64)
    row_of = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    row_of[group] = np.arange(len(group))
    present = row_of >= 0
    return (np.cumsum(present) - 1)[group], ranges.iloc[row_of[present]]
