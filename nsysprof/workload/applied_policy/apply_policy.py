"""Replace torch's scaled_dot_product_attention by a function that runs a policy's backend where a rule matches."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional
from msgspec.structs import replace
from torch.nn.attention import SDPBackend, sdpa_kernel

from nsysprof.attention.mask import LEARNED
from nsysprof.attention.policy_file import AUTO, LIBRARY_BACKENDS, PolicyFile, PolicyRule
from nsysprof.attention.shape import Shape
from nsysprof.workload.backends import library_attention
from nsysprof.workload.refusal import IneligibleError, UnusableBackendError

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
# Whether heads are grouped is said by the sizes.
_GROUPED = {"enable_gqa"}
# More forms of calls than this are not looked up among the rules of several lengths.
_MOST_FORMS = 20_000
_REFUSED = ("No available kernel", "No viable backend")
# Torch's flags belong to the process. A call of another thread must neither see them changed nor change them back.
_FLAGS = threading.RLock()
_C: Any = torch._C
# Torch's functions that get and set whether each backend is allowed. torch.backends.cuda wraps these at twice the cost.
_get_math, _set_math = _C._get_math_sdp_enabled, _C._set_sdp_use_math
_get_flash, _set_flash = _C._get_flash_sdp_enabled, _C._set_sdp_use_flash
_get_efficient, _set_efficient = _C._get_mem_efficient_sdp_enabled, _C._set_sdp_use_mem_efficient
_get_cudnn, _set_cudnn = _C._get_cudnn_sdp_enabled, _C._set_sdp_use_cudnn
_NAMES = ("math", "flash", "efficient", "cudnn")
_WANTED = {name: tuple(name == each for each in _NAMES) for name in _NAMES}
_SETTERS = dict(zip(_NAMES, (_set_math, _set_flash, _set_efficient, _set_cudnn), strict=True))
_TENSOR = torch.Tensor
_grad_enabled, _autocast = torch.is_grad_enabled, torch.is_autocast_enabled
_is_dynamo_compiling: Any = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
NO_RULE = "A call does not match any rule of the policy and is left to torch."
Say = Callable[[str], None]


class AppliedPolicy:
    """The rules of a policy in a form for quick look-up, and what happened to the calls.

    say: called once for each reason why calls were left to torch.
    """

    def __init__(self, file: PolicyFile, say: Say) -> None:
        self.file = file
        # By the key of a call: the backend of its rule; or, once that has computed the same as torch's own choice on
        # inputs of this program, how to run it alone: its name, and what forbids the other three. False where the rule
        # turned out not to hold.
        self.rules: dict[Any, Any] = _index(file)
        self._ranges = [rule for rule in file.rules if rule.is_range]
        self._is_cuda = file.device == "cuda"
        self.checks: list[CallCheck] = []
        self.calls = 0
        self.left = 0
        # How many forms of calls torch.compile traced with a rule, however often they run afterwards.
        self.compiled_forms: set[Any] = set()
        self.has_said_no_rule = False
        self._say = say
        self._said: set[str] = set()

    @property
    def compiled(self) -> int:
        """Return how many forms of calls were compiled with a rule."""
        return len(self.compiled_forms)

    def find(self, call: Any) -> Any:
        """Return the backend of the first rule of several lengths that holds for a call without a rule of its own."""
        found = None
        if call is not None and self._ranges and len(self.rules) < _MOST_FORMS:
            found = next((rule.backend for rule in self._ranges if _holds(rule, call, self._is_cuda)), None)
            if found is not None:
                self.rules[call] = found
        return found

    def say(self, text: str) -> None:
        """Report why calls are left to torch, unless that was already reported."""
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def retire(self) -> None:
        """Leave every call to torch from now on."""
        self.rules.clear()
        self.has_said_no_rule = True

    def drop(self, key: Any, text: str) -> None:
        """Leave calls of this form to torch from now on, and report why."""
        self.rules[key] = False
        self.say(text)

    def say_no_rule(self) -> None:
        """Report that there was a call without a rule."""
        self.has_said_no_rule = True
        self.say(NO_RULE)

    def leave_refused(self, key: Any, backend: str, error: RuntimeError) -> None:
        """Leave calls of this form to torch if their backend refused them; raise any other error again."""
        if not any(words in str(error) for words in _REFUSED):
            raise error
        self.left += 1
        self.drop(key, f"{backend} refused a call that it was tuned for; that shape is left to torch.")


# All active policies, the innermost last, and torch's own function while any policy is active. Guarded by _FLAGS.
_ACTIVE: list[AppliedPolicy] = []
_ORIGINAL: list[Callable[..., Any]] = []


def begin_policy(applied: AppliedPolicy) -> None:
    """Activate a policy for all threads."""
    with _FLAGS:
        _ACTIVE.append(applied)
        if len(_ACTIVE) == 1:
            own = torch.nn.functional.scaled_dot_product_attention
            _ORIGINAL.append(own)
            torch.nn.functional.scaled_dot_product_attention = make_function(own)


def end_policy(applied: AppliedPolicy) -> None:
    """Deactivate the policy's most recent activation. Threads may leave in any order."""
    with _FLAGS:
        _ACTIVE.pop(max(i for i, active in enumerate(_ACTIVE) if active is applied))
        if not _ACTIVE:
            torch.nn.functional.scaled_dot_product_attention = _ORIGINAL.pop()


