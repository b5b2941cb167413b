"""Give each variant of kernels, copies, graphs and API calls its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.kernels.labels import label_kernels
from nsysprof.kernels.names import categorize
from nsysprof.trace.schema import GRAPH, KERNEL, NULL, Ints, Tables

Texts = npt.NDArray[np.object_]

# The names that nsys stats prints for the values of ENUM_CUDA_MEMCPY_OPER.
_COPY_NAMES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
FILL_NAME = "[CUDA memset]"


@dataclass(frozen=True)
class Names:
    """Names as texts, and which of them each variant has.

    Different ids can have the same name; tables are made by name.
    """

    # The texts by number, in arrays of equal length. A label is short and readable, and no two labels are equal.
    texts: Texts
    short: Texts
    label: Texts
    category: Texts
    # The number of each variant's name.
    of_variant: Ints

    def numbers(self, variants: Ints) -> Ints:
        """Return the number of each variant's name, in the narrowest integer type."""
        numbers: Ints = self.of_variant[variants]
        return numbers


def kernel_names(tables: Tables) -> Names:
    """Return the names of tables.work's variants: demangled name, short label and category.

    A graph is named by its id.
    """
    look_up = text_of_id(tables)
    kinds, names = tables.work.kind_of.tolist(), tables.work.names_of.tolist()
    pairs = [
        (graph_name(full),) * 2 if kind == GRAPH else (look_up(full), look_up(short))
        for kind, (full, short) in zip(kinds, names, strict=True)
    ]
    return _number(pairs, categorize, label_kernels)


def call_names(tables: Tables, plain: Callable[[str], str]) -> Names:
    """Return the names of tables.calls' variants, each changed by the function `plain`."""
    look_up = text_of_id(tables)
    ids = [] if tables.calls is None else tables.calls.name_of.tolist()
    return _number([(plain(look_up(key)), "") for key in ids], lambda _text: "", list)


def text_of_id(tables: Tables) -> Callable[[int], str]:
    """Return a function from an id of StringIds to its text.

    An unknown id gives its number as text; NULL gives "".
    """
    work = tables.work
    wanted: set[int] = set(work.names_of[work.kind_of == KERNEL].ravel().tolist())
    if tables.calls is not None:
        wanted |= set(tables.calls.name_of.tolist())
    strings = tables.strings[tables.strings.index.isin(wanted)]
    # if an id occurs twice, its first text counts
    texts = dict(zip(reversed(strings.index.tolist()), reversed(strings.tolist()), strict=True))
    return lambda key: "" if key == NULL else texts.get(key, f"<string {key}>")


def copy_name(kind: int) -> str:
    """Return the name that nsys stats gives to copies of this kind."""
    if kind == NULL:
        return "[CUDA memcpy of unknown kind]"
    return f"[CUDA memcpy {_COPY_NAMES[kind]}]" if kind in _COPY_NAMES else f"[CUDA memcpy kind {kind}]"


def graph_name(number: int) -> str:
    """Return the name of a CUDA graph that was recorded as a whole. Its id is unique only within its process."""
    return "[CUDA graph]" if number == NULL else f"[CUDA graph {number}]"


def plain_call_name(name: str) -> str:
    """Return an API call's name as nsys stats prints it: without a version suffix of four digits.

    cudaLaunchKernel_v7000 loses its suffix, cudaLaunchKernelExC_v11060 keeps it.
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
