"""Decide which names in a trace belong to public libraries or reveal nothing, and so may stay readable.

This is an allow-list of whole names. A kernel's name stays when every identifier in it is declared by a library or by
C++ itself; a range's name stays when a library or this tool made it. Anything else is the user's and becomes a token.
library_names.txt comes from the libraries' headers (scripts/list_library_names.py). library_names_by_hand.txt has the
names that no header declares.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from nsysprof.attention.mask import BACKENDS, SERVED
from nsysprof.attention.range_name import parse_range
from nsysprof.attention.shape import registered_backends
from nsysprof.torchprof.operator_facts import EVALUATED, MARK, read_layer
from nsysprof.trace.table_readers.layer_ranges import LOAD, is_collection, read_compile_range, read_layer_range


def _read_sections(*names: str) -> dict[str, frozenset[str]]:
    """Return the words of files beside this module, by the section that they stand in."""
    words_by_section: dict[str, set[str]] = {}
    for name in names:
        section = ""
        for line in files("nsysprof.bundle").joinpath(name).read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif not line.startswith("#"):
                words_by_section.setdefault(section, set()).update(line.split())
    return {section: frozenset(words) for section, words in words_by_section.items()}


_WORDS_FILE = "public_words.txt"
PUBLIC_WORDS: dict[str, frozenset[str]] = _read_sections(_WORDS_FILE)
_NAMESPACES = PUBLIC_WORDS["namespaces"]
_CPP = PUBLIC_WORDS["c++"]
# Splits a name at the punctuation of C++. A part that is neither an identifier nor a number (`3x`) is not a library's.
_WORD = re.compile(r"[^\s<>(),*&\[\]{}:+=~#-]+(?:::~?[^\s<>(),*&\[\]{}:+=~#-]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*", re.ASCII)
_PARAMETER = re.compile(r"T\d{0,3}|(u?(char|short|int|long|longlong)|float|double)[1-4]", re.ASCII)
_NUMBER = re.compile(
    r"(\d{1,20})([uU]?[lL]{0,2})|\d{1,5}\.\d{1,5}[fF]?|\d{1,2}[eE][+-]?\d{1,2}|0x[0-9a-fA-F]{1,4}", re.ASCII
)
_UNNAMED = re.compile(r"<unnamed>::|\(anonymous namespace\)::|\{anonymous\}::")
# Operators that torch's compiler fuses, as they appear in the kernel's name.
_TRITON = re.compile(r"triton_(?:poi|red|per|tem|for|mm|bmm|flex_attention\w*)(?:_fused_?(\w*?))?(?:_\d{1,4})?")
_OPERATOR_WORDS = PUBLIC_WORDS["fused operators"]
_LIBRARIES = "|".join(map(re.escape, sorted(PUBLIC_WORDS["libraries"])))
_CALL = re.compile(
    r"(CUPTI|CUDA|NVTX|OS runtime libraries):?( (profiling|early|extension|initialization"
    r"|data|flush|on|cuInit|finished|context|created|process|exit|memory|allocation|Instrumentation|Resource|Management"
    r"|Buffer|Overhead|driver|compiler|runtime)){1,10}|TLS allocation|Chunk Allocation|GpuMetrics"
    rf"|Unknown|dlclose|dlopen\((lib({_LIBRARIES})(\.so|\.alt\.so)(\.\d{{1,3}}){{0,3}}|NULL)\)"
    r"|Graph(Exec)?( Node)? (Creation|Clon(e|ing)|Destruction|Update|Instantiation)",
    re.ASCII,
)
# Functions of the C library that nsys records as calls of the OS runtime.
_OF_SYSTEM = PUBLIC_WORDS["system calls"]
_NCCL = frozenset(f"nccl{name}" for name in PUBLIC_WORDS["nccl"])
_COLLECTIVE = (
    r"_?(all_?reduce|all_?gather|reduce_?scatter|broadcast|reduce|gather|scatter|all_?to_?all|barrier|send|recv)"
    r"(_(base|into_tensor|tensor|coalesced|oop|single|sparse)){0,3}_?"
)
_RANGE = re.compile(
    r"nsysprof \d{1,3}(\.\d{1,3}){0,2}(\.?(dev|rc|a|b)\d{1,3})?"
    r"|NCCL|CCCL|CUB|Thrust|cuBLAS|cuDNN|cuSPARSE|cuFFT|NVSHMEM|PyTorch|TensorRT|NVTX"
    rf"|(c10d|nccl|gloo)::?{_COLLECTIVE}( \d{{1,5}}(<-|->)\d{{1,5}})?|ProfilerStep#\d{{1,6}}"
    r"|Optimizer\.(step|zero_grad)#(SGD|Adam|AdamW|Adagrad|Adadelta|RMSprop|NAdam|RAdam|LBFGS)\.(step|zero_grad)"
    r"|(forward|backward|fwd|bwd|optim(izer)?([ _]step)?|zero_grad|loss|step|iter(ation)?|epoch|batch|layer|block|rank"
    r"|warm[-_ ]?up|train(ing)?|eval(uation)?|validation|inference|prefill|decode|attention|attn|mlp|ffn|copy|sample"
    r"|data|init|setup|run|main|test|replays?|eager|capture|alloc|free|touch|again|back)[ _#:-]{0,2}\d{0,6}",
    re.ASCII,
)
# Words that programs of any kind have in the names of their ranges, and those of CUDA's libraries. A name of such words
# alone says what is done, and not by whom or for what.
_COMMON_WORDS = PUBLIC_WORDS["common"]
_LONGEST_COMMON = 80
# A word of a name, such as each of `DataLoader.next_batch`; a number with few digits; what stands between them.
_COMMON_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|(?<![0-9])[0-9]{1,6}(?![0-9])|[ _.:#()/-]+", re.ASCII)
# Parts of the paths of modules that many models have, and the beginnings of the names of torch's classes for them.
_MODULES = PUBLIC_WORDS["modules"]
_MODULE_CLASSES = re.compile(
    r"(Sequential|Module(List|Dict)?|Linear|Bilinear|Embedding(Bag)?|Identity|Flatten|Unflatten|Conv(Transpose)?[123]d"
    r"|(Layer|Group|RMS|BatchNorm[123]d|InstanceNorm[123]d)(Norm)?|(Adaptive)?(Avg|Max)Pool[123]d|(Alpha)?Dropout[123]?d?"
    r"|GELU|ReLU6?|LeakyReLU|PReLU|ELU|SELU|CELU|SiLU|Mish|GLU|Sigmoid|Tanh|Softmax|LogSoftmax|Softplus|Hardswish"
    r"|MultiheadAttention|Transformer((En|De)coder(Layer)?)?|LSTM|GRU|RNN|(Cross|BCE|BCEWithLogits)?(Entropy)?Loss"
    r"|MSELoss|NLLLoss|Upsample|PixelShuffle|DistributedDataParallel|FullyShardedDataParallel|OptimizedModule"
    r"|SGD|Adam|AdamW|Adagrad|Adadelta|RMSprop|NAdam|RAdam|LBFGS|Adafactor|Muon)"
)
# What stands for an operator of the user's, for a part of the path of a module, and for a file and its line.
_OPERATOR_TOKEN = re.compile(
    rf"({EVALUATED}|Optimizer\.(step|zero_grad)#)?<operator-\d{{1,9}}( (gather|norm|attention)){{0,3}}>_?"
)
_MODULE_TOKEN, _PLACE_TOKEN = re.compile(r"<module-\d{1,9}>"), re.compile(r"<file-\d{1,9}>:\d{1,9}")
# Suffixes that emit_nvtx appends.
_NUMBERED = re.compile(r"(, (seq|op_id) = \d{1,12}){1,2}$")
_LONGEST = 20_000  # characters; template instances reach some thousands


@cache
def public_backends() -> frozenset[str]:
    """Return torch's backends and those that nsysprof adapts. A backend of another package or a hub is the user's."""
    own = (name for name, point in registered_backends().items() if point.dist and point.dist.name == "nsysprof")
    return frozenset((*BACKENDS, *SERVED, *own))


def is_public_kernel(name: str) -> bool:
    """Return whether the (demangled) name of a kernel or operator has only identifiers of known libraries."""
    if len(name) > _LONGEST:
        return False
    fused = _TRITON.fullmatch(name)
    if fused:
        return all(word in _OPERATOR_WORDS or (len(word) < 4 and word.isdigit()) for word in _parts(fused[1] or ""))
    plain = _UNNAMED.sub("", name).replace("...", "")  # "..." is a pack of parameters
    words = list(_WORD.finditer(plain))
    numbers = [_NUMBER.fullmatch(word.group()) for word in words]
    named = [word for word, number in zip(words, numbers, strict=True) if not number]
    small = all(_says_nothing(number) for number in numbers if number)
    return bool(named) and small and all(_is_public_identifier(plain, word) for word in named)


def _parts(name: str) -> list[str]:
    return [word for word in name.split("_") if word]


def _says_nothing(number: re.Match[str]) -> bool:
    """Return whether a template argument is a size or a flag, which reveals nothing.

    Large numbers other than powers of two may be secret.
    """
    if number[1] is None:
        return True
    value = int(number[1])
    return value < 100_000 or any((value + near).bit_count() == 1 for near in (-1, 0, 1))


def _is_public_identifier(name: str, match: re.Match[str]) -> bool:
    word = match.group()
    if not _IDENTIFIER.fullmatch(word):
        return False
    parts = word.replace("~", "").split("::")
    # What follows `Outer<int>::` is a member of what stands before it, and that is judged separately.
    if name[: match.start()].endswith((">::", ")::", "]::")):
        return all(map(_is_known, parts))
    if len(parts) == 1:
        return _is_known(word)
    if parts[0] in ("aten", "prim"):
        return len(parts) == 2 and is_operator(parts[1])
    return (parts[0] in _NAMESPACES or _is_known(parts[0])) and all(map(_is_known, parts[1:]))


def _is_known(word: str) -> bool:
    return (
        word in _CPP
        or word in _NAMESPACES
        or _PARAMETER.fullmatch(word) is not None
        or is_library_word(word)
        or word in _NCCL
    )


def is_public_call(name: str) -> bool:
    """Return whether an API call, or the name of a profiler's overhead, contains no name of the user's."""
    return is_cuda_call(name) or name in _NCCL or name in _OF_SYSTEM or _CALL.fullmatch(name) is not None


# What stands for the program's steps as a whole in the costs of a recording.
ALL_STEPS = "(all steps)"


# What stands for a function in the range of a compilation.
_FUNCTION_TOKEN = re.compile(r"<function-\d+>")


def is_public_range(name: str, backends: frozenset[str]) -> bool:
    """Return whether a range (or a domain or category) has a library's name or ours, or reveals nothing."""
    parsed = parse_range(name)
    if parsed is not None:
        return parsed.backend in backends
    plain = _NUMBERED.sub("", name)
    if plain.startswith(("aten::", "prim::")):
        return is_operator(plain.partition("::")[2])
    layer = read_layer_range(name)
    if layer is not None:
        return all(map(is_public_module, layer.layer.split("."))) and is_public_module_class(layer.kind)
    node = plain.removeprefix(EVALUATED).removeprefix("torch::autograd::")
    if plain in (*_NCCL, ALL_STEPS, LOAD) or is_collection(name) or is_autograd_node(node) or _is_of_operators(plain):
        return True
    compiled = read_compile_range(name)
    if compiled is not None:
        return not compiled.place and not compiled.why and _FUNCTION_TOKEN.fullmatch(compiled.what) is not None
    return _RANGE.fullmatch(plain) is not None or _has_common_words(plain)


