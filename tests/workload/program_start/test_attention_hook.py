"""Programs call attention in every way; the hook counts what they count themselves, and changes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsysprof.capture.user_program.program_hook import collect_recorded, find_recorded, hook_environment

pytestmark = pytest.mark.torch
START = "import torch, torch.nn.functional as F\nfrom torch import nn\ntorch.set_num_threads(1)\n"


def run(folder: Path, program: str, *, status: int = 0) -> tuple[list[dict], str, list]:
    (folder / "program.py").write_text(program)
    report = folder / "nsys.nsys-rep"
    base = {**os.environ, "PYTHONWARNINGS": "ignore"}
    environment = base | hook_environment(report, base, ("attention",))
    done = subprocess.run(
        [sys.executable, "program.py"], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    notes = collect_recorded(report, ("attention",))
    files = [json.loads(path.read_text()) for path in find_recorded(folder, "attention").values()]
    return [call for file in files for call in file["calls"]], done.stdout + done.stderr, list(notes)


CALLS = """
q = torch.randn(2, 8, 16, 64, requires_grad=True)
k = torch.randn(2, 2, 32, 64)
for step in range(3):
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
F.scaled_dot_product_attention(key=k, query=q, value=k, enable_gqa=True)
mask = torch.ones(2, 1, 16, 16, dtype=torch.bool)
turned = q.transpose(1, 2).contiguous().transpose(1, 2)
F.scaled_dot_product_attention(turned, turned, turned, attn_mask=mask, dropout_p=0.25).sum().backward()
with torch.autocast("cpu", dtype=torch.bfloat16):
    F.scaled_dot_product_attention(q, q, q).sum().backward()
heads = nn.MultiheadAttention(64, 4, batch_first=True)
x = torch.randn(2, 10, 64)
heads(x, x, x, need_weights=False)[0].sum().backward()
with torch.no_grad():
    nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()(x)
parts = torch.nested.nested_tensor([torch.randn(5, 64), torch.randn(7, 64)], layout=torch.jagged)
parts = parts.unflatten(-1, [8, 8]).transpose(1, 2)
F.scaled_dot_product_attention(parts, parts, parts)
"""


def test_each_way_to_call_is_recorded_with_its_shape(tmp_path: Path) -> None:
    calls, said, notes = run(tmp_path, START + CALLS)
    assert said == ""
    plain = {"function": "sdpa", "batch": 2, "heads": 8, "kv_heads": 8, "seq_q": 16, "seq_kv": 16, "head_dim": 64,
             "causal": False, "dropout": 0.0, "mask": "none", "layout": "bhsd", "dtype": "fp32"}  # fmt: skip
    expected = [
        {**plain, "site": "program.py:8", "causal": True, "forward": 3, "backward": 3},
        {**plain, "site": "program.py:9", "kv_heads": 2, "seq_kv": 32, "forward": 1, "backward": 0},
        {**plain, "site": "program.py:12", "mask": "bool:b1qk", "dropout": 0.25, "layout": "bshd", "backward": 1},
        {**plain, "site": "program.py:14", "dtype": "bf16", "backward": 1},
        {**plain, "site": "program.py:17", "heads": 4, "kv_heads": 4, "seq_q": 10, "seq_kv": 10, "head_dim": 16,
         "layout": "sbhd", "forward": 1, "backward": 1},
        {"function": "_transformer_encoder_layer_fwd", "site": "program.py:19", "batch": 2, "heads": 4, "head_dim": 16,
         "seq_q": 10, "forward": 1},
        {"function": "sdpa", "site": "program.py:22", "batch": 2, "heads": 8, "head_dim": 8, "mask": "nested"},
    ]  # fmt: skip
    assert [{key: call.get(key) for key in wanted} for call, wanted in zip(calls, expected, strict=True)] == expected
    assert [note.code for note in notes] == ["attention-recorded"]
    assert "Calls of attention: 9; backward passes: 6; different shapes and lines of the program: 7." in notes[0].text


COMPILED = """
@torch.compile(backend="aot_eager", fullgraph=True)
def forward(a):
    return F.scaled_dot_product_attention(a * 1, a, a, is_causal=True).sum()
