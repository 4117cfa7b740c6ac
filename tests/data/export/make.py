#!/usr/bin/env python3
"""Makes what test_export compares with: exported folders as Hugging Face transformers reads them.

    python3 make.py cases                 writes cases.json
    python3 make.py read FOLDER           reads FOLDER/CASE of every case (see below) with
                                          transformers, CPU, float32; writes expected.json and
                                          logits.safetensors
    python3 make.py presets MOEFOLD       counts the weights that transformers makes of the file of
                                          each preset, at its full size; writes presets.json

Between the two: EXPORT_CASES=FOLDER build/tests/cli/test_export. A case is a source (a reference
case of tests/data/golden, or a preset) and knobs. The folder has to load through Auto classes,
without remote code, and no weight may be missing, left over or of another shape. A knob that
changes no logits is an error here: its case would show nothing."""
import json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
SEQ, VOCAB = 12, 12

# ---- knobs that every family has; what some lack is left out below
EVERY = [
    "model.rotary_base=300", "model.layernorm_epsilon=0.1", "model.num_layers=3",
    "model.hidden_size=48", "model.max_position_embeddings=77", "model.init_method_std=0.013",
    "model.share_embeddings_and_output_weights=TOGGLE",
    "model.activation_func=gelu", "model.activation_func=fast_gelu",
    "model.activation_func=quick_gelu", "model.activation_func=squared_relu",
    "model.attention_dropout=0.1",
    "model.seq_len_interpolation_factor=4.0",
    "moefold.rope_dynamic_factor=3.0 moefold.rope_trained_length=8",
    "model.rope_scaling=true model.rope_scaling_factor=4.0 moefold.rope_low_freq_factor=0.5 "
    "moefold.rope_high_freq_factor=6.0 moefold.rope_trained_length=32",
]
YARN = ("model.POSITION=yarn model.rotary_scaling_factor=6.0 "
        "model.original_max_position_embeddings=8 model.beta_fast=20 model.beta_slow=2 ")
GQA = [
    YARN.replace("POSITION", "position_embedding_type"),
    YARN.replace("POSITION", "position_embedding_type") + "model.mscale=2.5",
    YARN.replace("POSITION", "position_embedding_type")
    + "model.mscale=0.7 model.mscale_all_dim=1.3 model.yarn_correction_range_round_to_int=false",
    "model.num_attention_heads=8", "model.num_query_groups=1", "model.kv_channels=12",
]
MOE = [
    "model.moe_router_topk=3", "model.moe_ffn_hidden_size=20", "model.num_moe_experts=12",
    "model.moe_aux_loss_coeff=0.25",
]
SPARSE = [
    "model.moe_layer_freq=2 model.ffn_hidden_size=40", "model.moe_layer_freq=[0,1] model.num_layers=2",
    "model.moe_layer_freq=[1,0,0] model.num_layers=3",
]
NORMALISED = ["model.moe_router_pre_softmax=TOGGLE"]
LATENT = [
    YARN.replace("POSITION", "rope_type"),
    YARN.replace("POSITION", "rope_type") + "model.mscale=1.5 model.mscale_all_dim=0.8",
    YARN.replace("POSITION", "rope_type") + "model.mscale=0.0 model.mscale_all_dim=1.2",
    "model.kv_lora_rank=20", "model.q_lora_rank=null", "model.q_lora_rank=10",
    "model.qk_head_dim=20", "model.qk_pos_emb_head_dim=6", "model.v_head_dim=14",
    "model.num_attention_heads=8 model.num_query_groups=8", "moefold.attention_bias=true",
]
SHARED = [
    "model.moe_shared_expert_intermediate_size=60 model.moe_ffn_hidden_size=20",
    "model.moe_shared_expert_intermediate_size=null", "model.moe_router_topk_scaling_factor=1.75",
    "model.moe_layer_freq=[0,0,1] model.num_layers=3", "model.moe_layer_freq=1",
    "model.moe_router_num_groups=2 model.moe_router_group_topk=1 model.moe_router_topk=2",
    "model.moe_router_num_groups=null model.moe_router_group_topk=null",
]
WINDOW_ALL = ["model.window_size=[4,0] model.window_attn_skip_freq=null", "model.window_size=null"]
WINDOW_SOME = [
    "model.window_size=[4,0] model.window_attn_skip_freq=null",
    "model.window_size=[4,0] model.window_attn_skip_freq=[0,1,1] model.num_layers=3",
    "model.window_size=[2,0] model.window_attn_skip_freq=[1,0,1] model.num_layers=3",
]
ATTENTION_BIAS = ["moefold.attention_bias=true"]
RENORMALISED = ["moefold.moe_router_renormalize=false"]
PARTIAL = ["model.rotary_percent=0.75"]