def _has_common_words(name: str) -> bool:
    """Return whether a name consists of words that programs of any kind have, and small numbers."""
    parts = _COMMON_PART.findall(name)
    words = [part.lower() for part in parts if part.isalpha()]
    is_whole = len(name) <= _LONGEST_COMMON and "".join(parts) == name
    return is_whole and bool(words) and all(word in _COMMON_WORDS for word in words)


def _is_of_operators(name: str) -> bool:
    """Return whether a name without its numbers is one that a recording of operators has, with tokens in it."""
    of_module = read_layer(name)
    if of_module is None:
        return name == MARK or _OPERATOR_TOKEN.fullmatch(name) is not None
    path, place = of_module
    is_known = all(is_public_module(part) or _MODULE_TOKEN.fullmatch(part) for part in path.split("."))
    return is_known and (not place or _PLACE_TOKEN.fullmatch(place) is not None)


def is_public_operator(name: str) -> bool:
    """Return whether an operator has a name of torch's, or one that its compiler made of such names."""
    of_inductor = name.removeprefix("extern_kernels.")
    if of_inductor != name:
        return is_operator(of_inductor)
    return is_public_range(name, frozenset()) or (name.startswith("triton_") and is_public_kernel(name))


def is_public_module(part: str) -> bool:
    """Return whether a part of a module's path is a number, or a name that many models have."""
    return part in _MODULES or (part.isascii() and part.isdigit() and len(part) < 5) or is_public_module_class(part)