q = torch.randn(2, 4, 16, 64, requires_grad=True)
for step in range(3):
    forward(q).backward()
class Module(nn.Module):
    def forward(self, a):
        return torch.nn.functional.scaled_dot_product_attention(a, a, a)
scripted = torch.jit.script(Module())
import io, warnings
file = io.BytesIO()
torch.jit.save(scripted, file)
torch.jit.load(io.BytesIO(file.getvalue()))(q.detach())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.jit.trace(Module(), q.detach(), check_trace=False)
assert not [str(each.message) for each in caught if each.category is torch.jit.TracerWarning]
exported = torch.export.export(Module(), (q.detach(),)).module()
for step in range(2):
    exported(q.detach())
print([node.target for node in torch.fx.symbolic_trace(Module()).graph.nodes][1].__module__)
import pickle
pickle.dumps(F.scaled_dot_product_attention)
try:
    F.scaled_dot_product_attention(q)
except TypeError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_compiled_program_is_compiled_as_before_and_its_calls_are_counted(tmp_path: Path) -> None:
    calls, said, notes = run(tmp_path, START + COMPILED)
    call, exported = calls
    assert (call["forward"], call["backward"], call["site"], call["seq_q"]) == (3, 3, "program.py:5", 16)
    assert (exported["forward"], exported["seq_q"], exported["site"]) == (2, 16, "program.py:25")
    assert "torch._C._nn" in said
    assert "missing 2 required positional argument" in said
    assert [note.code for note in notes] == ["attention-recorded", "attention-unseen"]
    places = "functions of torch.jit.script, programs that torch.jit loaded or traced"
    assert f"cannot see it: {places}." in notes[1].text


PARALLEL = """
import multiprocessing, threading
def work():
    q = torch.randn(1, 2, 8, 16)
    for _ in range(500):
        F.scaled_dot_product_attention(q, q, q)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
# The replicas of DataParallel, on processors that stand for GPUs.
from contextlib import nullcontext
from torch.nn.parallel import parallel_apply
gpus = torch.accelerator
gpus.is_available, gpus.current_accelerator = lambda: True, lambda: torch.device("cpu")
gpus.current_stream = gpus.device_index = lambda device: nullcontext()
class Replica(nn.Linear):
    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in super().forward(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v)
replicas = [Replica(32, 96) for _ in range(3)]
for step in range(4):
    sum(part.sum() for part in parallel_apply(replicas, [torch.randn(2, 8, 32)] * 3, devices=[0, 1, 2])).backward()
"""


def test_threads_forks_and_replicas_are_counted(tmp_path: Path) -> None:
    calls, said, _ = run(tmp_path, START + PARALLEL)
    assert said == ""
    *others, replicas = sorted(calls, key=lambda call: call["backward"])
    assert sorted(call["forward"] for call in others) == [500, 2000]
    assert (replicas["forward"], replicas["backward"], replicas["seq_q"], replicas["heads"]) == (12, 12, 8, 2)


LIBRARIES = {
    "flash_attn/__init__.py": "from flash_attn.flash_attn_interface import flash_attn_func, flash_attn_varlen_func",
    "flash_attn/flash_attn_interface.py": """
import torch
class Func(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v): return q * 1
    @staticmethod
    def backward(ctx, grad): return grad, None, None
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False): return Func.apply(q, k, v)
def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False): return q
""",
    "xformers/__init__.py": "",
    "xformers/ops/__init__.py": "from .fmha import memory_efficient_attention",
    "xformers/ops/fmha/__init__.py": "def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0):\n"
    "    return query\n",
}  # neither can be installed without a GPU


