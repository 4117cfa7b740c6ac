"""One architecture, one answer: presets as people spell them have the same price, band, verdict and plan.

spellings.py MOEFOLD FOLDER [all]: prints TAP lines. A spelling is a preset, its names on the hub, its config.json (two are
written here) and what `--from-megatron` makes of the list that `show --as megatron-lm` prints of it."""
import json
import re
import subprocess
import sys

moefold, folder, everything = sys.argv[1], sys.argv[2], "all" in sys.argv[3:]

CONFIGS = {
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "tie_word_embeddings": False, "vocab_size": 151936,
        "max_position_embeddings": 40960, "initializer_range": 0.02, "torch_dtype": "bfloat16"},
    "mixtral-8x22b": {
        "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_act": "silu", "hidden_size": 6144,
        "intermediate_size": 16384, "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8,
        "num_local_experts": 8, "num_experts_per_tok": 2, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "router_aux_loss_coef": 0.001, "tie_word_embeddings": False, "vocab_size": 32768,
        "max_position_embeddings": 65536, "initializer_range": 0.02, "torch_dtype": "bfloat16"},
}
JOBS = [["cluster.gpu=H100", "cluster.n_gpus=256", "seq=4K", "gbs=1024", "ep=8", "pp=2"],
        ["cluster.gpu=GB200", "cluster.n_gpus=64", "seq=4K", "gbs=256", "ep=4", "pp=1"]]
# Where nothing is said of precision a plan takes the platform's, and a list says BF16.
BF16 = "mixed_precision=bf16_mixed"
PLANS = [("qwen3-30b-a3b", ["cluster.gpu=H100", "cluster.n_gpus=16", "seq=4K", "gbs=1024", BF16]),
         ("mixtral-8x22b", ["cluster.gpu=GB200", "cluster.n_gpus=64", "seq=4K", "gbs=512", BF16]),
         ("deepseek-v3", ["cluster.gpu=H100", "cluster.n_gpus=256", "seq=128K", "gbs=64", BF16])]


def run(*words):
    return subprocess.run([moefold, *words], capture_output=True, text=True)


def answer(*words):
    got = run(*words, "--json").stdout.strip()
    return json.loads(got) if got else {}


def picked(o, keys):
    return {k: o.get(k) for k in keys}


def facts(spelling):
    """What check and price say; a list of flags names its job itself."""
    check, price = answer("check", *spelling), answer("price", *spelling)
    errors = sorted(v["rule"] for v in check.get("violations", []) if v["severity"] == "error")
    return {"check": [check.get("ok"), errors, check.get("peak_bytes")],
            **picked(price, ["step_s", "peak_bytes", "band", "supported", "fits", "routing"])}


def planned(spelling):
    o = answer("plan", *spelling, "--seconds", "600")
    keys = ["tp", "cp", "ep", "etp", "pp", "vpp", "micro_batch_size", "recompute", "dispatcher", "beside", "graphs",
            "offload", "step_s", "peak_bytes", "band", "tie", "supported"]
    return {**{f"row {i + 1}": picked(b, keys) for i, b in enumerate(o.get("best", []))}, "claim": o.get("claim")}


def spelled(preset, job, hubs):
    """Name and words of each spelling of a preset's job, and what it says beyond the job. A list of flags has no word for
    the GPU."""
    yield from ((name, [name, *job], []) for name in hubs)
    if preset in CONFIGS:
        path = f"{folder}/{preset}.json"
        with open(path, "w", encoding="ascii") as out:
            json.dump(CONFIGS[preset], out)
        yield "config.json", [path, *job], []
    shown = run("show", preset, *job, "--as", "megatron-lm")
    if shown.returncode == 0:
        path = f"{folder}/{preset}.txt"
        with open(path, "w", encoding="ascii") as out:
            out.write(shown.stdout)
        # Megatron-LM refuses Transformer Engine's cross entropy, so that its list has its own, which takes other memory.
        yield "its_list", ["--from-megatron", path, *job[:2]], ["model.cross_entropy_fusion_impl=native"]


def names_on_the_hub():
    """From the table of presets: PRESET("name", "owner/model|owner/model", ..."""
    text = open("src/config/models/presets.def", encoding="ascii").read()
    return {m[1]: "".join(re.findall(r'"([^"]*)"', m[2])).split("|") if "/" in m[2] else []
            for m in re.finditer(r'PRESET\("([^"]+)",\s*((?:"[^"]*"\s*)+),', text)}


def tell(name, words, ways, answer):
    """One line for all spellings: the first that differs, and in what."""
    bases = {}
    for spelling, other, more in ways:
        key = " ".join(more)
        base = bases[key] = bases.get(key) or answer([*words, *more])
        other = answer(other)
        bad = [k for k in base if base[k] != other.get(k)]
        if bad:
            print(f"not ok {name}: {spelling}: {bad[0]}: {base[bad[0]]} and {other.get(bad[0])}")
            return True
    print(f"ok {name}")
    return False


hubs = names_on_the_hub()
presets = run("show", "--presets").stdout.split()
published = set(re.findall(r'^MODEL\("([^"]+)"', open("src/predict/bands.def", encoding="ascii").read(), re.M))
failed = False
for i, preset in enumerate(presets):
    if not everything and preset not in published and i % 12:
        continue
    for job in JOBS if everything else JOBS[i % 2:][:1]:
        ways = spelled(preset, job, hubs[preset] if everything else hubs[preset][:1])
        failed |= tell(f"{preset}_{job[0]}_is_priced_however_it_is_spelled", [preset, *job], ways, facts)
for preset, job in PLANS if everything else PLANS[:1]:
    ways = spelled(preset, job, hubs[preset][:1])
    failed |= tell(f"{preset}_{job[0]}_is_planned_however_it_is_spelled", [preset, *job], ways, planned)
sys.exit(failed)