def make_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that replaces torch's.

    original: torch's function, called for everything that is left to torch.
    """
    # No default is a float: the compiler would make an input of the graph of it. In one piece, because each function
    # that is called takes a tenth of a microsecond.
    # The first of two checks of a compiler takes a third of the other's time, but does not know every torch.export.
    # Names that Python finds faster than attributes of modules: a call costs some microseconds with them.
    # The scale is not part of a call's key, because no backend is chosen by scale. A subclass (of nested or distributed
    # tensors) has other kernels, and no key. The number of elements of v is enough, because its sizes are those of k up
    # to the head size.
    is_compiling, is_exporting, active_policies = _is_dynamo_compiling, torch.compiler.is_compiling, _ACTIVE
    acquire, release, is_grad, is_cast, tensor = _FLAGS.acquire, _FLAGS.release, _grad_enabled, _autocast, _TENSOR

    def scaled_dot_product_attention(  # noqa: PLR0912
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = None, is_causal: Any = False,
        scale: Any = None, **rest: Any,
    ) -> Any:  # fmt: skip
        dropout, named = 0.0 if dropout_p is None else dropout_p, rest if scale is None else {**rest, "scale": scale}
        if is_compiling() or (type(query) is not tensor and is_exporting()):
            return _call_compiled(original, query, key, value, attn_mask, dropout, is_causal, scale, rest)
        if active_policies:
            active, call, rule = active_policies[-1], None, None
            if type(query) is tensor and type(key) is tensor and not dropout:
                try:
                    on_gpu = query.is_cuda
                    call = (
                        query.shape, key.shape, value.numel(),
                        _dtype_of_autocast(on_gpu) if (is_cast() if on_gpu else is_cast("cpu")) else query.dtype,
                        (kind := None if attn_mask is None else _kind_of(attn_mask)), is_causal, is_grad() and (
                        query.requires_grad or key.requires_grad or value.requires_grad or kind is LEARNED), on_gpu,
                    )  # fmt: skip
                    rule = active.rules.get(call)
                except (RuntimeError, AttributeError):
                    pass  # nested tensors and other objects lack some of these
            if rule is None:
                rule = active.find(call)
            if rule.__class__ is str and rule != AUTO:  # this is the first call of this form
                whole = (query, key, value, attn_mask, dropout, is_causal)
                rule = _check_and_count(active, call, rule, original, whole, scale, rest)
            if rule.__class__ is tuple:
                (name, first, second, third), is_free = rule, False
                acquire()  # written out, because a with statement costs three times as much
                try:
                    is_free = _get_math() and _get_flash() and _get_efficient() and _get_cudnn()
                    if not is_free:
                        whole = (query, key, value, attn_mask, dropout, is_causal)
                        out = _call_alone(name, original, whole, scale, rest)
                    else:
                        _ = first(False), second(False), third(False)
                        out = original(query, key, value, attn_mask, dropout, is_causal, **named)
                    active.calls += 1
                    return out
                except RuntimeError as error:
                    active.leave_refused(call, name, error)
                finally:
                    if is_free:
                        _ = first(True), second(True), third(True)
                    release()
            elif rule.__class__ is LibraryCall and scale is None and rest.keys() <= _GROUPED:
                active.calls += 1
                return rule.attend(query, key, value, is_causal)
            elif rule.__class__ is LibraryCall or not rule:  # there is no rule, or it turned out not to hold
                active.left += 1
                if rule is None and not active.has_said_no_rule:
                    active.say_no_rule()
            else:
                active.calls += 1
        return original(query, key, value, attn_mask, dropout, is_causal, **named)

    return _register_with_script(scaled_dot_product_attention)


def _dtype_of_autocast(is_cuda: bool) -> Any:
    """Return the type in which autocast runs a call."""
    return torch.get_autocast_dtype("cuda" if is_cuda else "cpu")


def _kind_of(mask: Any) -> Any:
    """Return what the key of a call has of its mask: whether it is bool, or LEARNED if it needs a gradient."""
    return LEARNED if mask.requires_grad else mask.dtype is torch.bool


class LibraryCall:
    """Calls of one form by a library. attend: the function of q, k, v and is_causal."""

    __slots__ = ("attend",)

    def __init__(self, attend: Callable[..., Any]) -> None:
        self.attend = attend


def _library_call(backend: str, call: Any) -> LibraryCall:
    """Return how a library runs calls of this form. Raises RuntimeError where it cannot be loaded or refuses it."""
    query, keys, numbers, dtype, kind, is_causal, wants, on_gpu = call
    name = next(name for name, own in _DTYPES.items() if own is dtype)
    shape = Shape(
        batch=query[0], heads=query[1], seq=query[2], head_dim=query[3], kv_heads=keys[1], kv_seq=keys[2],
        head_dim_v=numbers // math.prod(keys[:3]), dtype=name, causal=is_causal, pass_="fwdbwd" if wants else "fwd",
        mask={None: "none", True: "bool", False: "float"}.get(kind, LEARNED),
    )  # fmt: skip
    try:
        attend = library_attention(backend, shape, "cuda" if on_gpu else "cpu")
    except (IneligibleError, UnusableBackendError) as error:
        raise RuntimeError(str(error)) from error

    def run(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        if q.dtype is not dtype:  # under autocast
            q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        return attend(q, k, v, is_causal)

    return LibraryCall(run)


def _call_alone(
    backend: str,
    original: Callable[..., Any],
    arguments: tuple[Any, ...],
    scale: float | None,
    rest: dict[str, Any],
) -> Any:
    """Return the result of a call with only one backend allowed. Afterwards, the earlier flags are restored."""
    before, wanted = _allowed(), _WANTED[backend]
    _set_allowed(before, wanted)
    try:
        if scale is None and not rest:
            return original(*arguments)
        return original(*arguments, scale=scale, **rest)
    finally:
        _set_allowed(wanted, before)


def _allowed() -> tuple[bool, bool, bool, bool]:
    """Return whether math, flash, efficient and cudnn are allowed."""
    return _get_math(), _get_flash(), _get_efficient(), _get_cudnn()


def _set_allowed(now: tuple[bool, ...], wanted: tuple[bool, ...]) -> None:
    """Set the flags that differ; sdpa_kernel does the same through Python objects, at several times the cost."""
    if now[0] is not wanted[0]:
        _set_math(wanted[0])
    if now[1] is not wanted[1]:
        _set_flash(wanted[1])
    if now[2] is not wanted[2]:
        _set_efficient(wanted[2])
    if now[3] is not wanted[3]:
        _set_cudnn(wanted[3])


def _check_and_count(
    active: AppliedPolicy,
    call: Any,
    backend: str,
    original: Callable[..., Any],
    arguments: tuple[Any, ...],
    scale: float | None,
    rest: dict[str, Any],
) -> Any:
    """Return how to run the backend alone for calls of this form, once it was checked on this call.

    Where the backend may not run it, the reason is told, and the result is False.
    """
    library: list[LibraryCall] = []

    def attend(alone: bool, *tensors: Any) -> Any:
        whole = (*tensors, *arguments[3:])
        if alone and backend in LIBRARY_BACKENDS:
            library[:] = library or [_library_call(backend, call)]
            return library[0].attend(*tensors, arguments[5])
        return _call_alone(backend, original, whole, scale, rest) if alone else original(*whole, scale=scale, **rest)

    with _FLAGS:
        known = active.rules.get(call)
        if known != backend:  # another thread has checked it meanwhile
            return known
        if backend in LIBRARY_BACKENDS and (scale is not None or not rest.keys() <= _GROUPED):
            return False  # this call alone: others of its form may have the usual scale
        if call[-1] and torch.cuda.is_current_stream_capturing():
            active.say("A shape was first called while a CUDA graph was captured: these calls are left to torch.")
        else:
            checked = check_first_call(attend, arguments[:3], wants=call[6], backend=backend)
            active.checks.append(checked)
            if checked.ok and library:
                active.rules[call] = library[0]
                return library[0]
            if checked.ok:
                others = [setter for name, setter in _SETTERS.items() if name != backend]
                active.rules[call] = (backend, *others)
                return active.rules[call]
            active.drop(call, f"{checked.reason}; that shape is left to torch.")
        return False


def _call_compiled(
    original: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    dropout: float,
    is_causal: bool,
    scale: float | None,
    rest: dict[str, Any],
) -> Any:
    """Run a call while torch.compile traces it.

    The compiler knows torch's context manager, but neither flags nor locks.

    A size that the compiler keeps open for other values is left to torch, because a rule would fix the graph to one
    size.
    """
    from torch.fx.experimental.symbolic_shapes import has_static_value

    backend = None
    if all(has_static_value(size) for size in (*query.shape, *key.shape)):
        keys = tuple(int(size) for size in key.shape)
        values = tuple(int(size) for size in value.shape)
        sizes = tuple(int(size) for size in query.shape), keys, math.prod(values)
        wants = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
        kind = None if mask is None else _kind_of(mask)
        wants = wants or (kind == LEARNED and torch.is_grad_enabled())
        if dropout == 0.0 and values[:-1] == keys[:-1]:
            device = "cuda" if query.is_cuda else "cpu"
            dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype
            backend = _choose_compiled(*sizes, dtype, kind, is_causal, bool(wants), query.is_cuda)
    else:
        _leave_open_sizes()
    if backend == "math":
        with sdpa_kernel(SDPBackend.MATH):
            return original(query, key, value, mask, dropout, is_causal, scale=scale, **rest)
    if backend == "flash":
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return original(query, key, value, mask, dropout, is_causal, scale=scale, **rest)
    if backend == "efficient":
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            return original(query, key, value, mask, dropout, is_causal, scale=scale, **rest)
    if backend == "cudnn":
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return original(query, key, value, mask, dropout, is_causal, scale=scale, **rest)
    return original(query, key, value, mask, dropout, is_causal, scale=scale, **rest)


def _choose_compiled(*key: Any) -> str | None:
    """Return the backend of a rule. The compiler runs this while it traces, and keeps the result."""
    active = _ACTIVE[-1] if _ACTIVE else None
    if active is None:
        return None
    rule = active.rules.get(key)
    if rule is None:
        rule = active.find(key)
    if rule is None and key[4] is True:
        # The compiler turns a bool mask into one of numbers, and so it was recorded in compiled code.
        key = (*key[:4], False, *key[5:])
        rule = active.rules.get(key)
    if rule is None:
        active.say("A compiled call does not match any rule of the policy and is left to torch.")
        return None
    if rule is False or rule == AUTO:
        return None
    active.compiled_forms.add(key)
    return str(rule[0] if isinstance(rule, tuple) else rule)


def _leave_open_sizes() -> None:
    if _ACTIVE:
        _ACTIVE[-1].say("A compiled call has sizes that stay open (dynamic shapes) and is left to torch.")


# What torch.compiler.assume_constant_result does, without loading the compiler.
_choose_compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]
_leave_open_sizes._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _register_with_script(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make torch.jit.script compile torch's own function instead of ours, which it cannot compile. Return ours."""
    try:
        from torch.jit import _builtins

        _builtins._register_builtin(function, "aten::scaled_dot_product_attention")
    except (ImportError, AttributeError):  # a torch without it; only programs that script attention notice
        return function
    return function


