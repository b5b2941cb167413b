"""Make short readable labels of kernel names by a table of rules: operation, data type and tile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_TYPES = {
    "c10::BFloat16": "bf16", "__nv_bfloat16": "bf16", "cutlass::bfloat16_t": "bf16", "nv_bfloat16": "bf16",
    "c10::Half": "half", "__half": "half", "cutlass::half_t": "half", "f16": "half", "f32": "float", "f64": "double",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8e5", "unsigned char": "uint8", "signed char": "int8",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip
_TYPE = r"(?:c10::complex<\w+>|unsigned \w+(?: long)?|signed char|[\w:]+)"
_OPS = {"multiplies": "mul", "plus": "add", "minus": "sub", "divides": "div"}
_REDUCTIONS = {"and": "all", "or": "any", "arg_max": "argmax", "arg_min": "argmin", "norm_two": "norm"}
# What torch's foreach functors compute, by the name of their operator.
_POINTWISE = {"mul": "addcmul", "div": "addcdiv"}
# The most characters of a label.
_LONGEST = 120
# The most characters to look at in a name, and in one word of it. A rule is tried at every letter of a word, so the
# time would grow with the square of a word's length.
_MOST_READ = 4_096
# As many labels as a trace of 10 MB can have names: a label is asked for several times.
_MOST_KEPT = 1 << 17
_LONG_WORD = re.compile(r"\w{256}")
_ANONYMOUS = re.compile(r"<unnamed>::|\(anonymous namespace\)::|_GLOBAL__N__\w+::")
_ENDING = re.compile(
    r"(?:_cuda_out|_kernel_cuda|_kernel_impl|_kernel_out|_cuda|_impl|_out|_kernel|(?:CUDA)?KernelImpl)+$"
)

# Log-softmax is visible in the name, or in the fifth template argument, which nsys writes as `(bool)1`.
_LOG_SOFTMAX = re.compile(r"log_?softmax|softmax_warp_\w+<(?:[^,<>]{1,99},){4}\s*(?:true|\(bool\)1)", re.IGNORECASE)


@dataclass(frozen=True)
class _LabelRule:
    """A pattern to find in a name, and a function that makes the label from the match and the name."""

    pattern: re.Pattern[str]
    label: Callable[[re.Match[str], str], str | None]


@lru_cache(_MOST_KEPT)
def label_kernel(name: str) -> str:
    """Return a short readable label for a demangled kernel name: `add<bf16>`, `gemm<tf32> 128x128x32 nt`."""
    if name.startswith("[CUDA graph"):
        return name[:_LONGEST]
    plain = _ANONYMOUS.sub("", name[:_MOST_READ])
    for rule in () if _LONG_WORD.search(plain) else _RULES:
        match = rule.pattern.search(plain)
        label = None if match is None else rule.label(match, plain)
        if label:
            return label[:_LONGEST]
    return _base(plain)[:_LONGEST]


def label_kernels(names: Sequence[str]) -> list[str]:
    """Return a label for each name. Labels that would be equal say how their names differ, or get a number."""
    labels = [label_kernel(name) for name in names]
    for tell in (_variant, _launch_width):
        labels = [
            f"{label} {more}" if twin and (more := tell(name)) else label
            for name, label, twin in zip(names, labels, _twins(labels), strict=True)
        ]
    seen: dict[str, int] = {}
    taken = set(labels)
    for row, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        number = seen[label]
        while number > 1 and f"{label} #{number}" in taken:
            number += 1
        if number > 1:
            labels[row] = f"{label} #{number}"
            taken.add(labels[row])
            seen[label] = number
    return labels


def _twins(labels: Sequence[str]) -> list[bool]:
    count: dict[str, int] = {}
    for label in labels:
        count[label] = count.get(label, 0) + 1
    return [count[label] > 1 for label in labels]


def _variant(name: str) -> str:
    """Return how torch loops over the elements, where it is not the usual way."""
    return next((text for mark, text in _VARIANTS if mark in name), "")


_VARIANTS = (
    ("unrolled_elementwise_kernel", "cast"),
    ("AUnaryFunctor", "scalar"),
    ("BUnaryFunctor", "scalar"),
    ("FunctorOnSelf", "scalar"),
    ("vectorized_elementwise_kernel", ""),
    ("gpu_kernel_impl_nocast", "strided"),
    ("split_k", "split-K"),
)


def _launch_width(name: str) -> str:
    """Return the first numbers among the template's arguments: `x4`, `x128x2`."""
    inside = name.find("at::", name.find("<"))
    numbers = re.findall(r"\((?:unsigned )?int\)(\d+)", name[:inside] if inside > 0 else name)
    return "x" + "x".join(numbers[:2]) if numbers else ""


