#!/usr/bin/env python3
"""Makes the reference cases of the further families with Hugging Face transformers (CPU, float32).

    python3 make.py FOLDER

A case is as in the other folders: config.json, model.safetensors under the names of public
checkpoints, golden.safetensors (input_ids, labels, logits, grad.NAME) and golden.json (loss, the
curve of 20 AdamW steps, what a change in the last bit does, tolerances). Nothing of this project
takes part."""
import copy, json, os, sys

import torch, transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

BATCH, SEQ, STEPS = 2, 32, 20
ADAMW = dict(lr=1e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay_matrices=0.1,
             weight_decay_vectors=0.0, clip=1.0)
SIZES = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, rms_norm_eps=1e-6, initializer_range=0.05,
             tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, pad_token_id=None)
GQA = dict(SIZES, num_key_value_heads=2)
LATENT = dict(SIZES, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=8, head_dim=4, intermediate_size=48,
              moe_intermediate_size=8, n_shared_experts=2, first_k_dense_replace=1)


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_theta=theta, rope_type="default", **more))


CASES = {
    # softmax scores, groups limited by their best expert, a factor and no division
    "deepseek-v2-tiny": ("DeepseekV2", dict(
        LATENT, n_routed_experts=16, num_experts_per_tok=3, n_group=4, topk_group=2,
        topk_method="group_limited_greedy", routed_scaling_factor=4.0, norm_topk_prob=False,
        scoring_func="softmax", moe_layer_freq=1, **rope(10000.0))),
    # the same without a query latent and without groups, YaRN on both scales
    "deepseek-v2-lite-tiny": ("DeepseekV2", dict(
        LATENT, **{"q_lora_rank": None}, n_routed_experts=8, num_experts_per_tok=2, n_group=1,
        topk_group=1, topk_method="greedy", routed_scaling_factor=1.0, norm_topk_prob=False,
        scoring_func="softmax", moe_layer_freq=1,
        rope_parameters=dict(rope_theta=10000.0, rope_type="yarn", factor=4.0, mscale=0.707,
                             mscale_all_dim=0.707, beta_fast=32, beta_slow=1,
                             original_max_position_embeddings=16))),
    # half of a head is rotated, biases on q, k, v alone, per-head norms, correction bias
    "glm4-moe-tiny": ("Glm4Moe", dict(
        GQA, head_dim=8, intermediate_size=48, moe_intermediate_size=8, n_routed_experts=8,
        num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, n_group=1,
        topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True, use_qk_norm=True,
        attention_bias=True, num_mtp_layers=0, **rope(1000000.0, partial_rotary_factor=0.5))),
    # gated shared expert, biases on q, k, v, weights of a softmax over all
    "qwen2-moe-tiny": ("Qwen2Moe", dict(
        GQA, intermediate_size=48, moe_intermediate_size=8, shared_expert_intermediate_size=24,
        num_experts=8, num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=1,
        qkv_bias=True, use_sliding_window=False, mlp_only_layers=[], **rope(1000000.0))),
    # norms over all heads at once
    "olmoe-tiny": ("Olmoe", dict(
        SIZES, num_key_value_heads=4, intermediate_size=8, num_experts=8, num_experts_per_tok=2,
        norm_topk_prob=False, clip_qkv=None, **rope(10000.0))),
    # the same with grouped queries, partial rotation, sigmoid scores and a correction bias
    "minimax-m2-tiny": ("MiniMaxM2", dict(
        GQA, head_dim=8, intermediate_size=12, num_local_experts=8, num_experts_per_tok=2,
        **rope(5000000.0, partial_rotary_factor=0.5))),
    # dense
    "qwen3-tiny": ("Qwen3", dict(
        dict(GQA, tie_word_embeddings=True), head_dim=16, intermediate_size=48, **rope(1000000.0))),
    # dense, biases on q, k, v
    "qwen2-tiny": ("Qwen2", dict(
        GQA, intermediate_size=48, use_sliding_window=False, **rope(1000000.0))),
    # dense, a window on all layers
    "mistral-tiny": ("Mistral", dict(
        GQA, head_dim=8, intermediate_size=48, sliding_window=8, **rope(10000.0))),
    # LayerNorm with biases, an MLP without a gate, biases everywhere, a window on all layers
    "starcoder2-tiny": ("Starcoder2", dict(
        {k: v for k, v in GQA.items() if k != "rms_norm_eps"}, intermediate_size=48,
        norm_epsilon=1e-5, use_bias=True, hidden_act="gelu_pytorch_tanh", sliding_window=8,
        residual_dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0, **rope(100000.0))),
    # dense, with Llama 3.1's rotary scaling (its trained length is far beyond the test's)
    "llama-tiny": ("Llama", dict(
        dict(GQA, max_position_embeddings=131072), head_dim=16, intermediate_size=48,
        attention_bias=False, mlp_bias=False,
        rope_parameters=dict(rope_theta=500000.0, rope_type="llama3", factor=8.0,
                             low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=8192))),
}