def _index(file: PolicyFile) -> dict[Any, str]:
    """Return the backends of the rules by key. Of rules for gradients, the whole pass counts before the backward."""
    backends: dict[Any, str] = {}
    is_cuda = file.device == "cuda"
    for rule in sorted(file.rules, key=lambda rule: rule.pass_ == "fwdbwd"):
        if not rule.is_range:
            backends[_key_of(rule, is_cuda)] = rule.backend
    return backends


def _holds(rule: PolicyRule, call: Any, is_cuda: bool) -> bool:
    """Return whether a rule of several lengths holds for the key of a call; one for equal lengths needs equal ones."""
    query, keys = call[:2]
    if len(query) != 4 or len(keys) != 4 or (rule.own_kv_seq is None and not rule.kv_seq_to and query[2] != keys[2]):
        return False
    longest_k = rule.kv_seq_to or (rule.seq_to if rule.own_kv_seq is None else rule.kv_seq)
    if not (rule.seq <= query[2] <= (rule.seq_to or rule.seq) and rule.kv_seq <= keys[2] <= longest_k):
        return False
    plain = replace(rule, seq=query[2], kv_seq=keys[2], seq_to=0, kv_seq_to=0)
    return bool(_key_of(plain, is_cuda) == call)


def _key_of(rule: PolicyRule, is_cuda: bool) -> Any:
    """Return the key of the calls of a rule, as make_function has it. Which axes of a mask are full does not count."""
    query = (rule.batch, rule.heads, rule.seq, rule.head_dim)
    keys = (rule.batch, rule.kv_heads, rule.kv_seq, rule.head_dim)
    kind = {"none": None, "bool": True, "float": False, LEARNED: LEARNED}[rule.mask.partition(":")[0]]
    numbers = math.prod(keys[:3]) * rule.head_dim_v
    return (query, keys, numbers, _DTYPES[rule.dtype], kind, rule.causal, rule.pass_ != "fwd", is_cuda)