NO_ACTIVATION = [w for w in EVERY if "activation_func" in w]

# source: (words, words of EVERY that its family cannot say)
SOURCES = {
    "qwen3-moe-tiny": (GQA + MOE + SPARSE + NORMALISED + ATTENTION_BIAS
                       + ["model.window_size=[4,0] model.window_attn_skip_freq=null"], []),
    "deepseek-v3-tiny": (LATENT + MOE + SHARED + RENORMALISED
                         + ["moefold.mla_rotate_halves=true", "model.mtp_num_layers=1"], []),
    "deepseek-v2-tiny": (LATENT + MOE + SHARED, []),
    "deepseek-v2-lite-tiny": (LATENT[3:4] + LATENT[5:6] + SHARED[-2:-1], []),
    "qwen3-next-tiny": (GQA + MOE + SPARSE[:2] + NORMALISED + ATTENTION_BIAS + PARTIAL + [
        "model.linear_conv_kernel_dim=3", "model.linear_key_head_dim=12",
        "model.linear_value_head_dim=20", "model.linear_num_value_heads=8",
        "model.linear_num_key_heads=1", "model.linear_attention_freq=2",
        "model.linear_attention_freq=[0,1,1] model.num_layers=3",
        "model.moe_shared_expert_intermediate_size=20", "model.mtp_num_layers=1"], NO_ACTIVATION),
    "mixtral-tiny": (GQA + MOE + WINDOW_ALL[:1] + ["model.moe_input_jitter_eps=0.01"], []),
    "gpt-oss-tiny": (GQA + MOE + WINDOW_SOME + [
        "model.position_embedding_type=rope model.rope_type=rope",
        "model.window_size=null model.window_attn_skip_freq=null",
        "model.activation_func_clamp_value=0.4", "moefold.mlp_bias_alone=true"], NO_ACTIVATION),
    "glm4-moe-tiny": (GQA + MOE + SHARED[:-1] + RENORMALISED + PARTIAL + [
        "model.qk_layernorm=false", "model.add_qkv_bias=false", "model.mtp_num_layers=1",
        "model.moe_router_topk=1"], []),
    "qwen2-moe-tiny": (GQA + MOE + SPARSE + NORMALISED + WINDOW_SOME + [
        "model.add_qkv_bias=false", "model.moe_shared_expert_intermediate_size=20"], []),
    "olmoe-tiny": (GQA[:4] + MOE + NORMALISED + ATTENTION_BIAS + ["model.num_query_groups=2"], []),
    "minimax-m2-tiny": (GQA + MOE + PARTIAL + ["model.qk_layernorm=false"], []),
    "llama-tiny": (GQA + ATTENTION_BIAS + [
        "model.ffn_hidden_size=40", "model.add_bias_linear=true",
        "model.add_bias_linear=true moefold.mlp_bias_alone=true",
        "model.qk_layernorm=true", "model.window_size=[4,0]", "model.add_qkv_bias=true",
        "model.num_attention_heads=6 model.kv_channels=8 model.rope_scaling=false"], []),
    "qwen2-tiny": (GQA + WINDOW_SOME + ["model.ffn_hidden_size=40"], []),
    "qwen3-tiny": (GQA + WINDOW_SOME + ATTENTION_BIAS + ["model.ffn_hidden_size=40"], []),
    "mistral-tiny": (GQA + WINDOW_ALL + ["model.ffn_hidden_size=40"], []),
    "starcoder2-tiny": (GQA + WINDOW_ALL + [
        "model.ffn_hidden_size=40", "model.add_bias_linear=false", "model.hidden_dropout=0.2"], []),
}