def is_public_module_class(kind: str) -> bool:
    """Return whether a class of modules is one of torch's."""
    return _MODULE_CLASSES.fullmatch(kind) is not None


# The words in generated kernel names. Every part of such a name must be one of these, a size, a type or a layout.
_PARTS = sorted(sorted(PUBLIC_WORDS["generated"]), key=len, reverse=True)
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
# The shape of an instruction of tensor cores, such as s16816gemm.
_INSTRUCTION = re.compile(r"(?:4|8|16|32|64|128|256){2,3}")
_WORD_OF_NSYS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|.", re.DOTALL)
_CHIP = re.compile(r"[GTA][A-Z]\d{2,3}[A-Z]?(-[A-Z])?|gfx\d{3,4}[a-f]?")
_GPU_WORDS = PUBLIC_WORDS["gpus"]
_GPU_MODEL = re.compile(r"[A-Z]{0,2}\d{1,4}[A-Z]{0,2}|SXM\dx?|HBM\d[a-e]?|\d{1,4}GB|\dg\.\d{1,3}gb(\+me)?|X|Xp|V|nvgpu")
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
    return _read_sections("library_names.txt", "library_names_by_hand.txt")


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
    is_known = bool(parts) and bool(_FIRST.fullmatch(parts[0])) and all(map(_PART.fullmatch, parts[1:]))
    return is_known and len(word) < 300 and all(map(_is_size_of_tile, re.findall(r"\d+", word)))


