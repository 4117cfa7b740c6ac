#!/usr/bin/env bash
# `moefold plan` from a recipe or an input of Megatron-LM: the job is kept, what a search decides is searched unless it
# is pinned, and both are said. From the repository's root.
set -u
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. tests/cli/once.sh
lists=tests/data/megatron

verdict() { # NAME CONDITION: 0 is good
    if [ "$2" = 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        sed 's/^/    /' <<<"${out:-}" | head -6
        failed=1
    fi
}
expect() { # NAME CODE PATTERN WORDS...
    local name=$1 code=$2 pattern=$3 got
    shift 3
    out=$(once timeout 600 "$moefold" plan --everything "$@" --seconds 600 2>&1)
    got=$?
    [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"
    verdict "$name" $?
}
json() { # NAME EXPRESSION WORDS...: a Python expression over the JSON `d` of a plan
    local name=$1 expression=$2
    shift 2
    out=$(once timeout 600 "$moefold" plan --everything "$@" --seconds 600 --json 2>/dev/null)
    python3 -c "import json, sys; d = json.loads(sys.stdin.read()); b = d['best'][0]; sys.exit(not ($expression))" <<<"$out"
    verdict "$name" $?
}

# ---- lists: the winner is a recipe that check takes, with the bytes and seconds that plan said
for name in deepseek_v3 qwen3_30b_a3b mixtral_8x7b; do
    timeout 600 "$moefold" plan --everything --from-megatron $lists/$name.txt --gpus 256xH100 --seconds 600 --json --out "$work/$name.yaml" \
        >"$work/plan.json" 2>"$work/said"
    verdict "${name}_is_planned" $?
    "$moefold" check --everything "$work/$name.yaml" >/dev/null
    verdict "${name}_winner_is_valid" $?
    "$moefold" price "$work/$name.yaml" --json >"$work/price.json"
    python3 - "$work/plan.json" "$work/price.json" <<'PY'
import json, sys
plan, price = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
best = plan["best"][0]
sys.exit(abs(best["step_s"] / price["step_s"] - 1) > 1e-9 or best["peak_bytes"] != price["peak_bytes"])
PY
    verdict "${name}_winner_costs_what_was_said" $?
done

# ---- what is kept, and what is searched
json the_job_is_kept 'd["kept"]["train.global_batch_size"] == 8192 and d["kept"]["mixed_precision.fp8_recipe"] == "blockwise" and d["kept"]["optimizer.exp_avg_dtype"] == "bf16" and d["global_batch_size"] == 8192' \
    --from-megatron $lists/deepseek_v3.txt --gpus 256xH100
json the_layout_is_searched 'all(k in d["searched"] for k in ["model.pipeline_model_parallel_size", "model.pipeline_model_parallel_layout", "model.recompute_modules", "model.moe_token_dispatcher_type", "train.micro_batch_size", "ddp.overlap_grad_reduce"])' \
    --from-megatron $lists/deepseek_v3.txt --gpus 256xH100
json a_pin_is_kept 'all(x["pp"] == 8 for x in d["best"])' --from-megatron $lists/deepseek_v3.txt --gpus 256xH100 \
    --pin model.pipeline_model_parallel_size=8
expect it_is_said 0 'qwen3_30b_a3b.txt sets [0-9]+ knobs: [0-9]+ kept, [0-9]+ searched \(--pin' --from-megatron $lists/qwen3_30b_a3b.txt --gpus 256xH100
json all_is_pinned 'd["searched"] == {} and all((x["tp"], x["ep"], x["pp"], x["vpp"], x["micro_batch_size"]) == (2, 8, 2, 2, 1) and x["recompute"] == "core_attn" for x in d["best"])' \
    --from-megatron $lists/qwen3_30b_a3b.txt --gpus 256xH100 --pin all
expect pins_that_do_not_divide 1 'world-divides-expert-grid: .*a repair: ' --from-megatron $lists/deepseek_v3.txt --gpus 256xH100 --pin all
own=recipes/qwen3-30b-4k-h100.yaml
json of_a_recipe_too '"model.expert_model_parallel_size" in d["searched"] and d["kept"]["train.global_batch_size"] == 1024' $own
json recipe_pinned 'd["searched"] == {} and all(x["ep"] == 16 for x in d["best"])' $own --pin all
json a_preset_sets_nothing 'd["searched"] == {} and d["kept"] == {}' tiny --gpus 8xH100 --seq 4096

# ---- against
expect against_a_list 0 'It ranks|would rank' --against $lists/qwen3_30b_a3b.txt --gpus 64xH100
expect against_has_a_path 0 'changes that lead from it to the first' --against $lists/qwen3_30b_a3b.txt --gpus 64xH100
json list_against_a_model 'd["against"]["place"] >= 1' qwen3-30b-a3b --against $lists/qwen3_30b_a3b.txt --gpus 64xH100
expect against_a_script 0 '^Against +.*launch.sh' --against $lists/launch.sh --gpus 64xH100
expect against_one_of_several 0 '^Against +.*several.sh' --against $lists/several.sh --command 1 --gpus 64xH100
expect against_several 2 'several.sh: .* --command N' --against $lists/several.sh --gpus 64xH100
expect list_where_it_cannot_be 0 'no program can be built: ' --against $lists/deepseek_v3.txt --gpus 256xH100
out=$("$moefold" check --everything $lists/mixtral_8x7b.txt 2>&1) || [ $? = 1 ]
verdict a_list_stands_for_a_recipe $?

# ---- stages that layers do not divide by, and odd pins
for pins in model.pipeline_model_parallel_size=8 'model.pipeline_model_parallel_layout=Et*3|(tt|)*29m|L' \
    model.num_layers_in_first_pipeline_stage=3 moefold.num_layers_per_virtual_pipeline_stage=2 \
    model.virtual_pipeline_model_parallel_size=5 model.recompute_granularity=selective \
    model.account_for_loss_in_pipeline_split=true model.expert_tensor_parallel_size=3; do
    out=$(timeout 600 "$moefold" plan --everything --from-megatron $lists/deepseek_v3.txt --gpus 128xH100 --pin "$pins" --seconds 2 2>&1)
    code=$?
    [ $code = 0 ] || [ $code = 1 ]
    verdict "pinned_${pins%%=*}" $?
done
exit $failed
