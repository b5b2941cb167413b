"""Know kernels of foreach optimizers, which are elementwise by their names: by their order, and by their operators."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from nsysprof.analysis.busy_time.operators import Operators
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.arrays import rows_by_key
from nsysprof.trace.schema import KERNEL, Bools, Ints, Rows, Tables

# A foreach kernel, with the number of tensors that it reads; it writes one.
_FOREACH = re.compile(
    r"multi_tensor_apply_kernel.*(?:Unary|Binary|Ternary|Pointwise)Op\w*Functor<[^<>]*?, (?:\(int\))?\d, "
    r"(?:\(int\))?(\d), (?:\(int\))?\d>"
)
# Clipping multiplies the gradients by a tensor before the optimizer begins.
_CLIPS = re.compile(r"ScalarTensorFunctor")
# The most characters to look at in a name.
_MOST_READ = 4_096
# The pieces of Adam. Its addcmul reads the same gradient twice.
_ADDCMUL = re.compile(r"PointwiseOp.*multiplies")
_PIECES = (re.compile(r"Lerp"), _ADDCMUL, re.compile(r"Sqrt"), re.compile(r"PointwiseOp.*divides"))


def rows_of_adam(kinds: Sequence[str], number: Ints, stream: Ints) -> list[Rows]:
    """Return the foreach kernels of each step of an Adam: what follows one another on a stream with all its pieces.

    Nothing else puts these pieces into one row.

    kinds: the names of kernels. number: of each kernel's name, in the order of the work; -1 for other work.
    """
    texts = [name[:_MOST_READ] for name in (*kinds, "")]
    foreach = np.array([bool(_FOREACH.search(name)) and not _CLIPS.search(name) for name in texts], dtype=bool)
    pieces = np.array([[bool(piece.search(name)) for piece in _PIECES] for name in texts], dtype=bool)
    if not pieces.any(axis=0).all():
        return []
    steps = []
    for _, mine in rows_by_key(pd.Series(stream)):
        edges = np.flatnonzero(np.diff(foreach[number[mine]].astype(np.int8))) + 1
        for part in np.split(mine, edges):
            if len(part) and foreach[number[part[0]]] and pieces[number[part]].any(axis=0).all():
                steps.append(part.astype(np.int32))
    return steps


def count_passes(name: str) -> int:
    """Return how many tensors a foreach kernel reads and writes in all; 0 for other kernels."""
    text = name[:_MOST_READ]
    found = _FOREACH.search(text)
    return 0 if found is None else int(found[1]) + 1 - bool(_ADDCMUL.search(text))


def find_optimizer_kernels(tables: Tables, names: Names, operators: Operators | None) -> Bools | None:
    """Return which work is an elementwise kernel of an optimizer, by order and operators; None where none is."""
    work, kinds = tables.work, [str(text) for text in names.texts]
    found = np.zeros(len(work), dtype=np.bool_)
    if operators is not None:
        by_optimizer = np.array([*(call.way == "optimizer" for call in operators.calls), False])
        found[: work.kernels] = by_optimizer[operators.call_of_kernel]
    number = np.where(work.kind_of == KERNEL, names.of_variant, -1)
    is_foreach = np.array([*(count_passes(name) > 0 for name in kinds), False], dtype=np.bool_)[number]
    if is_foreach.any():
        stream = np.unique(work.streams_of, axis=0, return_inverse=True)[1].ravel()
        rows = np.flatnonzero(np.isin(stream, stream[is_foreach])[work.variant])
        rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
        for part in rows_of_adam(kinds, number[work.variant[rows]], stream[work.variant[rows]]):
            found[rows[part]] = True
    if not found.any():
        return None
    elementwise: Bools = np.array([*(names.category == "elementwise"), False], dtype=np.bool_)[number]
    found &= elementwise[work.variant]
    return found