def test_other_libraries_are_wrapped_as_they_are_imported(tmp_path: Path) -> None:
    for name, text in LIBRARIES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = """
from flash_attn import flash_attn_func, flash_attn_varlen_func
import xformers.ops
class LowerTriangularMask: pass
q = torch.randn(2, 16, 8, 64, dtype=torch.float16, requires_grad=True)
k = torch.randn(2, 32, 4, 64, dtype=torch.float16)
flash_attn_func(q, k, k, causal=True).sum().backward()
ends = torch.tensor([0, 10, 16])
flash_attn_varlen_func(q[0], k[0], k[0], ends, ends, 10, 12, causal=True)
xformers.ops.memory_efficient_attention(q, k, k, attn_bias=LowerTriangularMask(), p=0.5)
"""
    calls, said, _ = run(tmp_path, START + program)
    assert said == ""
    names = ("function", "heads", "kv_heads", "seq_q", "seq_kv", "causal", "mask", "layout", "dropout", "backward")
    assert [tuple(call.get(name) for name in names) for call in calls] == [
        ("flash_attn_func", 8, 4, 16, 32, True, "none", "bshd", 0.0, 1),
        ("flash_attn_varlen_func", 8, 4, 10, 12, True, "varlen", None, 0.0, 0),
        ("memory_efficient_attention", 8, 4, 16, 32, True, "none", "bshd", 0.5, 0),
    ]


# Stand-ins with the arguments of the real functions, of libraries that need a GPU.
ENGINES = {
    "flash_attn/__init__.py": "",
    "flash_attn/cute/__init__.py": "from .interface import flash_attn_func",
    "flash_attn/cute/interface.py": "def flash_attn_func(q, k, v, softmax_scale=None, causal=False): return q, None",
    "vllm/__init__.py": "",
    "vllm/_custom_ops.py": "def paged_attention_v1(out, query, key_cache, value_cache, num_kv_heads, *rest): pass",
    "vllm/vllm_flash_attn/__init__.py": "from .flash_attn_interface import flash_attn_varlen_func",
    "vllm/vllm_flash_attn/flash_attn_interface.py": "def flash_attn_varlen_func(q, k, v, **named): return q",
    "vllm/v1/__init__.py": "",
    "vllm/v1/attention/__init__.py": "",
    "vllm/v1/attention/ops/__init__.py": "",
    "vllm/v1/attention/ops/triton_unified_attention.py": "def unified_attention(q, k, v, out, **named): pass",
    "sgl_kernel/__init__.py": "",
    "sgl_kernel/flash_attn.py": "def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, **named): return q",
    "sageattention/__init__.py": "from .core import sageattn",
    "sageattention/core.py": "def sageattn(q, k, v, tensor_layout='HND', is_causal=False, **named): return q",
    "flashinfer/__init__.py": "from .decode import BatchDecodeWithPagedKVCacheWrapper\n"
    "from .prefill import BatchPrefillWithRaggedKVCacheWrapper",
    "flashinfer/decode.py": "class BatchDecodeWithPagedKVCacheWrapper:\n"
    "    def run(self, q, paged_kv_cache): return q\n",
    "flashinfer/prefill.py": "class BatchPrefillWithRaggedKVCacheWrapper:\n    def run(self, q, k, v): return q\n",
    "transformer_engine/__init__.py": "",
    "transformer_engine/pytorch/__init__.py": "from .attention import DotProductAttention",
    "transformer_engine/pytorch/attention.py": "import torch\n"
    "class DotProductAttention(torch.nn.Module):\n"
    "    def forward(self, query_layer, key_layer, value_layer): return query_layer\n",
    "kernels/__init__.py": "from .utils import get_kernel",
    "kernels/utils.py": "import types\n"
    "def flash_attn_func(q, k, v, causal=False): return q\n"
    "made = types.SimpleNamespace(flash_attn_func=flash_attn_func)\n"
    "def get_kernel(name): return made\n",
}


