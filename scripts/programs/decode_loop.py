#!/usr/bin/env python3
"""Decode tokens with a small Llama (grouped-query attention, KV cache): a range `prefill` and a range `token#` each.

    scripts/programs/decode_loop.py --tokens 32

Needs torch and transformers.
"""

from __future__ import annotations

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, attn_implementation="sdpa",
    )  # fmt: skip
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    ids = torch.randint(0, 8192, (4, 512), device="cuda")
    torch.cuda.nvtx.range_push("prefill")
    out = model(input_ids=ids, use_cache=True)
    token = out.logits[:, -1:].argmax(-1)
    torch.cuda.nvtx.range_pop()
    for number in range(options.tokens):
        torch.cuda.nvtx.range_push(f"token{number}")
        out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        token.tolist()  # a server streams each token to its user
        torch.cuda.nvtx.range_pop()
    print("decoded", options.tokens)


if __name__ == "__main__":
    main()