# Words of a source that are no export: what the message must say.
REFUSED = [
    ("deepseek-v3-tiny", "model.layernorm_epsilon=0.1",
     "moefold.latent_norm_epsilon=1e-06 instead of 0.1"),
    ("deepseek-v3-tiny", "model.moe_ffn_hidden_size=20", "moe_shared_expert_intermediate_size="),
    ("llama-tiny", "model.seq_len_interpolation_factor=4.0",
     "model.seq_len_interpolation_factor=1 instead of 4.0"),
    ("qwen3-next-tiny", "model.kv_channels=12", "an even number"),
    ("deepseek-v2-tiny", "model.num_attention_heads=6 model.num_query_groups=6",
     "model.num_attention_heads does not divide model.hidden_size"),
    ("qwen3-moe-tiny", "model.rotary_percent=0.5", "model.rotary_percent=1.0 instead of 0.5"),
    ("qwen3-moe-tiny", "model.moe_router_score_function=sigmoid",
     "model.moe_router_score_function=softmax instead of sigmoid"),
    ("qwen3-moe-tiny", "model.window_size=[4,0] model.window_attn_skip_freq=2",
     "model.window_attn_skip_freq=null instead of 2"),
    ("llama-tiny", "model.rotary_interleaved=true", "model.rotary_interleaved=false instead of"),
    ("llama-tiny", "model.gated_linear_unit=false", "model.gated_linear_unit=true instead of"),
    ("mixtral-tiny", "model.position_embedding_type=none", "model.position_embedding_type=rope"),
    ("mixtral-tiny", "model.softmax_type=off-by-one", "model.softmax_type=vanilla instead of"),
    ("mixtral-tiny", "model.moe_layer_freq=2", "model.moe_layer_freq=1 instead of 2"),
    ("deepseek-v3-tiny", "moefold.latent_norm_epsilon=0.01", "moefold.latent_norm_epsilon="),
    ("deepseek-v3-tiny", "model.moe_layer_freq=2", "model.moe_layer_freq="),
    ("deepseek-v3-tiny", "model.moe_shared_expert_intermediate_size=30 model.moe_ffn_hidden_size=20",
     "model.moe_shared_expert_intermediate_size=20 instead of 30"),
    ("deepseek-v3-tiny", "model.moe_router_enable_expert_bias=false",
     "model.moe_router_enable_expert_bias=true instead of false"),
    ("deepseek-v3-tiny", "moefold.moe_router_group_score=best", "moefold.moe_router_group_score="),
    ("deepseek-v2-tiny", "moefold.mla_rotate_halves=true", "moefold.mla_rotate_halves=false"),
    ("gpt-oss-tiny", "model.glu_linear_offset=0.5", "model.glu_linear_offset=1.0 instead of 0.5"),
    ("gpt-oss-tiny", "model.activation_func=silu", "model.activation_func=quick_gelu"),
    ("qwen3-next-tiny", "model.activation_func=gelu", "model.activation_func=silu instead of gelu"),
    ("qwen3-tiny", "model.layernorm_zero_centered_gamma=true",
     "model.layernorm_zero_centered_gamma=false"),
    ("minimax-m2-tiny", "model.moe_router_topk=1", "num_experts_per_tok is 1"),
]

# Presets with the sizes of a toy: files that are written from nothing.
TOY = ("model.num_layers=3 model.hidden_size=32 model.num_attention_heads=4 model.ffn_hidden_size=40 "
       "model.max_position_embeddings=64 ")
TOY_GQA = TOY + "model.num_query_groups=2 model.kv_channels=8 "
TOY_MOE = "model.num_moe_experts=8 model.moe_router_topk=2 model.moe_ffn_hidden_size=12 "
TOY_MLA = (TOY + TOY_MOE + "model.num_query_groups=4 model.kv_lora_rank=16 model.qk_head_dim=12 "
           "model.qk_pos_emb_head_dim=8 model.v_head_dim=10 "
           "model.original_max_position_embeddings=8 ")
