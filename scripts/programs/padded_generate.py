"""Generate with a Llama of transformers: prompts of several lengths, padded on the left, and a cache that grows."""

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

steps = int(([*sys.argv[1:], "6"])[0])
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=4096, hidden_size=2048, intermediate_size=5632, num_hidden_layers=4, num_attention_heads=32,
    num_key_value_heads=8, max_position_embeddings=4096, attn_implementation="sdpa", pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
BATCH, LENGTH, NEW = 32, 1024, 24
tokens = torch.randint(1, 4096, (BATCH, LENGTH), device="cuda")
lengths = torch.linspace(LENGTH // 4, LENGTH, BATCH, device="cuda").long()
mask = (torch.arange(LENGTH, device="cuda") >= LENGTH - lengths[:, None]).long()
tokens = torch.where(mask.bool(), tokens, 0)
for step in range(steps):
    begin = time.perf_counter()
    found = model.generate(tokens, attention_mask=mask, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    total = int(found[:, LENGTH:].sum())
    print(f"step {step} took {1e3 * (time.perf_counter() - begin):.4f} ms, tokens {total}", flush=True)