def test_calls_of_engines_and_newer_libraries_are_recorded(tmp_path: Path) -> None:
    for name, text in ENGINES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = """
import flash_attn.cute, vllm._custom_ops, vllm.vllm_flash_attn, sgl_kernel.flash_attn
import sageattention, flashinfer, kernels
from vllm.v1.attention.ops.triton_unified_attention import unified_attention
from transformer_engine.pytorch import DotProductAttention
q, k = torch.randn(2, 16, 8, 64), torch.randn(2, 32, 4, 64)
tokens, pool = torch.randn(6, 8, 64), torch.randn(10, 16, 4, 64)
ends = torch.tensor([0, 2, 6], dtype=torch.int32)
flash_attn.cute.flash_attn_func(q, k, k, causal=True)
vllm._custom_ops.paged_attention_v1(tokens, tokens, pool, pool, 4, 0.1, None, None, 16, 160)
vllm.vllm_flash_attn.flash_attn_varlen_func(
    q=tokens, k=pool, v=pool, cu_seqlens_q=ends, max_seqlen_q=4, max_seqlen_k=160, causal=True, block_table=None)
unified_attention(q=tokens, k=pool, v=pool, out=tokens, cu_seqlens_q=ends, max_seqlen_q=4, seqused_k=ends,
                  max_seqlen_k=160, causal=True)
sgl_kernel.flash_attn.flash_attn_with_kvcache(q=q, k_cache=k, v_cache=k, causal=True)
sageattention.sageattn(q.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), is_causal=False)
flashinfer.BatchDecodeWithPagedKVCacheWrapper().run(tokens, (pool, pool))
flashinfer.BatchPrefillWithRaggedKVCacheWrapper().run(tokens, tokens[:, :4], tokens[:, :4])
DotProductAttention()(q, k, k)
for _ in range(2):
    kernels.get_kernel("owner/name").flash_attn_func(q, k, k)
from torch.nn.attention.varlen import varlen_attn
try:
    varlen_attn(tokens, tokens, tokens, ends, ends, 4, 4, window_size=(-1, 0))
except Exception:  # without a GPU
    pass
"""
    calls, said, _ = run(tmp_path, START + program)
    assert said == ""
    names = ("function", "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "causal", "mask", "forward")
    assert [tuple(call.get(name) for name in names) for call in calls] == [
        ("flash_attn_func", 2, 8, 4, 16, 32, 64, True, "none", 1),
        ("paged_attention_v1", 6, 8, 4, 1, None, 64, False, "paged", 1),
        ("flash_attn_varlen_func", 2, 8, 4, 4, 160, 64, True, "varlen", 1),
        ("unified_attention", 2, 8, 4, 4, 160, 64, True, "varlen", 1),
        ("flash_attn_with_kvcache", 2, 8, 4, 16, 32, 64, True, "none", 1),
        ("sageattn", 2, 8, 4, 16, 32, 64, False, "none", 1),
        ("BatchDecodeWithPagedKVCacheWrapper", 6, 8, None, 1, None, 64, False, "paged", 1),
        ("BatchPrefillWithRaggedKVCacheWrapper", None, 8, 4, None, None, 64, False, "varlen", 1),
        ("DotProductAttention", None, 8, 4, None, None, 64, False, "layer", 1),
        ("flash_attn_func", 2, 8, 4, 16, 32, 64, False, "none", 2),
        ("varlen_attn", 2, 8, 8, 4, 4, 64, True, "varlen", 1),
    ]


@pytest.mark.parametrize(
    ("program", "codes"),
    [
        ("import torch; print(torch.ones(2).softmax(0).tolist())", ["no-attention"]),
        ("import json", ["no-attention"]),
    ],
)
def test_a_program_without_attention(tmp_path: Path, program: str, codes: list[str]) -> None:
    _, _, notes = run(tmp_path, program)
    assert [note.code for note in notes] == codes


def test_a_torch_that_cannot_be_wrapped_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("class nn: pass\n")
    _, said, notes = run(tmp_path, "import torch; print('fine')")
    assert said.startswith("fine\n")
    assert "nsysprof: the program's attention calls are not recorded" in said
    assert [note.code for note in notes] == ["no-attention"]


def test_what_the_hook_costs_is_measured(tmp_path: Path) -> None:
    program = """
import time
q = torch.randn(1, 1, 4, 8, requires_grad=True)
for _ in range(50):
    F.scaled_dot_product_attention(q, q, q).sum().backward()
    time.sleep(0.002)
"""
    _, _, notes = run(tmp_path, START + program)
    cost = next(note for note in notes if note.code == "attention-cost")
    least, most = map(float, cost.text.split(" took ")[1].split(" %")[0].split(" to "))
    assert 0 < least < most < 60
