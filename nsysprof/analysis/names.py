"""Names for the variants of kernels and calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.categories import categorize
from nsysprof.trace.schema import NULL, Ints, Tables

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
    """Texts by number, and the number of each variant: ids differ where names do not, and names are what counts.

    texts, short: object arrays of one length; category: of each text. of_variant: the number of each variant.
    """

    texts: Texts
    short: Texts
    category: Texts
    of_variant: Ints

    def numbers(self, variants: Ints) -> Ints:
        """The number of each variant, in as few bytes."""
        found: Ints = self.of_variant[variants]
        return found


def kernel_names(tables: Tables) -> Names:
    """Names of the variants of tables.work: demangled, with the short one and the category."""
    look_up = text_of_id(tables)
    pairs = [(look_up(full), look_up(short)) for full, short in tables.work.names_of.tolist()]
    return _number(pairs, categorize)


def call_names(tables: Tables, plain: Callable[[str], str]) -> Names:
    """Names of the variants of tables.calls as `plain` has them."""
    look_up = text_of_id(tables)
    ids = [] if tables.calls is None else tables.calls.name_of.tolist()
    return _number([(plain(look_up(key)), "") for key in ids], lambda _text: "")


def text_of_id(tables: Tables) -> Callable[[int], str]:
    """A function from StringIds' id to its text; an id without a string is named by its number, NULL by nothing."""
    wanted: set[int] = set(tables.work.names_of.ravel().tolist())
    if tables.calls is not None:
        wanted |= set(tables.calls.name_of.tolist())
    found = tables.strings[tables.strings.index.isin(wanted)]
    texts = dict(zip(reversed(found.index.tolist()), reversed(found.tolist()), strict=True))  # the first of an id wins
    return lambda key: "" if key == NULL else texts.get(key, f"<string {key}>")


def copy_name(kind: int) -> str:
    """What nsys stats calls copies of a kind."""
    if kind == NULL:
        return "[CUDA memcpy of unknown kind]"
    return f"[CUDA memcpy {_COPY_NAMES[kind]}]" if kind in _COPY_NAMES else f"[CUDA memcpy kind {kind}]"


def plain_call_name(name: str) -> str:
    """An API call's name as nsys stats has it: without four digits of a version.

    cudaLaunchKernel_v7000 loses them, cudaLaunchKernelExC_v11060 does not.
    """
    return re.sub(r"_v\d{4}$", "", name)


def _number(pairs: list[tuple[str, str]], category: Callable[[str], str]) -> Names:
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
        np.array([category(text) for text in number], dtype=object),
        np.array(of_variant, dtype=dtype),
    )
