#!/bin/bash
# One judgement: what check warns of, what plan recommends and what price offers agree.
set -uo pipefail
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
        echo "FAIL $1: $2"
        failed=1
    else
        echo "ok   $1"
    fi
}

# ---- repairs

"$moefold" check qwen3-30b-a3b --json model.moe_router_dtype=bf16 >"$folder/router.json"
holds "a router in bf16 is repaired to fp32" \
    '[v["repair"] for v in x["violations"] if v["rule"] == "value-in-range"] ==
     [["model.moe_router_dtype=fp32"]]' "$folder/router.json"

"$moefold" check deepseek-v3 --json cluster.gpu=GB200 cluster.n_gpus=256 \
    model.tensor_model_parallel_size=16 model.expert_model_parallel_size=64 >"$folder/tp.json"
holds "TP 16 on NVL72 says why, and offers a domain of 64" \
    '[v["repair"] for v in x["violations"] if v["rule"] == "tp-stays-in-nvlink" and
      "16 does not divide" in v["message"] and "72" in v["message"] and
      "straddle" in v["message"]] == [["cluster.nvlink_domain=64"]]' "$folder/tp.json"

# ---- a warning beside its price

"$moefold" check qwen3-30b-a3b --json model.expert_model_parallel_size=128 \
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
        print("FAIL", recipe, c["change"], "draws", more)
        sys.exit(1)
print("ok   no change of", recipe, "draws a new warning")
PY
done
"$moefold" price recipes/dsv3-4k-h100.yaml --json model.moe_token_dispatcher_type=flex \
    comm_overlap.overlap_moe_expert_parallel_comm=false comm_overlap.delay_wgrad_compute=false \
    >"$folder/flex.json"
holds "no shared-expert overlap is offered under flex" \
    'not any("moe_shared_expert_overlap=true" in c["change"] and
     "alltoall" not in c["change"] for c in x["changes"])' "$folder/flex.json"

exit $failed
