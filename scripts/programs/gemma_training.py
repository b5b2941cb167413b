"""Train a small Gemma of transformers with random weights: heads of 256 that share one head of keys and values."""

import sys

import torch
from transformers import GemmaConfig, GemmaForCausalLM

steps = int(([*sys.argv[1:], "12"])[0])
torch.manual_seed(0)
config = GemmaConfig(
    vocab_size=4096, hidden_size=2048, intermediate_size=4096, num_hidden_layers=3, num_attention_heads=8,
    num_key_value_heads=1, head_dim=256, max_position_embeddings=2048, attn_implementation="sdpa", use_cache=False,
)  # fmt: skip
model = GemmaForCausalLM(config).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
tokens = torch.randint(0, 4096, (4, 2048), device="cuda")
for step in range(steps):
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