def machine_differences(file: PolicyFile, *, with_gpu: bool = True) -> list[str]:
    """Return the differences between the policy's machine and this one as texts; none where the policy is valid.

    with_gpu: whether to check the GPU too, which initialises CUDA.
    """
    facts: list[tuple[str, str | None, str | None]] = [("torch", file.torch_version, str(torch.__version__))]
    if file.device == "cuda" and torch.version.cuda is None:
        facts.insert(0, ("the device", file.gpu_name, "no GPU"))
    elif file.device == "cuda" and with_gpu:
        if not torch.cuda.is_available():
            facts = [("the device", file.gpu_name, "no GPU")]
        else:
            facts.insert(0, ("the GPU", file.gpu_name, torch.cuda.get_device_name()))
            facts.append(("cuDNN", file.cudnn_version, loaded_cudnn()))
    return [f"{name} is {have}, tuned on {wanted}" for name, wanted, have in facts if wanted != have]


def loaded_cudnn() -> str | None:
    """Return the version of cuDNN that torch loaded, such as `9.19.0`; None without cuDNN."""
    number = torch.backends.cudnn.version()
    if number is None:
        return None
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


# The tolerances, as relative Frobenius norms. In fp32, a kernel may compute in TF32 (10 bits, like fp16).
OUTPUT_TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 4e-3}
GRADIENT_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 2e-2}
# Calls attention: whether the policy's backend runs alone, then q, k and v.
Attend = Callable[..., Any]


