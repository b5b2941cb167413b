"""List the public names of libraries. A name that only looks like one of theirs counts as the user's.

library_names.txt comes from the libraries' headers (scripts/list_library_names). library_names_by_hand.txt has the
names that no header declares.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_FILES = ("library_names.txt", "library_names_by_hand.txt")
# The words in generated kernel names. Every part of such a name must be one of these, a size, a type or a layout.
_PARTS_WORDS = (
    "cutlass cutlass3x simt tensorop wmma wgmma gemm sgemm dgemm hgemm cgemm zgemm igemm gemv fprop dgrad wgrad "
    "conv convolution nhwc nchw ndhwc implicit explicit winograd volta turing ampere ada hopper blackwell maxwell "
    "pascal xmma cudnn generated fort native sdpa flash bprop knob cga kernel infer fusion cublas ffma dmma hmma "
    "imma tilesize stage warpsize warpgroupsize aligna alignb alignc align execute split splitk slicek streamk "
    "relu bias gelu epilogue interior indexed optimized analytic scalar vector small medium large nvjet coop vec "
    "bz fmha forward backward aligned notaligned seqaligned dropout rf gmem smem sm nccl ncclDevKernel ncclKernel "
    "AllReduce AllGather ReduceScatter Broadcast Reduce SendRecv AllToAll Sum Prod Min Max MinMax PreMulSum "
    "SumPostDiv RING TREE NVLS NVLSTREE COLLNET CHAIN DIRECT PAT LL SIMPLE tile unroll noncached block warp "
    "specialized cooperative pingpong mixed input SIGMOID UNIFORM SATURATE MMA GMMA SM unspecialized persistent "
    "lds ldg ldsm bias grouped group batched strided splitK triangular trmm trsm syrk herk symm hemm"
)
_PARTS = sorted(_PARTS_WORDS.split(), key=len, reverse=True)
_SIZE = r"(?:\d{1,4}(?:x\d{1,4}){0,3})"
_TYPE = r"(?:bf16|tf32|[fsu](?:4|8|16|32|64)|e4m3|e5m2|e2m1|nvf4|fp8|fp16|fp32|i8|b1)"
_PART = re.compile(
    rf"(?:(?:{'|'.join(_PARTS)}){_SIZE}?x?)+|{_SIZE}|[a-z]|(?:{_TYPE}){{1,4}}|[nt]{{1,3}}|[NTC]{{1,3}}|(?:[hstdqobi]{{2}})?[hstd][sdhi][hstdo]"
    rf"|[shdczi]?\d{{2,6}}(?:gemm|fprop|dgrad|wgrad)|[shdczi](?:gemm|fprop|dgrad|wgrad|conv)|\dx|coop[AB]|k\d{{1,5}}"
    rf"|tensorop[shdczi]\d{{2,6}}(?:gemm|fprop|dgrad|wgrad)?|[shdczi]\d{{2,6}}[a-z]?|(?:{_TYPE}){{1,3}}gemm"
)
_FIRST = re.compile(
    r"sm\d{2,3}|ampere|volta|turing|hopper|maxwell|pascal|ada|blackwell|cutlass\d?x?|cudnn|nvjet|fmha|implicit|explicit"
    r"|winograd|nccl(Dev)?Kernel|MMA|GMMA|SM\d{2,3}"
)
# Functions of at::native that contain a kernel, and its functors, are named after the operator.
_OF_OPERATOR = re.compile(
    r"(?P<operator>[a-z_][a-z0-9_]*?)_?(kernel|backward_kernel|forward_kernel|out|stub|cuda|impl)"
    r"(_(kernel|cuda|impl|template|out|gpu|frame|nocast|vec|functor)){0,3}_?"
)
_OF_FUNCTOR = re.compile(
    r"(?P<operator>[A-Z][A-Za-z0-9]*?)(Functor|Op|Ops|CUDAKernel|KernelImpl|CUDAKernelImpl|Backward)_?"
)


@cache
def _names() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name in _FILES:
        section = "words"
        for line in files("nsysprof.bundle.names").joinpath(name).read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                found.setdefault(section, set()).add(line)
    return {section: frozenset(names) for section, names in found.items()}


def is_operator(name: str) -> bool:
    """Return whether an ATen operator has this name, without its namespace."""
    return name in _names()["aten"] or name.removesuffix("_") in _names()["aten"]


def is_autograd_node(name: str) -> bool:
    """Return whether torch's autograd has a node of this name."""
    return name in _names()["autograd"]


def is_cuda_call(name: str) -> bool:
    """Return whether CUDA's runtime or driver has a function of this name, apart from its version suffix."""
    return re.sub(r"(_v\d{1,5}){0,2}(_ptsz|_ptds)?$", "", name) in _names()["cuda"] or name in _names()["cuda"]


def is_library_word(word: str) -> bool:
    """Return whether a library declares a type, namespace or kernel of this name, or generates such names."""
    return word in _names()["words"] or _is_generated(word) or _is_of_operator(word)


@cache
def _is_generated(word: str) -> bool:
    parts = [part for part in word.split("_") if part]
    return bool(parts) and len(word) < 300 and bool(_FIRST.fullmatch(parts[0])) and all(map(_PART.fullmatch, parts[1:]))


@cache
def _is_of_operator(word: str) -> bool:
    for pattern in (_OF_OPERATOR, _OF_FUNCTOR):
        found = pattern.fullmatch(word)
        if found and is_operator(_snake(found["operator"])):
            return True
    return False


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
