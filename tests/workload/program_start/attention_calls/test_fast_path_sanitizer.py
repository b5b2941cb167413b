"""The compiled part makes no fault of memory in odd calls, as the address sanitizer sees it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nsysprof.workload.program_start import attention_calls

SOURCE = Path(attention_calls.__file__).with_name("fast_calls.c")
# It stands for torch: a class of tensors, and a table of DLPack that refuses to describe them.
PROGRAM = """
import ctypes, gc, sys
sys.path.insert(0, sys.argv[1])
import fast_calls

class Tensor:
    requires_grad, grad_fn, shape, dtype = False, None, (1,), None

describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
sizes = (ctypes.c_int64 * 8)(1, 2, 3, 4, 5, 6, 7, 8)

class Described(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]

def fill(tensor, address):
    found = Described.from_address(address)
    found.dimensions, found.code, found.bits, found.sizes = tensor.dimensions, 2, 16, ctypes.addressof(sizes)
    return 0

function = describe(fill)
table = (ctypes.c_uint64 * 7)(1, 0, 0, 0, 0, ctypes.cast(function, ctypes.c_void_p).value, 0)
name = b"dlpack_exchange_api"
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule = make(ctypes.addressof(table), name, None)

class Seen:
    forward_name, one_node, before, after = "name", None, None, None

def torch_function(*args, **kwargs):
    if kwargs.get("scale") == 0.25:
        raise ValueError("torch refuses")
    return args[0] if args else None

false = lambda *args: False
calls = fast_calls.FastCalls(torch_function, torch_function, lambda *a: Seen(), false, false, fast_calls.push,
                             fast_calls.pop, false, false, false, Tensor, capsule)
attention = calls.make_function()
for turn in range(300):
    q = Tensor()
    q.dimensions = turn % 9 - 1
    for args, kwargs in [((), {}), ((q,) * 9, {}), ((q, q, q), {"query": q}), ((q, q), {"value": q}), ((q, q, q), {}),
                         ((q, q, "x"), {}), ((q, q, q, False), {}), ((q, q, q), {"attn_mask": q, "scale": 0.5 + turn}),
                         ((q, q, q), {"scale": 0.25}), ((q, q, q), {"x" * turn: 1}), ((q, q, q, None, 1, 2), {})]:
        try:
            attention(*args, **kwargs)
        except ValueError:
            pass
    if turn % 100 == 99:
        calls.collect()
        calls.clear()
before, after = fast_calls.Hooks(fast_calls.push, fast_calls.pop, "n" * 3000).make_functions()
register = fast_calls.make_register(lambda *args: args)
after(), before(None), after(1, 2), after()
register(None, before), register({}, after), register(None, print), register([], before), register()
del before, after

class Module:
    _compiled_call_impl, numbers = None, 0

    def _call_impl(self, *args, **kwargs):
        return len(args) / kwargs.get("by", 1)

def call_module(*args, **kwargs):
    return args[0]._call_impl(*args[1:], **kwargs)

texts, left_open = {}, {}
Module.__call__ = call_module
for original in (None, call_module.__get__(Module())):
    for push, pop in ((fast_calls.push, fast_calls.pop), (lambda name: None, lambda: None), (len, gc.collect)):
        assert fast_calls.watch_modules(call_module, original, texts, left_open, lambda: False, push, pop)
for turn in range(3000):
    module = Module()
    texts[id(module)] = None if turn % 3 else "name" * turn
    for args, kwargs in [((), {}), ((1,) * (turn % 40), {"x" * (turn % 50): 1}), ((), {"by": 0})]:
        try:
            module(*args, **kwargs)
        except ZeroDivisionError:
            pass
    if turn % 2:
        fast_calls.forget_module(id(module))
    if turn % 500 == 0:
        texts.clear()
gc.collect()
print("done")
"""


def test_odd_calls_make_no_fault_of_memory(tmp_path):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    library = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(library.stdout.strip()).is_file():
        pytest.skip("gcc has no address sanitizer")
    options = ["-O1", "-g", "-fPIC", "-shared", "-std=c11", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030b0000"]
    include = f"-I{sysconfig.get_paths()['include']}"
    command = [compiler, *options, "-fsanitize=address", include, str(SOURCE), "-o", str(tmp_path / "fast_calls.so")]
    subprocess.run(command, check=True, timeout=60)
    environment = {**os.environ, "LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