def make_model(name, seed):
    family, fields = CASES[name]
    config = getattr(transformers, family + "Config")(**fields)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for key, p in list(model.named_parameters()) + list(model.named_buffers()):
            if key.endswith("e_score_correction_bias"):
                p.copy_(0.1 * torch.randn_like(p))
            elif p.ndim == 1 and p.is_floating_point() and "inv_freq" not in key:
                p.add_(0.1 * torch.randn_like(p))  # norms and biases that are not 1 and 0
            elif "gate.weight" in key:
                p.copy_(0.3 * torch.randn_like(p))  # a router without near ties
    return model


def batch_of():
    g = torch.Generator().manual_seed(7)
    ids = torch.randint(0, 96, (BATCH, SEQ + 1), generator=g)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def loss_of(model, ids, labels):
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


def gradients(model, folder):
    """Gradients under checkpoint names: a model whose weights are the gradients is saved."""
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for p, q in zip(holder.parameters(), model.parameters()):
            p.copy_(q.grad if q.grad is not None else torch.zeros_like(q))
    holder.save_pretrained(folder + "/.grad")
    made = load_file(folder + "/.grad/model.safetensors")
    for f in os.listdir(folder + "/.grad"):
        os.remove(folder + "/.grad/" + f)
    os.rmdir(folder + "/.grad")
    return {k: v for k, v in made.items() if not k.endswith("e_score_correction_bias")}


def curve(model, ids, labels):
    model = copy.deepcopy(model)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW(
        [dict(params=matrices, weight_decay=ADAMW["weight_decay_matrices"]),
         dict(params=vectors, weight_decay=0.0)],
        lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"])
    losses, norms = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        loss, _ = loss_of(model, ids, labels)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["clip"])))
        losses.append(float(loss))
        opt.step()
    return losses, norms


def figures(model, folder):
    ids, labels = batch_of()
    model.zero_grad()
    loss, logits = loss_of(model, ids, labels)
    loss.backward()
    losses, norms = curve(model, ids, labels)
    return dict(loss=float(loss), logits=logits.detach().clone(), grad=gradients(model, folder),
                losses=losses, norms=norms)


def relative(a, b):
    return float((a - b).norm() / b.norm().clamp_min(1e-30))


def spread(model, first, folder):
    """What the last bit of the weights does to each figure."""
    other = copy.deepcopy(model)
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in other.parameters():
            sign = (torch.rand(p.shape, generator=g) < 0.5).float() * 2 - 1
            p.mul_(1 + sign * 2.0 ** -24)
    second = figures(other, folder)
    return dict(
        loss=abs(second["loss"] / first["loss"] - 1),
        logits=relative(second["logits"], first["logits"]),
        grad=max(relative(second["grad"][k], v) for k, v in first["grad"].items() if v.norm() > 0),
        curve=max(abs(a / b - 1) for a, b in zip(second["losses"], first["losses"])))


def make_case(root, name):
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    for seed in range(1, 50):  # a seed whose routing no last bit changes
        model = make_model(name, seed)
        first = figures(model, folder)
        moved = spread(model, first, folder)
        if moved["grad"] < 2e-5 and moved["curve"] < 1e-6:
            break
    model.save_pretrained(folder)
    for f in os.listdir(folder):
        if f not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(folder, f))
    ids, labels = batch_of()
    tensors = {"input_ids": ids.int(), "labels": labels.int(), "logits": first["logits"]}
    tensors.update({"grad." + k: v.contiguous() for k, v in first["grad"].items()})
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder + "/golden.safetensors")
    with open(folder + "/golden.json", "w") as f:
        json.dump(dict(case=name, transformers=transformers.__version__, torch=torch.__version__,
                       batch=BATCH, seq=SEQ, loss=first["loss"], adamw=ADAMW,
                       losses=first["losses"], grad_norms=first["norms"],
                       n_params=sum(p.numel() for p in model.parameters()), last_bit_spread=moved,
                       tolerance=dict(loss=1e-5, logits=1e-4, grad=1e-4, curve=1e-4)), f, indent=1)
    print(name, seed, moved, sum(os.path.getsize(folder + "/" + f) for f in os.listdir(folder)))


torch.set_num_threads(1)
for case in sys.argv[2:] or CASES:
    make_case(sys.argv[1], case)
