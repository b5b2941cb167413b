"""Which names in a trace are of public libraries, or say nothing: they stay readable where names are replaced.

An allow-list: a kernel's name stays when every identifier in it is of a known library or of C++ itself, a range's name
when a library or this tool made it. Anything else is the user's and becomes a token.
"""

from __future__ import annotations

import re
from functools import cache

from nsysprof.case import BACKENDS
from nsysprof.range_name import parse_range
from nsysprof.registered import registered_backends

_NAMESPACES_WORDS = (
    "at aten c10 c10d caffe2 prim torch std thrust cub cuda cutlass cute flash pytorch_flash cudnn cublas cublasLt "
    "cusparse cufft curand cusolver nccl nvshmem fmha PyTorchMemEffAttention xformers vllm marlin deep_gemm flashinfer "
    "sgl_kernel transformer_engine apex bitsandbytes"
)
_NAMESPACES = frozenset(_NAMESPACES_WORDS.split())
_CPP_WORDS = (
    "void bool char short int long float double signed unsigned const volatile auto struct class enum union typename "
    "template decltype operator lambda instance unnamed type nullptr true false half half2 nv_bfloat16 __half __half2 "
    "__nv_bfloat16 __nv_bfloat162 __nv_fp8_e4m3 __nv_fp8_e5m2 size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t "
    "int64_t uint64_t __int128 _Float16 bfloat16 float16 tfloat32_t"
)
_CPP = frozenset(_CPP_WORDS.split())
# Kernels of CUDA's and torch's libraries that stand in no namespace.
_LIBRARY_KERNEL = re.compile(
    r"(sm\d+|ampere|volta|turing|hopper|maxwell|pascal|blackwell)_[a-z0-9]*(xmma|gemm|gemv|cudnn|fprop|dgrad|wgrad)\w*"
    r"|cutlass_?\d*_\w*(gemm|fprop|dgrad|wgrad|simt|tensorop|wmma)\w*|cudnn_generated_\w+|nvjet_[a-z0-9_A-Z]+"
    r"|fmha_cutlass[FB]\w*|nccl(Dev)?Kernel\w*|cu(blas|blasLt|dnn|fft|sparse|solver|rand)[A-Z]\w*"
    r"|gemv[A-Z0-9N]\w*|gemmk1_kernel|gemmSN_\w+|splitKreduce_kernel|splitK_reduce_kernel|dot_kernel"
    r"|reduce_1Block_kernel|(scal|axpy|nrm2|asum|copy|swap|rot|iamax|iamin|ger|trsm|trmm|syrk)_kernel\w*"
    r"|softmax_warp_(forward|backward)|cunn_\w+|triu_tril_kernel|[Ff]lash_(fwd|bwd)_\w+|Flash_kernel_\w+|Flash_\w+_params"
    r"|(implicit|explicit)_convolve_\w+|winograd\w*|(regular|vector|multi_bluestein)_fft\w*|genericTranspose_kernel"
    r"|vectorized_\w*elementwise_kernel|elementwise_kernel|reduce_kernel|T\d*|Params|curandState\w*|biasType"
    r"|(Trivial)?OffsetCalculator|(u?(char|short|int|long|longlong)|float|double)[1-4]",
    re.ASCII,
)
# Everything between the marks of C++. What is no plain identifier and no number, e.g. `3x` or `a.b`, is of no library.
_WORD = re.compile(r"[^\s<>(),*&\[\]{}:+=~#-]+(?:::~?[^\s<>(),*&\[\]{}:+=~#-]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*", re.ASCII)
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?[ufUF]?[lL]{0,2}|0x[0-9a-fA-F]{1,16}", re.ASCII)
_UNNAMED = re.compile(r"<unnamed>::|\(anonymous namespace\)::|\{anonymous\}::")
# What torch's compiler fuses, by the operators in the kernel's name.
_TRITON = re.compile(r"triton_(?:poi|red|per|tem|for|mm|bmm|flex_attention\w*)(?:_fused_?(\w*?))?(?:_\d+)?")
_OPERATOR_WORDS_WORDS = (
    "abs add addmm all amax amin any arange argmax as at attention backward baddbmm bernoulli bmm bool bitwise and or "
    "cat clamp clone constant conv convolution copy cos cumsum detach div dropout embedding eq exp expand flex fill "
    "full gather ge gelu glu group grad gt index inductor iota isinf isnan le layer log logical logsumexp like lift "
    "lt masked max mean min mm mul native ne neg new nd norm not ones pad permute pow prod put rand randn reciprocal "
    "relu repeat rms rsqrt rsub scalar scaled scatter select sigmoid silu sin slice sort split sqrt squeeze stack std "
    "sub sum t tanh tensor threshold to topk transpose tril triu unsafe unsqueeze update var view where zeros "
    "softmax nll loss forward reduce scan lookup prims convert element type"
)
_OPERATOR_WORDS = frozenset(_OPERATOR_WORDS_WORDS.split())
_CALL = re.compile(
    r"cu(da)?[A-Z]\w*|nccl[A-Z]\w*|(CUPTI|CUDA|NVTX|OS runtime libraries):?( (profiling|early|extension|initialization"
    r"|data|flush|on|cuInit|finished|context|created|process|exit|memory|allocation|Instrumentation|Resource|Management"
    r"|Buffer|Overhead|driver|compiler|runtime)){1,10}|TLS allocation|Chunk Allocation"
    r"|Unknown|dlclose|dlopen\((lib(cu|nv|nccl|torch|c10|ToolsInjection)[\w.-]*|NULL)\)"
    r"|Graph(Exec)?( Node)? (Creation|Clon(e|ing)|Destruction|Update|Instantiation)",
    re.ASCII,
)
_RANGE = re.compile(
    r"nsysprof \d[\w.]*|nccl[A-Z]\w*|NCCL|CCCL|CUB|Thrust|cuBLAS|cuDNN|cuSPARSE|cuFFT|NVSHMEM|PyTorch|TensorRT|NVTX"
    r"|(aten|prim|c10d|cub|thrust|nccl)::?\w+(::\w+)*(, (seq|op_id) = \d+)*"
    r"|(torch::autograd::|autograd::engine::evaluate_function: (torch::autograd::)?)?[A-Z]\w*Backward\d+(, seq = \d+)?"
    r"|(torch::autograd::|autograd::engine::evaluate_function: torch::autograd::)\w+|ProfilerStep#\d+"
    r"|Optimizer\.(step|zero_grad)#(SGD|Adam|AdamW|Adagrad|Adadelta|RMSprop|NAdam|RAdam|LBFGS)\.(step|zero_grad)"
    r"|(forward|backward|fwd|bwd|optim(izer)?([ _]step)?|zero_grad|loss|step|iter(ation)?|epoch|batch|layer|block|rank"
    r"|warm[-_ ]?up|train(ing)?|eval(uation)?|validation|inference|prefill|decode|attention|attn|mlp|ffn|copy|sample"
    r"|data|init|setup|run|main|test|replays?|eager|capture|alloc|free|touch|again|back)[ _#:-]{0,2}\d{0,6}",
    re.ASCII,
)
_LONGEST = 20_000  # characters; template instances reach some thousands


