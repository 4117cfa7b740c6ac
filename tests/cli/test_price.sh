#!/usr/bin/env bash
# What `price` prints adds up, and says what it leaves out. From the repository's root.
. tests/cli/saying.sh
. tests/cli/once.sh

# The parts of a step are the step, with next to nothing that has no name; rows of the table too.
adds_up() { # RECIPE WORDS...
    "$moefold" price "$@" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
parts, step = d["parts"], d["step_s"]
assert abs(sum(parts.values()) - step) < 1e-9 * step, (sum(parts.values()), step)
assert abs(parts["rest"]) < 1e-3 * step, parts["rest"]
for kind, seconds in d["time"]["exposed"].items(): assert parts[kind] == seconds
for kind in ("products", "experts", "attention"): assert parts[kind] == d["time"][kind]
'
}
rows_add_up() { # RECIPE WORDS...
    once "$moefold" price --everything "$@" | python3 -c '
import re, sys
rows, inside = [], False
for line in sys.stdin:
    if line.startswith("Time "): inside = True
    elif re.match(r"\S", line): inside = False
    m = re.match(r" {9}(\S.*?) +([-0-9.e]+) s +[-0-9.]+ %", line)
    if inside and m: rows.append((m[1], float(m[2])))
assert rows[-1][0] == "step" and rows[-2][0] == "rest", rows
total, step = sum(s for _, s in rows[:-1]), rows[-1][1]
assert abs(total - step) < 1e-3 * step, (total, step)
'
}
for r in recipes/*.yaml; do
    check "$(basename "$r" .yaml)_parts_are_the_step" adds_up "$r"
    check "$(basename "$r" .yaml)_rows_are_the_step" rows_add_up "$r"
done
check cpu_parts_are_the_step adds_up tiny cluster.gpu=cpu
check stages_parts_are_the_step adds_up tiny cluster.gpu=cpu cluster.n_gpus=4 model.pipeline_model_parallel_size=4
check offload_parts_are_the_step adds_up recipes/qwen3-235b-128k-gb200.yaml model.fine_grained_activation_offloading=true \
    'model.offload_modules=[expert_fc1,moe_act]' model.recompute_granularity=null model.recompute_modules=null

# ---- exit codes: a rule that is broken is priced all the same, and not fine
expect a_broken_rule_exits_1 1 'BROKEN +betas-below-one' "$moefold" price recipes/dsv3-4k-h100.yaml optimizer.adam_beta2=1.0
expect its_json_is_printed 1 '"step_s":[0-9]' "$moefold" price recipes/dsv3-4k-h100.yaml optimizer.adam_beta2=1.0 --json
expect a_good_recipe_exits_0 0 '^TIME  ' once "$moefold" price recipes/dsv3-4k-h100.yaml

# ---- what has no effect on a price is named where it is set
base=recipes/dsv3-4k-h100.yaml
words=(model.moe_grouped_gemm=false model.cross_entropy_loss_fusion=false model.gradient_accumulation_fusion=false
    model.use_transformer_engine_op_fuser=true model.fp32_residual_connection=true)
for word in "${words[@]}"; do
    expect "${word%%=*}_is_not_priced" 0 "^(Not priced:| {11}) $word \(the price assumes: " \
        once "$moefold" price --everything "$base" "${words[@]}"
    expect "${word%%=*}_is_said_not_to_be_priced" 0 "^(UNPRICED| {8}) $word \(the price assumes: " \
        once "$moefold" price "$base" "${words[@]}"
done
expect num_sms_is_not_priced 0 'Not priced: model.moe_flex_dispatcher_num_sms=8' "$moefold" price --everything "$base" model.moe_deepep_num_sms=8
expect json_names_it 0 '"not_priced":\[\{"key":"model.moe_grouped_gemm","value":"false","assumed":"' \
    "$moefold" price "$base" model.moe_grouped_gemm=false --json
without nothing_is_named_that_nobody_set 'Not priced|UNPRICED' once "$moefold" price --everything "$base"
without as_assumed_is_not_named 'Not priced|UNPRICED' "$moefold" price --everything "$base" model.moe_grouped_gemm=true
expect plan_names_it 0 'Not priced: model.gradient_accumulation_fusion=false' \
    "$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --pin model.gradient_accumulation_fusion=false
expect plan_json_names_it 0 '"not_priced":\[\{"key":"model.gradient_accumulation_fusion"' \
    "$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --pin model.gradient_accumulation_fusion=false --json
# ---- a change that is offered, written as it is offered, has the price that was said; this recipe sets its stages
python3 - "$moefold" recipes/dsv3-4k-h100.yaml >"$work/offered" 2>&1 <<'END'
import json, subprocess, sys
price = lambda *words: json.loads(subprocess.run([sys.argv[1], "price", sys.argv[2], *words, "--json"], capture_output=True).stdout)
stages = [c for c in price()["changes"] if "pipeline_model_parallel_size" in c["change"]]
assert stages, "no change of stages is offered"
for c in stages:
    p = price(*c["change"].split())
    assert (p["step_s"], p["peak_bytes"], p["fits"]) == (c["step_s"], c["peak_bytes"], c["fits"]), (c, p["step_s"], p["peak_bytes"])
END
check offered_changes_have_their_price [ $? = 0 ] || cat "$work/offered"

exit $failed