@dataclass(frozen=True)
class CallCheck:
    """How far a backend's result was from torch's own choice on a call of the program."""

    backend: str
    ok: bool
    # What is wrong; empty when ok.
    reason: str = ""
    # Relative Frobenius norms and their tolerances, by tensor: out, dq, dk, dv.
    errors: dict[str, float] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)


def check_first_call(attend: Attend, tensors: tuple[Any, ...], *, wants: bool, backend: str) -> CallCheck:
    """Run a call with torch's own choice and with only the backend, and return how far they differ.

    Nothing of the program changes: inputs are detached, and no random number is drawn.

    wants: whether to compare gradients too. They are not compared where the program records what autograd saves,
        because activation checkpointing counts it.
    """
    with_gradients = wants and not _is_recorded()
    try:
        # an error of the call itself belongs to the program
        expected = _results(attend, tensors, False, with_gradients)
        try:
            results = _results(attend, tensors, True, with_gradients)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            return _refused(backend, error)
    except torch.cuda.OutOfMemoryError:
        return CallCheck(backend, False, f"There is not enough memory to check {backend}")
    dtype = expected["out"].dtype
    errors, tolerances, faults = {}, {}, []
    for name, reference in expected.items():
        errors[name] = _relative_error(results[name], reference)
        tolerances[name] = (OUTPUT_TOLERANCE if name == "out" else GRADIENT_TOLERANCE).get(dtype, 0.0)
        if not errors[name] <= tolerances[name]:  # NaN too
            text = f"{name} of {backend} differs from torch's own choice by {errors[name]:.2g} relative"
            faults.append(f"{text} (tolerance {tolerances[name]:.2g})")
    return CallCheck(backend, not faults, faults[0] if faults else "", errors, tolerances)


