#!/usr/bin/env python3
"""Write nsysprof/bundle/library_names.txt: the names of public libraries that a bundle may show.

Usage: scripts/list_library_names.py --torch TORCH/include --cuda CUDA/include --cutlass CUTLASS/include

They are read from the libraries' own headers: torch's wheel, CUDA's toolkit with CCCL, and the wheel nvidia-cutlass.
What no header declares is in library_names_by_hand.txt beside it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "nsysprof" / "bundle" / "library_names.txt"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
ATTRIBUTES = r"(?:(?:\[\[.*?\]\]|__\w+__(?:\([^)]*\))?|alignas\([^)]*\)|[A-Z][A-Z0-9_]*(?:\([^)]*\))?)\s+)*"
DECLARED = re.compile(rf"\b(?:struct|class|union|namespace|enum(?:\s+class|\s+struct)?)\s+{ATTRIBUTES}(\w+)\s*[;:{{<=]")
ALIAS = re.compile(r"\busing\s+(\w+)\s*=|\btypedef\b[^;{}]*?\b(\w+)\s*;")
KERNEL = re.compile(r"__global__\s+(?:\w+\s*(?:\([^)]*\))?\s+)*?void\s+(?:\w+\s*\([^)]*\)\s+)?(\w+)\s*\(")
CALLBACK = re.compile(r"CUPTI_(?:RUNTIME|DRIVER)_TRACE_CBID_(cu\w+)")
MADE = re.compile(r"(SM\d+|G?MMA)_\d+x")  # by thousands, and of parts that are known
NODE = re.compile(r"struct\s+TORCH_API\s+(\w*Backward\w*)")


def names_of_headers(folder: Path) -> set[str]:
    """Return the types, namespaces and kernels that the headers below a folder declare."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".h", ".hpp", ".cuh", ".inl", ".cu"):
            text = COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
            found |= {
                name
                for pattern in (DECLARED, ALIAS, KERNEL)
                for match in pattern.finditer(text)
                for name in match.groups()
            }
    return {name for name in found if name and re.fullmatch(r"[A-Za-z_]\w{1,80}", name) and not MADE.match(name)}


def sections(torch: Path, cuda: Path, cutlass: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each section and what is in it."""
    operators = {path.name.removesuffix(".h") for path in (torch / "ATen" / "ops").glob("*.h")}
    yield "aten", {name for name in operators if not re.search(r"_(native|ops|dispatch)$", name)}
    nodes = (torch / "torch" / "csrc" / "autograd" / "generated" / "Functions.h").read_text(encoding="utf-8")
    yield "autograd", set(NODE.findall(nodes))
    calls = "".join((cuda / f"cupti_{kind}_cbid.h").read_text() for kind in ("runtime", "driver"))
    yield "cuda", {re.sub(r"_v\d{4,5}$", "", name) for name in CALLBACK.findall(calls)}
    words = names_of_headers(torch / "ATen" / "native") | names_of_headers(torch / "ATen" / "cuda")
    for folder in (
        torch / "ATen" / "core",
        torch / "ATen" / "detail",
        torch / "c10",
        torch / "torch" / "headeronly",
        cuda / "cccl",
        cutlass,
    ):
        words |= names_of_headers(folder)
    yield "words", words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("torch", "cuda", "cutlass"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    options = parser.parse_args()
    lines = []
    for title, names in sections(options.torch, options.cuda, options.cutlass):
        lines += [f"[{title}]", *sorted(names)]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
