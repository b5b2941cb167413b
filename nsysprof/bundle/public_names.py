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
_LIBRARIES_WORDS = (
    "cuda cudart cublas cublasLt cudnn cudnn_graph cudnn_ops cudnn_cnn cudnn_adv cudnn_heuristic cudnn_ext "
    "cudnn_engines_precompiled cudnn_engines_runtime_compiled cudnn_cnn_infer cudnn_cnn_train cudnn_ops_infer "
    "cudnn_ops_train cudnn_adv_infer cudnn_adv_train cufft cufftw cufile cupti curand cusolver cusolverMg "
    "cusparse cusparseLt cudss nccl nvJitLink nvToolsExt nvidia-ml nvrtc nvrtc-builtins nvshmem_host nvinfer "
    "nvonnxparser nvperf_host torch torch_cpu torch_cuda torch_python torch_global_deps torch_cuda_linalg c10 "
    "c10_cuda shm caffe2_nvrtc ToolsInjection64 gomp-a34b3233 gomp dl pthread rt m c z numa ibverbs mlx5 rdmacm"
)
_LIBRARIES = "|".join(map(re.escape, _LIBRARIES_WORDS.split()))
_CALL = re.compile(
    r"(CUPTI|CUDA|NVTX|OS runtime libraries):?( (profiling|early|extension|initialization"
    r"|data|flush|on|cuInit|finished|context|created|process|exit|memory|allocation|Instrumentation|Resource|Management"
    r"|Buffer|Overhead|driver|compiler|runtime)){1,10}|TLS allocation|Chunk Allocation|GpuMetrics"
    rf"|Unknown|dlclose|dlopen\((lib({_LIBRARIES})(\.so|\.alt\.so)(\.\d{{1,3}}){{0,3}}|NULL)\)"
    r"|Graph(Exec)?( Node)? (Creation|Clon(e|ing)|Destruction|Update|Instantiation)",
    re.ASCII,
)
# Functions of the C library that nsys records as calls of the OS runtime.
_OF_SYSTEM_WORDS = (
    "nanosleep clock_nanosleep usleep sleep pause poll ppoll select pselect epoll_wait epoll_pwait epoll_pwait2 accept "
    "accept4 connect recv recvfrom recvmsg recvmmsg send sendto sendmsg sendmmsg sendfile sendfile64 mq_receive "
    "mq_timedreceive mq_send mq_timedsend msgrcv msgsnd sigwait sigwaitinfo sigtimedwait sigsuspend pthread_cond_wait "
    "pthread_cond_timedwait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast sem_wait sem_timedwait "
    "sem_clockwait sem_post semop semtimedop pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_clocklock "
    "pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock pthread_join "
    "pthread_timedjoin_np pthread_barrier_wait pthread_spin_lock pthread_create pthread_kill pthread_once futex flock "
    "lockf wait wait3 wait4 waitid waitpid fork vfork clone execve posix_spawn posix_spawnp system popen pclose kill "
    "read pread pread64 readv preadv preadv2 preadv64 write pwrite pwrite64 writev pwritev pwritev2 pwritev64 open "
    "open64 openat openat64 creat creat64 close fopen fopen64 fdopen freopen fclose fread fwrite fflush fgets fgetc "
    "fputs fputc fprintf fscanf getline getdelim fsync fdatasync sync syncfs sync_file_range msync fallocate "
    "posix_fallocate ftruncate ftruncate64 truncate lseek lseek64 fseek ftell stat stat64 fstat fstat64 lstat lstat64 "
    "statx access faccessat unlink unlinkat rename mkdir rmdir opendir readdir readdir64 closedir readlink realpath "
    "mmap mmap64 munmap mprotect mremap madvise mlock munlock mlockall brk sbrk shm_open shmget shmat dlopen dlclose "
    "ioctl fcntl fcntl64 dup dup2 dup3 pipe pipe2 socket socketpair bind listen shutdown getsockopt setsockopt "
    "getaddrinfo getnameinfo gethostbyname gethostbyname_r eventfd eventfd_read eventfd_write timerfd_create "
    "timerfd_settime epoll_create epoll_create1 epoll_ctl inotify_init sched_yield sched_setaffinity getrandom "
    "aio_suspend io_uring_enter process_vm_readv copy_file_range splice tee vmsplice syscall"
)
_OF_SYSTEM = frozenset(_OF_SYSTEM_WORDS.split())
_NCCL_WORDS = (
    "AllReduce AllGather ReduceScatter Broadcast Bcast Reduce Send Recv AlltoAll AllToAll Gather Scatter "
    "GroupStart GroupEnd GroupSimulateEnd GetVersion GetUniqueId CommInitRank CommInitRankConfig "
    "CommInitRankScalable CommInitAll CommSplit CommFinalize CommDestroy CommAbort CommShrink CommGetAsyncError "
    "CommCount CommCuDevice CommUserRank CommRegister CommDeregister CommWindowRegister CommWindowDeregister "
    "MemAlloc MemFree RedOpCreatePreMulSum RedOpDestroy"
)
_NCCL = frozenset(f"nccl{name}" for name in _NCCL_WORDS.split())
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
_COMMON_WORDS_WORDS = (
    "a accum accumulate accumulation activation activations after all allgather alloc allreduce amp append apply "
    "args assemble async attention attn augment autocast autograd average backward barrier batch batched batches "
    "before begin bench benchmark block blocks broadcast bucket buffer buffers build by bwd cache calc calculate "
    "call cast check checkpoint chunk clear clip clipping clone close collate collect collective comm communicate "
    "communication compile compiled compute concat conv convert convolution copies copy cpu criterion cuda "
    "cudagraph data dataloader dataset ddp decode decoder deepcopy delete detach device dispatch do download "
    "draft drop dtoh eager embed embedding embeddings empty encode encoder end engine epoch eval evaluate "
    "evaluation execute exit expert experts feed fetch ffn fill final finalize finish first flash flush for "
    "forward free from fsdp func function fused fwd garbage gather gemm generate generation get gpu grad gradient "
    "gradients grads graph graphs head heads host htod idle image images in index infer inference init initial "
    "initialize inner input inputs inside is item iter iteration iterator kernel kernels key keys kv large last "
    "launch layer layers learning len lm load loaded loader loading log logging logits loop loops loss lr main "
    "make mask matmul measure memcpy memory memset merge metric metrics micro microbatch mini minibatch mlp mode "
    "model module modules move multi multiply name net network new next no norm normalize number of offload on op "
    "open operator opt optim optimize optimizer out outer output outputs pack pad padding parallel param "
    "parameter parameters params part pass perf phase pin pinned pipeline pool post postprocess pre prefetch "
    "prefill prepare preprocess print proc process profile profiler profiling push pop put python query queue "
    "random range ranges rank raw read receive recv reduce reduction region register release render replay "
    "request requests reset reshape response restore result results resume return rng rollout router run runner "
    "running sample sampler samples sampling save scale scaler scan scatter schedule scheduler score search "
    "section seed select self send seq sequence serial set setup shard sharded shuffle simple single size sleep "
    "slow small softmax solve sort spec speculative split stage start state stats step steps stop store stream "
    "streams sub sum switch sync synchronize task tensor tensors test text thread time timed timer to token "
    "tokenize tokenizer tokens top torch total train trainer training transfer transform transformer transpose "
    "tune tuning unpack unscale up update upload use user utils val validate validation value verify wait walk "
    "warm warmup weight weights with work worker write zero zeros cccl cub thrust nccl cublas cudnn cusparse "
    "cufft radix segmented exclusive inclusive unique partition flagged if length histogram each adjacent "
    "difference left right three two way pairs arg min max nan topk"
)
_COMMON_WORDS = frozenset(_COMMON_WORDS_WORDS.split())
_LONGEST_COMMON = 80
# A word of a name, such as each of `DataLoader.next_batch`; a number with few digits; what stands between them.
_COMMON_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|(?<![0-9])[0-9]{1,6}(?![0-9])|[ _.:#()/-]+", re.ASCII)
# Parts of the paths of modules that many models have, and the beginnings of the names of torch's classes for them.
_MODULES_WORDS = (
    "model transformer encoder decoder layers layer blocks block h attention attn self_attn cross_attn self mlp ffn "
    "feed_forward norm norm1 norm2 norm3 ln1 ln2 ln_1 ln_2 ln_f input_layernorm post_attention_layernorm LayerNorm "
    "q_proj k_proj v_proj o_proj out_proj in_proj gate_proj up_proj down_proj gate up down qkv proj query key value "
    "dense intermediate output pooler fc fc1 fc2 c_attn c_fc c_proj linear linear1 linear2 act act_fn gelu relu silu "
    "dropout embed_tokens embeddings embedding emb wte wpe lm_head head classifier features stem conv1 conv2 conv3 "
    "bn1 bn2 bn3 layer1 layer2 layer3 layer4 downsample avgpool maxpool down_blocks up_blocks mid_block resnets "
    "attentions transformer_blocks to_q to_k to_v to_out proj_in proj_out net rotary_emb experts router"
)
_MODULES = frozenset(_MODULES_WORDS.split())
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
# The shape of an instruction of tensor cores, such as s16816gemm.
_INSTRUCTION = re.compile(r"(?:4|8|16|32|64|128|256){2,3}")
_WORD_OF_NSYS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|.", re.DOTALL)
_CHIP = re.compile(r"[GTA][A-Z]\d{2,3}[A-Z]?(-[A-Z])?|gfx\d{3,4}[a-f]?")
_GPU_WORDS_WORDS = (
    "NVIDIA AMD Instinct Radeon GeForce RTX GTX Tesla Quadro TITAN Titan Graphics Device Ada Generation Laptop GPU Max "
    "Q Design with Ti SUPER Super PCIe PCIE NVL MIG CMP Orin Xavier Jetson AGX Thor Grace Hopper Blackwell Ampere DGX "
    "Spark Server Workstation Edition PRO Pro D cpu"
)
_GPU_WORDS = frozenset(_GPU_WORDS_WORDS.split())
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
    names_by_section: dict[str, set[str]] = {}
    for name in _FILES:
        section = "words"
        for line in files("nsysprof.bundle").joinpath(name).read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                names_by_section.setdefault(section, set()).add(line)
    return {section: frozenset(names) for section, names in names_by_section.items()}


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
    return b"\n".join(_sources(files("nsysprof"), (".py", ".j2", ".js", ".css")))


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
    return frozenset(TOKEN.findall(b"\n".join(_sources(files("nsysprof"), (".j2",)))))


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
    written = b"\n".join(_sources(files("nsysprof"), (".py", ".j2")))
    return frozenset(re.findall(r"[A-Za-z]{4,20}", written.decode("utf-8", "replace")))


def _sources(folder: Traversable, suffixes: tuple[str, ...]) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry, suffixes)
        elif entry.name.endswith(suffixes):
            yield entry.read_bytes()
