"""Train a small Llama of transformers with random weights: llama_training.py [eager|sdpa] [steps]."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

how, steps = ([*sys.argv[1:], "sdpa"])[0], int(([*sys.argv[2:], "12"])[0])
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=4096, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
    num_key_value_heads=8, max_position_embeddings=2048, attn_implementation=how, use_cache=False,
)  # fmt: skip
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
tokens = torch.randint(0, 4096, (4, 2048), device="cuda")
for step in range(steps):
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), flush=True)