def _type(text: str) -> str:
    plain = text.strip().removeprefix("const ").rstrip("&* ")
    return _TYPES.get(plain, plain.rsplit("::", 1)[-1])


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def _operation(name: str) -> str:
    """Return the operation in a function's name.

    silu_kernel gives `silu`, GeluBackwardCUDAKernelImpl gives `gelu_backward`.
    """
    return _snake(_ENDING.sub("", name)).strip("_").removeprefix("launch_")


def _lambda_type(name: str) -> str:
    """Return the argument type of the innermost function object, in <>.

    For a choice (`where`), it is the type of what is chosen.
    """
    arguments = re.findall(r"(?:\[lambda|'lambda\d*'|\{lambda)\(([^()]+)\)", name)
    types = [_type(text) for text in (arguments[0].split(",") if arguments else ())]
    if not types:
        return ""
    return f"<{types[1] if types[0] == 'bool' and len(types) > 1 else types[0]}>"


def _elementwise(match: re.Match[str], name: str) -> str | None:
    """Return the operation and type of torch's elementwise templates."""
    body = name[match.end() :]
    copied = re.search(r"(\w+?)_copy_kernel_cuda\(", body)
    if copied is not None:
        source = _lambda_type(body).strip("<>")
        target = copied[1].replace("bfloat16", "bf16").replace("float16", "half")
        return f"copy{_lambda_type(body)}" if target == "direct" else f"copy<{source} to {target}>"
    own = re.search(rf"CUDAFunctor(?:On\w+)?_(\w+?)<({_TYPE})", body)
    if own is not None:
        return f"{own[1]}<{_type(own[2])}>"
    inner = re.search(r"(?:binary_internal::)(\w+?)Functor<", body)
    outer = re.search(rf"(?:Binary|[AB]Unary|Unary)Functor<({_TYPE})", body)
    if outer is not None:
        inner = inner or re.search(r"(\w+?)Functor<", body[outer.end() :])
        if inner is not None:
            return f"{_snake(inner[1])}<{_type(outer[1])}>"
    called = re.search(r"\b(\w+)(?:<[^()<>]{0,500}>)?\((?:const )?(?:at::|c10::)(?:Tensor|Scalar)", body)
    if called is not None and not called[1].startswith("gpu_kernel"):
        return f"{_operation(called[1])}{_lambda_type(body)}"
    functors = [
        functor for functor in re.findall(rf"(\w+?)Functor<({_TYPE})", body) if functor[0] not in ("Binary", "Unary")
    ]
    if functors:
        return f"{_snake(functors[-1][0])}<{_type(functors[-1][1])}>"
    return None


def _reduction(match: re.Match[str], name: str) -> str:
    """Return the operation and type of torch's reduce_kernel."""
    body = name[match.end() :]
    operation = re.search(
        r"(\w+?)_functor<|(\w+?)(?:Nan)?Functor<|(\w+?)Ops<|(\w+?)_kernel_cuda\(|(\w+?)_kernel_impl\w*\(", body
    )
    text = "reduce" if operation is None else _snake(next(word for word in operation.groups() if word))
    return f"{_REDUCTIONS.get(text, text)}<{_type(match[1])}>"


def _foreach(match: re.Match[str], name: str) -> str:
    """Return what a multi-tensor kernel computes: `foreach_mul<float>`, `fused_adam<bf16>`."""
    body = name[match.end() :]
    functor = re.search(rf"(\w+?)Functor<({_TYPE})", body)
    if functor is None:
        return "multi_tensor_apply"
    fused = re.match(r"(Fused\w+?)Math$", functor[1])
    if fused is not None:
        return f"{_snake(fused[1])}<{_type(functor[2])}>"
    rest = body[functor.end() :]
    operator = re.search(r"std::(\w+)<|at::native::(\w+?)(?:Functor)?<", rest)
    text = _snake(functor[1]) if operator is None else _OPS.get(operator[1], _snake(operator[1] or operator[2]))
    if functor[1].startswith("PointwiseOp"):
        text = _POINTWISE.get(text, text)
    return f"foreach_{text}<{_type(functor[2])}>"


