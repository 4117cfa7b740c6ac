#!/usr/bin/env bash
# `moefold plan` ends: rules that no layout can satisfy are named before a search, a clock ends every search, and what
# was not looked for is not reported. From the repository's root.
set -u
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. tests/cli/once.sh

verdict() { # NAME CONDITION: 0 is good
    if [ "$2" = 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        sed 's/^/    /' <<<"${out:-}" | head -6
        failed=1
    fi
}

# expect NAME CODE PATTERN WORDS...: the exit code of a plan that ends by itself, and a pattern in what it prints.
expect() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    out=$(once timeout 300 "$moefold" plan --everything "$@" 2>&1)
    got=$?
    [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"
    verdict "$name" $?
}
json() { # NAME EXPRESSION WORDS...: a Python expression over the JSON `d` of a plan, whatever its exit code
    local name=$1 expression=$2
    shift 2
    out=$(once timeout 300 "$moefold" plan --everything "$@" --json 2>/dev/null)
    python3 -c "import json, sys; d = json.loads(sys.stdin.read()); sys.exit(not ($expression))" <<<"$out"
    verdict "$name" $?
}
small=(mixtral-8x7b --gpus 8xH100 --seq 4096)

# ---- rules that no layout can satisfy
formats=(--pin mixed_precision.bf16=true --pin mixed_precision.fp16=true)
data=(--pin moefold.mock_data=true --pin dataset.data_path=x)
expect two_formats_at_once_end 1 'bf16-or-fp16.*a repair: mixed_precision.fp16=false' "${small[@]}" "${formats[@]}"
expect mock_and_real_data_ends 1 'mock-or-real-data.*a repair: moefold.mock_data=false' "${small[@]}" "${data[@]}"
json both_are_named 'sorted(v["rule"] for v in d["violations"]) == ["bf16-or-fp16", "mock-or-real-data"]' \
    "${small[@]}" "${formats[@]}" "${data[@]}"
json each_has_its_repair 'all(v["repair"] for v in d["violations"]) and d["complete"] and not d["best"]' \
    "${small[@]}" "${formats[@]}" "${data[@]}"
expect pins_against_one_another_are_named 1 'moe_shared_expert_overlap=true needs dispatcher alltoall or flex, not allgather; a repair: ' "${small[@]}" --pin model.moe_shared_expert_overlap=true \
    --pin model.moe_token_dispatcher_type=allgather
# one that reads what is searched, and is broken by every layout that is left
expect broken_by_all_that_fit 1 'every layout that fits breaks one of these rules' qwen3-30b-a3b --gpus 64xH100 --seq 4096 \
    --pin model.tensor_model_parallel_size=2 --pin env_vars.CUDA_DEVICE_MAX_CONNECTIONS=8 \
    --pin model.moe_token_dispatcher_type=allgather
expect repairs_are_named_there 1 'one-connection-before-blackwell: .*a repair: env_vars.CUDA_DEVICE_MAX_CONNECTIONS=1' \
    qwen3-30b-a3b --gpus 64xH100 --seq 4096 --pin model.tensor_model_parallel_size=2 \
    --pin env_vars.CUDA_DEVICE_MAX_CONNECTIONS=8 --pin model.moe_token_dispatcher_type=allgather

# ---- the clock
large=(deepseek-v3 --gpus 1024xH100 --seq 4096 --precision any)
expect no_time_at_all 1 'no layout was found in 1e-09 s.*--seconds' "${large[@]}" --seconds 1e-9
json no_time_in_json 'd["complete"] is False and d["best"] == [] and "--seconds" in d["why_not"]' "${large[@]}" --seconds 1e-9
expect seconds_of_letters 2 '--seconds soon: a number of seconds above 0' "${small[@]}" --seconds soon
expect seconds_below_zero 2 '--seconds -1: a number of seconds above 0' "${small[@]}" --seconds=-1
json all_of_it 'd["complete"] is True and d["fits"]' "${small[@]}" --seconds 600
# Some time finds something and is not enough for all: how much depends on the machine, and on what else it does.
cut=1 said=1
for seconds in 0.5 1 2 4 8 16; do
    out=$(timeout 300 "$moefold" plan --everything "${large[@]}" --more --seconds $seconds --json 2>/dev/null)
    code=$?
    fits=$(python3 -c 'import json, sys; d = json.loads(sys.stdin.read()); print(d["fits"], d["complete"])' <<<"$out")
    [ $code = 0 ] && [ "$fits" = "True False" ] || continue
    cut=0
    "$moefold" plan --everything "${large[@]}" --more --seconds $seconds >"$work/best" 2>&1
    if grep -q 'The time limit of .* was reached: this is the best so far' "$work/best"; then
        said=0
        break
    fi
done
verdict best_so_far_is_shown $cut
verdict best_so_far_is_said $said
expect against_ends_too 0 '^Against' --against recipes/qwen3-30b-4k-h100.yaml --seconds 4

# ---- the prediction module
module=(deepseek-v3 --gpus 256xH100 --pin model.mtp_num_layers=1 --seconds 600)
json module_at_4k 'd["complete"] and d["fits"] and d["judged"]["played"] < 3000' "${module[@]}" --seq 4096
json module_at_128k 'd["complete"] and d["fits"] and d["judged"]["played"] < 2000' "${module[@]}" --seq 131072

# ---- what was not looked for
out=$("$moefold" plan --everything "${small[@]}" 2>&1)
[ $? = 0 ] && ! grep -qE 'holds this job: 0|TP0|smaller cluster that' <<<"$out"
verdict no_smaller_cluster_without_more $?
json nor_in_json 'd["fewest"] is None and "fewest_gpus" not in d' "${small[@]}"
expect more_finds_it 0 'holds this job: [1-9]|No smaller cluster holds|Not every smaller cluster' "${small[@]}" --more

# ---- the batch where nobody gives one
json batch_of_1000_gpus "d['global_batch_size'] == 2000 and d['fits']" mixtral-8x7b --gpus 1000xH100 --seq 4096
expect most_that_is_searched_is_explained 0 'global batch 1,048,576 \(no --gbs: the most that is searched, 8192 microbatches of 16 samples' \
    tiny --gpus 8xH100 --seq 5
expect default_batch_is_explained 0 '\(no --gbs: the multiple of 1000 nearest 2\^23 / 4096 = 2048' \
    mixtral-8x7b --gpus 1000xH100 --seq 4096
for case in 8:4096:2048 24:4096:2040 96:131072:48 7:1000:8386; do
    IFS=: read -r gpus seq batch <<<"$case"
    json "batch_of_${gpus}_gpus_at_$seq" "d['global_batch_size'] == $batch" tiny --gpus "${gpus}xH100" --seq "$seq" --seconds 600
done
json batch_that_is_given_stays 'd["global_batch_size"] == 64' "${small[@]}" --gbs 64
exit $failed
