#!/bin/bash
# What a plan says of its first row: for which routing it wins, what it sets, and why an alternative or a rule of thumb that
# speaks against it does not hold.
cd "$(dirname "$0")/../.." || exit 1
. tests/cli/saying.sh
. tests/cli/once.sh

jobs=("deepseek-v3 --gpus 256xH100 --seq 128K --gbs 480" "qwen3-next-80b-a3b --gpus 32xGB200 --seq 64K"
    "qwen3-235b-a22b --gpus 64xH100 --seq 32K" "mixtral-8x7b --gpus 16xA100 --seq 4K"
    "glm-4.5 --gpus 128xB200 --seq 16K --gbs 512 mixed_precision=bf16_mixed")
for i in "${!jobs[@]}"; do
    # shellcheck disable=SC2086
    "$moefold" plan --everything ${jobs[i]} --json >"$work/$i.json"
    check "plan_${i}_speaks_of_its_first_row" python3 - "$work/$i.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
best = d["best"]
first, fastest = best[0]["step_s"], min(b["step_s"] for b in best)
assert first <= 1.0101 * fastest, (first, fastest)
assert (best[0]["before"] is None) == (first == fastest), best[0]["before"]
assert best[0]["recompute"] != "full" or all(b["recompute"] == "full" or b["step_s"] >= first for b in best)
for other in d["why"]:
    better = other["step_s"] and other["fits"] and other["step_s"] < first
    assert bool(better) == bool(other["why_not"]), other
for told in d["warnings"]:
    prices = told.get("repair_prices") or []
    assert not any(p and p.get("fits") and p.get("gain", 0) > 0.01 for p in prices), told
robust = d["robust"]
assert 1 <= robust["from_skew"] <= robust["to_skew"], robust
assert (robust["from_skew"] == 1) or robust["fastest_balanced"] > 1, robust
PY
done
check what_graphs_of_the_step_set_is_said python3 - "$work/1.json" <<'PY'
import json, sys
sets = json.load(open(sys.argv[1]))["sets"]
wanted = ["model.moe_paged_stash", "model.moe_expert_rank_capacity_factor", "rerun_state_machine.check_for_nan_in_loss"]
assert all(k in sets for k in wanted), sets
assert "model.tensor_model_parallel_size" not in sets, sets
PY
mixtral=("$moefold" plan --everything mixtral-8x7b --gpus 16xA100 --seq 4K)
expect the_range_is_said 0 'Robust +number 1 stays first of these rows for routing from' once "${mixtral[@]}"
expect what_is_set_is_said 0 'use_precision_aware_optimizer=true' once "${mixtral[@]}"
without forced_balance_has_no_range '^Robust' "$moefold" plan --everything mixtral-8x7b --gpus 16xA100 --seq 4K \
    model.moe_router_force_load_balancing=true
expect an_alternative_that_is_not_taken_says_why 0 'faster, but no published run on such GPUs has it \(.*--search all\)' \
    "$moefold" plan --everything glm-4.5 --gpus 128xB200 --seq 16K --gbs 512 mixed_precision=bf16_mixed
exit $failed