def _nccl(match: re.Match[str], _name: str) -> str:
    collective, operation, dtype, algorithm, protocol = match.groups()
    kind = f" {operation.lower()}<{dtype}>" if operation else ""
    return f"nccl {collective}{kind}" + (f" {algorithm.lower()} {protocol}" if algorithm else "")


def is_log_softmax(name: str) -> bool:
    """Return whether a softmax kernel of torch computes the logarithm, which losses need."""
    return _LOG_SOFTMAX.search(name) is not None


def _softmax(match: re.Match[str], name: str) -> str:
    log = "log_" if is_log_softmax(name) else ""
    return f"{log}softmax{'_backward' if match[1].lower() == 'back' else ''}<{_type(match[2])}>"


def _nvjet(match: re.Match[str], name: str) -> str:
    tile, depth, rest = match.groups()
    more = [word for word in ("splitK", "bias", "gelu", "relu") if word in rest]
    return " ".join(["nvjet gemm", f"{tile}x{depth}", *more, rest.rsplit("_", 1)[-1]])


def _xmma(match: re.Match[str], name: str) -> str:
    split = " split-K" if "split_k" in name else ""
    return f"gemm<{_type(match[1])}> {match[3]}{split} {match[2]}"


def _flash(match: re.Match[str], name: str) -> str:
    which = _snake(re.sub(r"_kernel$", "", match[1])).replace("dq_dk_dv_loop_seqk_parallel", "").strip("_")
    dtype = "bf16" if "bfloat16_t" in name else "half"
    return f"flash {which.removeprefix('flash_')}<{dtype}> d{match[2]} {match[3]}x{match[4]}"


def _cutlass(match: re.Match[str], _name: str) -> str:
    tile = f"{match[3]}x{match[4]}".rsplit("x", 1)[0]
    return f"cutlass {match[1]}{match[2]} {tile} {match[5]}".replace("simt_", "").replace("tensorop_", "")


def _typed(text: str) -> Callable[[re.Match[str], str], str]:
    """Return a function that makes a label of a fixed text and the first type that the pattern found."""
    return lambda match, _name: f"{text}<{_type(match[1])}>"


def _fixed(text: str) -> Callable[[re.Match[str], str], str]:
    return lambda match, _name: match.expand(text)


def _base(name: str) -> str:
    """Return the function's own name, without return type, namespaces and arguments, with its first type."""
    head = name.removeprefix("void ")
    bracket = head.find("<")
    parenthesis = head.find("(")
    ends = [at for at in (bracket, parenthesis) if at > 0]
    if not ends:
        return head
    own = head[: min(ends)]
    own = own.rsplit("::", 1)[-1].strip() or head
    own = own.removesuffix("_kernel") or own
    dtype = re.match(rf"<({_TYPE})[,>]", head[bracket:]) if 0 < bracket == min(ends, default=0) else None
    simple = dtype is not None and (
        dtype[1] in _TYPES or dtype[1] in ("float", "double", "int", "long", "bool", "char")
    )
    return f"{own}<{_type(dtype[1])}>" if dtype is not None and simple else own


def _rule(pattern: str, label: Callable[[re.Match[str], str], str | None]) -> _LabelRule:
    return _LabelRule(re.compile(pattern), label)


