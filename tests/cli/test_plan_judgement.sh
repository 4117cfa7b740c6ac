#!/bin/bash
# One judgement: what check warns of, what plan recommends and what price offers agree.
set -uo pipefail
export COLUMNS=1000 # so that no line that is looked for is wrapped
cd "$(dirname "$0")/../.."
moefold=${MOEFOLD:-./moefold}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# holds NAME PYTHON-EXPRESSION FILE: the expression over the JSON `x`
holds() {
    if ! python3 -c "
import json, sys
x = json.load(open(sys.argv[1]))
sys.exit(0 if ($2) else 1)" "$3"; then
        echo "not ok $1: $2"
        failed=1
    else
        echo "ok $1"
    fi
}

# ---- repairs

"$moefold" check --everything qwen3-30b-a3b --json model.moe_router_dtype=fp16 >"$folder/router.json"
holds "a router in fp16 is repaired to fp32" \
    '[v["repair"] for v in x["violations"] if v["rule"] == "value-in-range"] ==
     [["model.moe_router_dtype=fp32"]]' "$folder/router.json"

"$moefold" check --everything deepseek-v3 --json cluster.gpu=GB200 cluster.n_gpus=256 cluster.nvlink_domain=72 \
    model.tensor_model_parallel_size=16 model.expert_model_parallel_size=64 >"$folder/tp.json"
holds "TP 16 on NVL72 says why, and offers a domain of 64" \
    '[v["repair"] for v in x["violations"] if v["rule"] == "tp-stays-in-nvlink" and
      "16 does not divide" in v["message"] and "72" in v["message"] and
      "straddle" in v["message"]] == [["cluster.nvlink_domain=64"]]' "$folder/tp.json"

# ---- a warning beside its price

"$moefold" check --everything qwen3-30b-a3b --json model.expert_model_parallel_size=128 \
    model.moe_token_dispatcher_type=allgather >"$folder/gather.json"
holds "allgather that sends more copies is warned of, and its repair is priced" \
    'all(p and p["gain"] > 0 and p["step_s"] < p["before_step_s"] for v in x["violations"]
     if v["rule"] == "allgather-at-large-ep" for p in v["repair_prices"]) and
     any(v["rule"] == "allgather-at-large-ep" for v in x["violations"])' "$folder/gather.json"

# ---- price offers nothing that check warns of

for recipe in recipes/dsv3-4k-h100.yaml recipes/qwen3-30b-4k-h100.yaml; do
    [[ -e $recipe ]] || continue
    "$moefold" price "$recipe" --json >"$folder/price.json"
    python3 - "$moefold" "$recipe" "$folder/price.json" <<'PY' || failed=1
import json, subprocess, sys
moefold, recipe, prices = sys.argv[1:]
def warnings(words):
    said = subprocess.run([moefold, "check", recipe, "--json"] + words, capture_output=True)
    return {v["rule"] for v in json.loads(said.stdout)["violations"] if v["severity"] == "warning"}
before = warnings([])
changes = json.load(open(prices))["changes"]
assert changes, "no change was offered"
for c in changes:
    more = warnings(c["change"].split()) - before
    if more:
        print("not ok", recipe, c["change"], "draws", more)
        sys.exit(1)
print("ok no change of", recipe, "draws a new warning")
PY
done
"$moefold" price recipes/dsv3-4k-h100.yaml --json model.moe_token_dispatcher_type=flex \
    comm_overlap.overlap_moe_expert_parallel_comm=false comm_overlap.delay_wgrad_compute=false \
    >"$folder/flex.json"
holds "no shared-expert overlap is offered under flex" \
    'not any("moe_shared_expert_overlap=true" in c["change"] and
     "alltoall" not in c["change"] for c in x["changes"])' "$folder/flex.json"

# ---- reasons are numbers of this plan

plans=("qwen3-235b-a22b --gpus 256xH100 --seq 4096"
    "qwen3-235b-a22b --gpus 128xB200 --seq 4096 --pin model.pipeline_model_parallel_size=1"
    "deepseek-v3 --gpus 256xH100 --seq 131072")
for words in "${plans[@]}"; do
    # shellcheck disable=SC2086
    "$moefold" plan --everything $words --search all --json --out "$folder/winner.yaml" >"$folder/plan.json"
    holds "ties of $words stand before the rest, and bands hold their times" \
        '[b["tie"] for b in x["best"]] == sorted([b["tie"] for b in x["best"]], reverse=True) and
         x["best"][0]["tie"] and all(b["band"]["low_s"] < b["step_s"] < b["band"]["high_s"] and
         isinstance(b["supported"], bool) for b in x["best"])' "$folder/plan.json"
    holds "the dispatcher of $words stands beside prices of the others" \
        'len([w for w in x["why"] if w["choice"] == "dispatcher"]) == 3 and
         all(w["rule"] or w["step_s"] > 0 for w in x["why"])' "$folder/plan.json"
    holds "no alternative of $words that fits is faster without a reason" \
        'not [w for w in x["why"] if w["fits"] and not w["why_not"] and
         w["step_s"] < 0.995 * min(b["step_s"] for b in x["best"])]' "$folder/plan.json"
    "$moefold" check --everything "$folder/winner.yaml" --json >"$folder/checked.json"
    python3 - "$folder" "$words" <<'PY' || failed=1
