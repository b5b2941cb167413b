"""Recognise ranges that libraries open around their own work, which say nothing about the user's program."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Bools

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

    ranges: name, domain, and optionally torch's op_id and seq (-1: none).
    """
    codes, names = pd.factorize(ranges["name"])
    of_library = np.array([_LIBRARY_NAMES.match(name) is not None for name in names.tolist()], dtype=bool)
    of_user: Bools = ~ranges["domain"].isin(LIBRARY_DOMAINS).to_numpy(dtype=bool)
    if len(codes):
        of_user &= ~of_library[codes]
    for column in ("op_id", "seq"):
        if column in ranges:
            of_user &= ranges[column].to_numpy(dtype=np.int64) < 0
    return of_user
