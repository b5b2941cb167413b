#!/usr/bin/env python3
"""Generate text with Hugging Face transformers' own `generate`: a range `request#` for each of several prompts.

    scripts/programs/generate.py --requests 4 --tokens 24

The model is a small Llama with random weights. Needs torch and transformers.
"""

from __future__ import annotations

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, attn_implementation="sdpa",
    )  # fmt: skip
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    for number in range(options.requests):
        ids = torch.randint(3, 8192, (2, 128), device="cuda")
        torch.cuda.nvtx.range_push(f"request{number}")
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=50, max_new_tokens=options.tokens,
            min_new_tokens=options.tokens, pad_token_id=0,
        )  # fmt: skip
        answer = made[:, ids.shape[1] :].tolist()
        torch.cuda.nvtx.range_pop()
        print("request", number, len(answer[0]), flush=True)


if __name__ == "__main__":
    main()
