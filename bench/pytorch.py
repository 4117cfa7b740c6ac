"""pytorch.py - the peer of bench/step.c: Hugging Face transformers on PyTorch, forward and backward, FP32.

    pytorch.py THREADS BATCH LENGTH VARIANT [STEPS]      VARIANT: eager, grouped_mm, each with "+compile"
"""
import resource
import sys
import time

import torch
import transformers

threads, batch, length, variant = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
steps = int(sys.argv[5]) if len(sys.argv) > 5 else 3
torch.set_num_threads(threads)
torch.manual_seed(0)
config = transformers.Qwen3MoeConfig(
    vocab_size=32000, hidden_size=512, intermediate_size=512, num_hidden_layers=6, num_attention_heads=8,
    num_key_value_heads=4, head_dim=64, moe_intermediate_size=512, num_experts=16, num_experts_per_tok=4,
    norm_topk_prob=True, max_position_embeddings=1 << 20, tie_word_embeddings=False, output_router_logits=False)
config._attn_implementation = "sdpa"
model = transformers.Qwen3MoeForCausalLM(config).float()
model.set_experts_implementation(variant.split("+")[0])
run = torch.compile(model) if variant.endswith("+compile") else model
ids = torch.randint(0, 32000, (batch, length))


def step():
    model.zero_grad(set_to_none=True)
    start = time.perf_counter()
    logits = run(input_ids=ids, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.view(-1, 32000), ids.view(-1))
    loss.backward()
    return time.perf_counter() - start


step()
best = min(step() for _ in range(steps))
parameters = sum(p.numel() for p in model.parameters()) * 8 / 2**30
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"pytorch {batch}x{length} {variant}: {batch * length / best:.0f} tokens/s, "
      f"{peak - parameters:.2f} GiB beside weights and gradients")