import json, sys
folder, words = sys.argv[1:]
plan = json.load(open(folder + "/plan.json"))
checked = json.load(open(folder + "/checked.json"))
warned = {v["rule"] for v in checked["violations"] if v["severity"] == "warning"} - {"rate-is-given"}
said = {v["rule"] for v in plan["warnings"] if all(v["repair_prices"])}
if warned - said:
    print("not ok the plan of", words, "does not say", warned - said)
    sys.exit(1)
print("ok the plan of", words, "says what check warns of:", len(warned))
PY
    # shellcheck disable=SC2086
    if "$moefold" plan --everything $words | grep -q "is made for\|is for bringing"; then
        echo "not ok fixed sentences in the reasons of $words"
        failed=1
    fi
done

# ---- what nobody ran

"$moefold" plan --everything qwen3-235b-a22b --gpus 256xH100 --seq 4096 --json >"$folder/ran.json"
holds "published features alone are searched unless all are asked for" \
    'x["search"] == "published" and x["left"] == [] and
     all(b["supported"] and b["dispatcher"] != "allgather" for b in x["best"])' "$folder/ran.json"
"$moefold" plan --everything qwen3-30b-a3b --gpus 8xH100 --seq 4096 --json moefold.target=moefold \
    --pin model.expert_model_parallel_size=8 --pin model.tensor_model_parallel_size=1 >"$folder/own.json"
holds "our own program is not bound to them" 'x["search"] == "all"' "$folder/own.json"

# A pin that check warns of: the plan says so, with what the repair would cost.
"$moefold" plan --everything qwen3-30b-a3b --gpus 128xH100 --seq 4096 --json \
    --pin model.moe_token_dispatcher_type=allgather --pin model.expert_model_parallel_size=128 \
    >"$folder/pinned.json"
holds "a pinned allgather is warned of with numbers" \
    'any(v["rule"] == "allgather-at-large-ep" and v["repair_prices"][0]["step_s"] > 0
     for v in x["warnings"])' "$folder/pinned.json"

# ---- the target

"$moefold" plan --everything deepseek-v3 --gpus 256xH100 --seq 131072 --json >"$folder/megatron.json"
holds "a plan for Megatron has no latent ring" \
    'all(b["cp_kind"] != "latent" for b in x["best"] + x["front"])' "$folder/megatron.json"
# Our own program may have every feature: sizes are pinned, so that the search is a short one.
"$moefold" plan --everything deepseek-v3 --gpus 256xH100 --seq 131072 --json --pin moefold.target=moefold \
    --pin moefold.mla_latent_ring=true --pin model.pipeline_model_parallel_size=8 \
    --pin model.expert_model_parallel_size=32 --pin model.tensor_model_parallel_size=1 >"$folder/ours.json"
holds "a plan for our runtime may have it" \
    'any(b["cp_kind"] == "latent" for b in x["best"])' "$folder/ours.json"
"$moefold" plan --everything deepseek-v3 --gpus 256xH100 --seq 131072 --json --pin moefold.mla_latent_ring=true \
    >"$folder/refused.json" 2>/dev/null
[[ $? == 1 ]] && echo "ok a pin that Megatron cannot run ends the plan with 1" || {
    echo "not ok a pin that Megatron cannot run was planned"
    failed=1
}
holds "and is named with its rule" \
    '[v["rule"] for v in x["violations"]] == ["target-can-run"]' "$folder/refused.json"
"$moefold" price recipes/dsv3-128k-h100.yaml --json >"$folder/changes.json"
holds "price offers no latent ring for Megatron" \
    'not any("mla_latent_ring=true" in c["change"] for c in x["changes"])' "$folder/changes.json"


# ---- evidence belongs to an architecture: its config.json under another name is planned and priced alike

for job in "qwen3-30b-a3b 16xH100" "deepseek-v3 256xGB200" "gpt-oss-120b 64xH100"; do
    read -r model gpus <<<"$job"
    mkdir "$folder/renamed"
    "$moefold" show "$model" --as config.json >"$folder/renamed/config.json"
    for word in "$model" "$folder/renamed"; do
        name=$([ "$word" = "$model" ] && echo preset || echo renamed)
        "$moefold" plan "$word" --gpus "$gpus" --seq 4096 --json --out "$folder/$name.yaml" >"$folder/$name.json"
        "$moefold" price "$folder/$name.yaml" --json >"$folder/$name.price"
    done
    if python3 - "$folder" <<'PYTHON'; then
import json, sys
def read(name):
    x = json.load(open(sys.argv[1] + "/" + name))
    # names, and the seconds of the search
    for key in ("recipe", "model", "judged", "knobs", "words"):
        x.pop(key, None)
    return x
for end in ("json", "price"):
    x, y = read("preset." + end), read("renamed." + end)
    for key in sorted(set(x) | set(y)):
        if x.get(key) != y.get(key):
            sys.exit("%s: %s, %s" % (key, str(x.get(key))[:200], str(y.get(key))[:200]))
    assert end != "json" or any(row["supported"] for row in x["best"])
PYTHON
        echo "ok $model has its evidence under another name"
    else
        echo "not ok $model has its evidence under another name"
        failed=1
    fi
    rm -r "$folder/renamed"
done

exit $failed
