"""Name the variants of kernels and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.kernel_names.categories import categorize
from nsysprof.analysis.kernel_names.kernel_labels import label_kernels
from nsysprof.trace.schema import GRAPH, KERNEL, NULL, Ints, Tables

Texts = npt.NDArray[np.object_]

# ENUM_CUDA_MEMCPY_OPER as nsys stats prints it.
_COPY_NAMES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
FILL_NAME = "[CUDA memset]"


@dataclass(frozen=True)
class Names:
    """Texts by number, and the number of each variant. Different ids can have one name, and the names count."""

    # Object arrays of one length. A label is short and readable, and no two are equal.
    texts: Texts
    short: Texts
    label: Texts
    category: Texts
    # The number of each variant.
    of_variant: Ints

    def numbers(self, variants: Ints) -> Ints:
        """Return the number of each variant, in the narrowest type."""
        found: Ints = self.of_variant[variants]
        return found


def kernel_names(tables: Tables) -> Names:
    """Return the names of tables.work's variants: demangled, short and category; graphs are named by their ids."""
    look_up = text_of_id(tables)
    kinds, names = tables.work.kind_of.tolist(), tables.work.names_of.tolist()
    pairs = [
        (graph_name(full),) * 2 if kind == GRAPH else (look_up(full), look_up(short))
        for kind, (full, short) in zip(kinds, names, strict=True)
    ]
    return _number(pairs, categorize, label_kernels)


def call_names(tables: Tables, plain: Callable[[str], str]) -> Names:
    """Return the names of tables.calls' variants, changed by `plain`."""
    look_up = text_of_id(tables)
    ids = [] if tables.calls is None else tables.calls.name_of.tolist()
    return _number([(plain(look_up(key)), "") for key in ids], lambda _text: "", list)


def text_of_id(tables: Tables) -> Callable[[int], str]:
    """Return a function from StringIds' id to its text; an unknown id is named by its number, NULL is empty."""
    work = tables.work
    wanted: set[int] = set(work.names_of[work.kind_of == KERNEL].ravel().tolist())
    if tables.calls is not None:
        wanted |= set(tables.calls.name_of.tolist())
    found = tables.strings[tables.strings.index.isin(wanted)]
    texts = dict(zip(reversed(found.index.tolist()), reversed(found.tolist()), strict=True))  # the first of an id wins
    return lambda key: "" if key == NULL else texts.get(key, f"<string {key}>")


def copy_name(kind: int) -> str:
    """Return the name that nsys stats gives to copies of a kind."""
    if kind == NULL:
        return "[CUDA memcpy of unknown kind]"
    return f"[CUDA memcpy {_COPY_NAMES[kind]}]" if kind in _COPY_NAMES else f"[CUDA memcpy kind {kind}]"


def graph_name(number: int) -> str:
    """Return what a CUDA graph that was recorded as a whole is called; its id is unique within its process only."""
    return "[CUDA graph]" if number == NULL else f"[CUDA graph {number}]"


def plain_call_name(name: str) -> str:
    """Return an API call's name as nsys stats prints it: without a version of four digits.

    cudaLaunchKernel_v7000 loses its version, cudaLaunchKernelExC_v11060 does not.
    """
    return re.sub(r"_v\d{4}$", "", name)


def _number(
    pairs: list[tuple[str, str]], category: Callable[[str], str], label: Callable[[Sequence[str]], list[str]]
) -> Names:
    number: dict[str, int] = {}
    short: list[str] = []
    of_variant: list[int] = []
    for text, brief in pairs:
        if text not in number:
            number[text] = len(number)
            short.append(brief)
        of_variant.append(number[text])
    dtype = np.int16 if len(number) < 2**15 else np.int32
    return Names(
        np.array(list(number), dtype=object),
        np.array(short, dtype=object),
        np.array(label(list(number)), dtype=object),
        np.array([category(text) for text in number], dtype=object),
        np.array(of_variant, dtype=dtype),
    )