def _is_size_of_tile(digits: str) -> bool:
    """Return whether a number in a generated name is one that tiles, instructions and architectures have."""
    size = int(digits)
    is_usual = size <= 128 or (size <= 512 and size % 8 == 0) or size.bit_count() == 1
    return (is_usual and str(size) == digits) or _INSTRUCTION.fullmatch(digits) is not None


def is_nsys_text(text: str) -> bool:
    """Return whether nsys itself may have written a label, because all words of the text are its words."""
    words = _WORD_OF_NSYS.findall(text)
    known = _names()["nsys"]
    return len(text) <= 80 and all(
        len(word) <= 3 if word.isdigit() else word in " _-:/%[]" or word.lower() in known for word in words
    )


def is_gpu(name: str) -> bool:
    """Return whether a GPU or a chip has this name: words of its makers, and few numbers of a model."""
    if _CHIP.fullmatch(name):
        return True
    parts = re.split(r"[ -]", name)
    models = [part for part in parts if part not in _GPU_WORDS]
    return len(parts) <= 9 and len(models) <= 4 and all(map(_GPU_MODEL.fullmatch, models))


@cache
def _is_of_operator(word: str) -> bool:
    for pattern in (_OF_OPERATOR, _OF_FUNCTOR):
        match = pattern.fullmatch(word)
        if match and is_operator(_snake(match["operator"])):
            return True
    return False


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# The files that hold what nsysprof itself writes.
_WRITTEN = (".py", ".j2", _WORDS_FILE, "columns.tsv")
TOKEN = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_IN_TOKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_WHOLE_WORD = 6  # bytes; a shorter secret counts only where it is not part of a longer word