PRESETS = {
    "deepseek-v3": TOY_MLA + "model.q_lora_rank=12 model.moe_router_num_groups=4 "
    "model.moe_router_group_topk=2 model.moe_shared_expert_intermediate_size=12",
    "moonlight-16b": TOY_MLA + "model.moe_shared_expert_intermediate_size=24",
    "kimi-k2": TOY_MLA + "model.q_lora_rank=12 model.moe_shared_expert_intermediate_size=12",
    "deepseek-v2": TOY_MLA + "model.q_lora_rank=12 model.moe_router_num_groups=4 "
    "model.moe_router_group_topk=2 model.moe_shared_expert_intermediate_size=24",
    "deepseek-v2-lite": TOY_MLA + "model.moe_shared_expert_intermediate_size=24",
    "qwen3-30b-a3b": TOY_GQA + TOY_MOE,
    "qwen3-next-80b-a3b": TOY_GQA + TOY_MOE + "model.linear_key_head_dim=8 "
    "model.linear_value_head_dim=8 model.linear_num_key_heads=2 model.linear_num_value_heads=4 "
    "model.moe_shared_expert_intermediate_size=12 model.kv_channels=16",
    "qwen2-57b-a14b": TOY_GQA + TOY_MOE + "model.moe_shared_expert_intermediate_size=24",
    "glm-4.5": TOY_GQA + TOY_MOE + "model.moe_shared_expert_intermediate_size=12",
    "glm-4.5-air": TOY_GQA + TOY_MOE + "model.moe_shared_expert_intermediate_size=12",
    "olmoe-1b-7b": TOY_GQA + TOY_MOE + "model.num_query_groups=4",
    "minimax-m2": TOY_GQA + TOY_MOE,
    "mixtral-8x7b": TOY_GQA + TOY_MOE,
    "gpt-oss-20b": TOY_GQA + TOY_MOE + "model.original_max_position_embeddings=8",
    "llama-3.1-8b": TOY_GQA + "moefold.rope_trained_length=32",
    "llama-2-7b": TOY_GQA,
    "qwen2.5-7b": TOY_GQA,
    "qwen3-0.6b": TOY_GQA,
    "mistral-7b": TOY_GQA + "model.window_size=[4,0]",
    "starcoder2-7b": TOY_GQA + "model.window_size=[4,0]",
}


def config_of(source):
    path = os.path.join(GOLDEN, source, "config.json")
    return json.load(open(path)) if os.path.exists(path) else None


def toggled(words, source):
    config = config_of(source)
    now = {"share_embeddings_and_output_weights": config.get("tie_word_embeddings", False),
           "moe_router_pre_softmax": not config.get("norm_topk_prob", True)}
    for key, on in now.items():
        words = words.replace(key + "=TOGGLE", "%s=%s" % (key, "false" if on else "true"))
    return words


def fitted(words, source):
    """A list of layers and a number of layers go together."""
    layers = config_of(source)["num_hidden_layers"]
    if source == "gpt-oss-tiny" and "num_layers=3" in words and "skip" not in words:
        words += " model.window_attn_skip_freq=2"
    scaled = {"deepseek-v2-lite-tiny": "model.rope_type=rope", "llama-tiny": "model.rope_scaling=false",
              "gpt-oss-tiny": "model.position_embedding_type=rope model.rope_type=rope"}
    other = any(k in words for k in ("interpolation", "dynamic", "rope_scaling=", "=yarn"))
    if other and source in scaled and not (source != "llama-tiny" and "=yarn" in words) \
            and not (source == "llama-tiny" and "rope_scaling=" in words):
        words = scaled[source] + " " + words
    if "latent" not in words and source.startswith("deepseek") and "epsilon" in words:
        words += " moefold.latent_norm_epsilon=1e-6"
    if source.startswith("deepseek-v2") and "num_groups=2" in words:
        words += " moefold.moe_router_group_score=best"
    if words == "model.moe_ffn_hidden_size=20" and "n_shared_experts" in config_of(source):
        words += " model.moe_shared_expert_intermediate_size=40"
    if source == "deepseek-v2-tiny" and words == "model.moe_router_topk=3":
        words = "model.moe_router_topk=2"
    if "kv_channels=12" in words and source == "qwen3-next-tiny":
        words = "model.kv_channels=24"
    first = config_of(source).get("first_k_dense_replace")
    if first and "num_layers=3" in words and "moe_layer_freq" not in words:
        words += " model.moe_layer_freq=[%s]" % ",".join(["0"] * first + ["1"] * (3 - first))
    return words if layers else words