def _results(attend: Attend, tensors: tuple[Any, ...], alone: bool, with_gradients: bool) -> dict[str, Any]:
    leaves = [tensor.detach().requires_grad_(with_gradients) for tensor in tensors]
    with torch.set_grad_enabled(with_gradients):
        out = attend(alone, *leaves)
        if not with_gradients:
            return {"out": out}
        gradients = torch.autograd.grad(out, leaves, out.detach())
        return {"out": out.detach(), **dict(zip(("dq", "dk", "dv"), gradients, strict=True))}


def _is_recorded() -> bool:
    """Return whether a hook of the program sees what autograd saves; True also where this is unknown."""
    ask = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    try:
        return ask is None or ask(True) is not None
    except (RuntimeError, TypeError):
        return True


def _relative_error(result: Any, reference: Any) -> float:
    size = float(torch.linalg.vector_norm(reference, dtype=torch.float32))
    error = float(torch.linalg.vector_norm(result - reference, dtype=torch.float32))
    if size == 0:
        return 0.0 if error == 0 else math.inf
    return error / size


def _refused(backend: str, error: Exception) -> CallCheck:
    first = (str(error).strip().splitlines() or ["no message"])[0][:200]
    return CallCheck(backend, False, f"{backend} refused a call that it was tuned for ({first})")