def is_revealed_by(text: bytes, start: int, end: int) -> bool:
    """Return whether a secret at `start` to `end` of a text is really revealed there.

    It is not where it is part of a word that nsysprof writes anyway, such as a column's name. A short secret is not
    revealed as part of any longer word.
    """
    first, last = start, end
    while first > 0 and text[first - 1] in _IN_TOKEN and start - first < 100:
        first -= 1
    while last < len(text) and text[last] in _IN_TOKEN and last - end < 100:
        last += 1
    if is_program_token(text[first:last].strip(b".-")):
        return False
    around = text[start - 1 : start] + text[end : end + 1]
    return end - start >= _WHOLE_WORD or not any(chr(byte).isalnum() for byte in around)


@cache
def program_text() -> bytes:
    """Return every module and template of nsysprof, and the scripts of its page."""
    return b"\n".join(_sources(files("nsysprof"), (*_WRITTEN, ".js", ".css")))


@cache
def page_parts() -> tuple[bytes, ...]:
    """Return what every page of a report contains literally: its scripts, styles and licences, the longest first."""
    vendored = files("nsysprof.report").joinpath("vendor").iterdir()
    licences = [file.read_bytes() for file in vendored if file.name.startswith(("LICENSE", "NOTICE"))]
    return tuple(sorted([*licences, *_sources(files("nsysprof.report"), (".js", ".css"))], key=len, reverse=True))


def is_program_word(value: str) -> bool:
    """Return whether a value is one plain word that nsysprof itself writes often, such as `median`."""
    return value in _words()


@lru_cache(maxsize=4096)
def is_program_token(token: bytes) -> bool:
    """Return whether nsysprof itself writes this run of letters, digits and `_-.`, such as `kernel_total_ns`.

    Only the modules that contain it are parsed: all of them take seconds.
    """
    modules = (source for source in _modules() if token and token in source)
    return token in _template_tokens() or any(token in _tokens(source) for source in modules)


@cache
def _modules() -> tuple[bytes, ...]:
    return tuple(_sources(files("nsysprof"), (".py",)))


@cache
def _template_tokens() -> frozenset[bytes]:
    return frozenset(TOKEN.findall(b"\n".join(_sources(files("nsysprof"), _WRITTEN[1:]))))


@cache
def _tokens(source: bytes) -> frozenset[bytes]:
    texts = _written_texts(ast.parse(source))
    return frozenset(token for text in texts for token in TOKEN.findall(text.encode("utf-8", "replace")))


def _written_texts(module: ast.Module) -> Iterator[str]:
    """Yield what a module can print: its literals, and the fields of its classes, which become keys of JSON."""
    nodes = list(ast.walk(module))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@cache
def _words() -> frozenset[str]:
    # Without the words of the page's minified scripts, whose short names could be anybody's.
    written = b"\n".join(_sources(files("nsysprof"), _WRITTEN))
    return frozenset(re.findall(r"[A-Za-z]{4,20}", written.decode("utf-8", "replace")))


def _sources(folder: Traversable, suffixes: tuple[str, ...]) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry, suffixes)
        elif entry.name.endswith(suffixes):
            yield entry.read_bytes()