# The first rule wins whose pattern is found and that makes a label.
_RULES = (
    _rule(r"nccl(?:Dev)?Kernel_([A-Za-z]+)(?:_(Sum|Prod|Max|Min|PreMulSum|SumPostDiv|MinMax)_(\w+?))?"
          r"(?:_(RING|TREE|NVLS|NVLS_TREE|COLLNET\w*|PAT)_(LL128|LL|SIMPLE))?\b", _nccl),
    _rule(r"multi_tensor_apply_kernel<", _foreach),
    _rule(rf"reduce_kernel<.*?ReduceOp<({_TYPE}),", _reduction),
    _rule(rf"distribution_elementwise_grid_stride_kernel<({_TYPE}).*?\b(uniform|normal|bernoulli|exponential|random|cauchy)",
          lambda match, _name: f"{match[2]}_random<{_type(match[1])}>".removeprefix("random_")),
    _rule(rf"CatArrayBatchedCopy\w*<(?:[\w:]*OpaqueType<\(unsigned int\)(\d+)>|({_TYPE}))", lambda match, _name:
          f"cat<{_type(match[2])}>" if match[2] else f"cat<{match[1]} bytes>"),
    _rule(r"elementwise_kernel(?:_with_index)?(?:_manual_unroll)?<", _elementwise),
    _rule(rf"(?:cunn_SoftMax|softmax_warp_)([Ff]or|[Bb]ack)ward\w*<(?:\(int\)\d+, )?({_TYPE})", _softmax),
    _rule(rf"(?:vectorized_)?layer_norm_kernel<({_TYPE})", _typed("layer_norm")),
    _rule(rf"layer_norm_grad_input_kernel\w*<({_TYPE})", _typed("layer_norm_backward")),
    _rule(rf"GammaBetaBackward\w*<({_TYPE})", _typed("layer_norm_backward_weights")),
    _rule(r"nvjet_\w+?_(\d+x\d+)_(\d+)x\d+_(\w+)", _nvjet),
    _rule(r"xmma_gemm_(?:\w+?_)?(tf32|bf16|f16|f32|f64|e4m3|i8)\w*_([nt][nt])_n_tilesize(\d+x\d+x\d+)", _xmma),
    _rule(r"cutlass_\d+_((?:simt|tensorop|wmma)_)(\w*?gemm\w*?)_(\d+x\d+)_(\d+x\d+)_([nt]{2})", _cutlass),
    _rule(r"cutlass_\d+_(?:tensorop|wmma)_(\w*?gemm\w*?)_(\d+x\d+)_([nt]{2})(?:_(align[124]))?",
          lambda match, _name: f"cutlass {match[1]} {match[2]} {match[3]} {match[4] or ''}".strip()),
    _rule(r"^(?:void )?kernel<(\w+?)_params_", _fixed(r"\1")),
    _rule(r"\w+?_(?:(\w+)_)?s\d+gemm_(?:\w+?_)?(\d+x\d+)_.*?_([nt]{2})\b", _fixed(r"gemm<\1> \2 \3")),
    _rule(r"(?:ampere|volta|turing|maxwell|hopper)_(\w*gemm)_(\d+x\d+)(?:_\w+)?_([nt]{2})\b", _fixed(r"\1 \2 \3")),
    _rule(r"splitKreduce_kernel<", _fixed("splitK reduce")),
    _rule(r"(flash_(?:fwd|bwd)\w*?_kernel)<(?:\(bool\)\d, )?Flash_\w+_kernel_traits<"
          r"\(int\)(\d+), \(int\)(\d+), \(int\)(\d+)", _flash),
    _rule(r"fmha_cutlass([FB])_(\w+?)_(?:aligned|notaligned)_(\d+x\d+)", lambda match, _name:
          f"efficient {'fwd' if match[1] == 'F' else 'bwd'}<{_type(match[2])}> {match[3]}"),
    # The name says f16 for inputs in bf16 too.
    _rule(r"cudnn_generated_\w*?sdpa_\w*?_([fb])prop_w\w+?_(\w+?)_knob_\d+_(\d+x\d+x\d+)", lambda match, _name:
          f"cudnn sdpa {match[1]}wd<{'16 bit' if match[2] == 'f16' else _type(match[2])}> {match[3]}"),
    _rule(r"cudnn::fusion::(\w+)<", _fixed(r"cudnn \1")),
    _rule(rf"cub::.*?\bDevice(\w+?)Kernel<(?:[\w:]*?policy_hub<({_TYPE}))?", lambda match, _name:
          f"cub {match[1]}" + (f"<{_type(match[2])}>" if match[2] else "")),
    _rule(r"^cupy_(\w+?)__(\w+?)(?:_|$)", _fixed(r"\1<\2>")),
    _rule(r"vector_fft<\(unsigned int\)(\d+)", _fixed(r"fft \1")),
)  # fmt: skip
