#!/usr/bin/env bash
# Pins that the lists of a search do not have: more chunks than any list names, first and last stages of their own.
# `moefold plan` answers or refuses; it is never ended by a signal. From the repository's root.
set -u
export COLUMNS=1000 # so that no line that is looked for is wrapped
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

verdict() { # NAME CONDITION: 0 is good
    if [ "$2" = 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        sed 's/^/    /' <<<"${out:-}" | tail -6
        failed=1
    fi
}
# expect NAME CODE PATTERN WORDS...
expect() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    out=$(timeout 120 "$moefold" plan --everything "$@" 2>&1)
    got=$?
    [[ $got == $code ]] && grep -qE -- "$pattern" <<<"$out"
    verdict "$name" $?
}
json() { # NAME EXPRESSION WORDS...: over the JSON `d` of a plan
    local name=$1 expression=$2
    shift 2
    out=$(timeout 120 "$moefold" plan --everything "$@" --json 2>/dev/null)
    python3 -c "import json, sys; d = json.loads(sys.stdin.read()); sys.exit(not ($expression))" <<<"$out"
    verdict "$name" $?
}

large=(deepseek-v3 --gpus 256xH100 --seq 4096 --pin model.pipeline_model_parallel_size=8)
small=(qwen3-30b-a3b --gpus 16xH100 --seq 4096 --seconds 1)
expect first_stage_that_does_not_divide 1 '54 layers do not divide by 7 pipeline ranks' "${large[@]}" \
    --pin model.num_layers_in_first_pipeline_stage=7
json last_stage_of_its_own 'd["best"] and all(b["pp"] == 8 for b in d["best"])' \
    "${large[@]}" --pin model.num_layers_in_last_pipeline_stage=5
cat >"$work/recipe.yaml" <<'YAML'
moefold.model: deepseek-v3
model.num_layers_in_first_pipeline_stage: 5
YAML
json first_stage_of_a_recipe 'd["best"] and d["best"][0]["pp"] == 8' "$work/recipe.yaml" "${large[@]:1}"
# VPP x PP stages that hold something: the search sums them all
for vpp in 255 256 257 300; do
    expect "chunks_$vpp" '[01]' . "${small[@]}" --pin model.virtual_pipeline_model_parallel_size=$vpp \
        --pin model.num_layers=$((2 * vpp)) --pin model.pipeline_model_parallel_size=2
done
# and those that do not: no split is derived
for vpp in 300 4096; do
    expect "empty_chunks_$vpp" 1 "model.virtual_pipeline_model_parallel_size=$vpp" "${small[@]}" \
        --pin model.virtual_pipeline_model_parallel_size=$vpp
done
expect more_stages_than_any_model 1 'value-in-range: model.virtual_pipeline_model_parallel_size=70000' "${small[@]}" \
    --pin model.virtual_pipeline_model_parallel_size=70000


# What a row has with offload is worth having without it, too: 5 times as fast where memory is tight.
fastest() { timeout 120 "$moefold" plan --everything gpt-oss-120b --gpus 8xB300 --seq 4096 --gbs 48 "$@" --json 2>/dev/null |
    python3 -c 'import json, sys; print(min(b["step_s"] for b in json.load(sys.stdin)["best"]))'; }
free=$(fastest) pinned=$(fastest --pin mixed_precision=bf16_mixed --pin optimizer.use_precision_aware_optimizer=true)
out="free $free s, pinned $pinned s"
awk "BEGIN {exit !($free <= 1.001 * $pinned)}"
verdict a_precision_aware_optimizer_is_searched_without_offload $?
exit $failed