def make_cases():
    cases = []
    for source, (own, lacks) in SOURCES.items():
        same = "model.activation_func=fast_gelu" if source == "starcoder2-tiny" else None
        words = [""] + [w for w in EVERY if w not in lacks and w != same] + own
        for i, w in enumerate(words):
            w = fitted(toggled(w, source), source).strip()
            cases.append(dict(name="%s.%d" % (source, i), source=source, words=w))
    for i, (source, words, says) in enumerate(REFUSED):
        cases.append(dict(name="refused.%d" % i, source=source, words=words, refused=says))
    for preset, words in PRESETS.items():
        cases.append(dict(name=preset, source=preset, words=words.strip()))
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(" " + json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases")


# ---- with transformers


def batch():
    import torch
    ids = [(7 * i * i + 3) % VOCAB for i in range(SEQ)]
    labels = [(5 * i + 1) % VOCAB for i in range(SEQ)]
    return torch.tensor([ids]), torch.tensor([labels])


def load(folder, config=None):
    from transformers import AutoModelForCausalLM
    more = dict(config=config) if config is not None else {}
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", **more)
    left = {k: sorted(v) for k, v in info.items() if v}
    return model.eval(), left


def logits_of(model):
    import torch
    with torch.no_grad():
        return model(input_ids=batch()[0], use_cache=False).logits[0].float()


def changed_of(source, got):
    was = config_of(source)
    if was is None or was["model_type"] != got["model_type"]:
        return dict(config=got)
    keys = [k for k in list(got) + list(was) if k not in got or k not in was or got[k] != was[k]
            or type(got[k]) is not type(was[k])]
    return dict(changed={k: got.get(k) for k in keys})


def says_something(case, folder, logits, left):
    """The same weights under the source's own file: do they compute something else?"""
    from transformers import AutoConfig
    source = os.path.join(GOLDEN, case["source"])
    if not case["words"] or not os.path.exists(source):
        return True
    was = AutoConfig.from_pretrained(source)
    now = AutoConfig.from_pretrained(folder)
    was.vocab_size = VOCAB
    quiet = ("max_position_embeddings", "init_method_std", "dropout", "aux_loss", "jitter",
             "mtp_num_layers", "window_size=null")
    if any(q in case["words"] for q in quiet) and "rope" not in case["words"]:
        return was.to_dict() != now.to_dict() or "mtp" in case["words"]
    try:
        model, other = load(folder, was)
        tied = was.tie_word_embeddings and not now.tie_word_embeddings  # the file has both tables
        return bool(other) or tied or float((logits_of(model) - logits).abs().max()) > 1e-4
    except Exception:  # its weights do not even fit
        return True


def read(root, only):
    import torch, transformers
    from safetensors.torch import save_file
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    expected, stored, wrong = {}, {}, 0
    for case in json.load(open(os.path.join(HERE, "cases.json"))):
        name, folder = case["name"], os.path.join(root, case["name"])
        if "refused" in case or (only and not any(name.startswith(o) for o in only)):
            continue
        try:
            config = json.load(open(os.path.join(folder, "config.json")))
            model, left = load(folder)
            logits = logits_of(model)
        except Exception as e:
            print("FAILS", name, case["words"], "--", str(e)[:300])
            wrong += 1
            continue
        sizes = dict(model.named_parameters())
        left = {k: [n for n in v if n not in sizes or sizes[n].numel()] for k, v in left.items()}
        left = {k: v for k, v in left.items() if v}  # experts of no width are in no file
        if left and not ("mtp" in case["words"] and set(left) == {"unexpected_keys"}):
            print("LEFT", name, case["words"], left)
            wrong += 1
        if not says_something(case, folder, logits, left):
            print("SAYS NOTHING", name, case["words"])
            wrong += 1
        loss = torch.nn.functional.cross_entropy(logits, batch()[1][0])
        expected[name] = dict(changed_of(case["source"], config), loss=float(loss))
        stored[name] = logits.contiguous()
    print(len(expected), "read,", wrong, "wrong")
    if only:
        return
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        f.write("{\n" + ",\n".join(' "%s": %s' % (k, json.dumps(v)) for k, v in expected.items())
                + "\n}\n")
    save_file(stored, os.path.join(HERE, "logits.safetensors"))


def count_presets(program):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    counts = {}
    listed = subprocess.run([program, "show", "--presets", "--json"], stdout=subprocess.PIPE)
    for name in json.loads(listed.stdout):
        shown = subprocess.run([program, "show", name, "--as", "config.json",
                                "moefold.target=moefold"], stdout=subprocess.PIPE)
        if shown.returncode:
            continue
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "wb") as f:
                f.write(shown.stdout)
            config = AutoConfig.from_pretrained(folder)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        counts[name] = sum(p.numel() for p in model.parameters())
    with open(os.path.join(HERE, "presets.json"), "w") as f:
        json.dump(counts, f, indent=1)
    print(len(counts), "presets")


if sys.argv[1] == "cases":
    make_cases()
elif sys.argv[1] == "presets":
    count_presets(sys.argv[2])
else:
    read(sys.argv[2], sys.argv[3:])