@cache
def public_backends() -> frozenset[str]:
    """Torch's backends and those that nsysprof itself registers; one that another package registers is the user's."""
    own = (name for name, point in registered_backends().items() if point.dist and point.dist.name == "nsysprof")
    return frozenset((*BACKENDS, *own))


def is_public_kernel(name: str) -> bool:
    """Whether the (demangled) name of a kernel or operator holds no identifier but those of known libraries."""
    if len(name) > _LONGEST:
        return False
    fused = _TRITON.fullmatch(name)
    if fused:
        return all(word in _OPERATOR_WORDS or word.isdigit() for word in (fused[1] or "").split("_") if word)
    plain = _UNNAMED.sub("", name).replace("...", "")  # a pack of parameters
    words = list(_WORD.finditer(plain))
    named = [word for word in words if not _NUMBER.fullmatch(word.group())]
    return bool(named) and all(_is_public_identifier(plain, word) for word in named)


def _is_public_identifier(name: str, found: re.Match[str]) -> bool:
    word = found.group()
    if not _IDENTIFIER.fullmatch(word):
        return False
    first, _, rest = word.partition("::")
    # What follows `Outer<int>::` belongs to what stands before, which is judged on its own.
    if name[: found.start()].endswith((">::", ")::", "]::")):
        return True
    known = first in _NAMESPACES or _LIBRARY_KERNEL.fullmatch(first) is not None
    return known if rest else known or first in _CPP


def is_public_call(name: str) -> bool:
    """Whether an API call, or what a profiler says of its own overhead, names nothing of the user's."""
    return _CALL.fullmatch(name) is not None


def is_public_range(name: str, backends: frozenset[str]) -> bool:
    """Whether a range (or a domain or category of ranges) has a library's name, ours, or one that says nothing."""
    parsed = parse_range(name)
    if parsed is not None:
        return parsed.backend in backends
    return _RANGE.fullmatch(name) is not None
