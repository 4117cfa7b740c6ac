#!/usr/bin/env bash
# `moefold plan --bring-up DIR`: the order in which to bring the winner up. From the repository's root.
. tests/cli/saying.sh

# steps NAME WORDS...: plans, then checks every recipe in order and writes what was found to $work/NAME.json.
steps() {
    local name=$1
    shift
    "$moefold" plan --everything "$@" --json --out "$work/$name.yaml" --bring-up "$work/$name" >"$work/$name.json" ||
        bad "$name" "the plan failed"
}
# holds NAME FILE PYTHON: over `x`, the plan's JSON, and `b`, its steps that were written.
holds() {
    local name=$1 file=$2
    if python3 -c "
import json, sys
x = json.load(open(sys.argv[1]))
b = [s for s in x['bring_up'] if not s['skipped']]
sys.exit(0 if ($3) else 1)" "$file"; then ok "$name"; else bad "$name" "$3"; fi
}

steps hopper qwen3-235b-a22b --gpus 256xH100 --seq 8192 --pin model.moe_token_dispatcher_type=flex \
    --pin model.moe_flex_dispatcher_backend=deepep \
    --pin comm_overlap.overlap_moe_expert_parallel_comm=true --pin model.cuda_graph_impl=transformer_engine \
    --pin mixed_precision=bf16_with_fp8_subchannel_scaling_mixed
steps nvl72 qwen3-235b-a22b --gpus 256xGB200 --seq 4096
steps long deepseek-v3 --gpus 256xH100 --seq 131072
steps plain mixtral-8x7b --gpus 8xH100 --seq 4096 --pin mixed_precision=bf16_mixed

for name in hopper nvl72 long plain; do
    for f in "$work/$name"/*.yaml; do
        expect "${name}_$(basename "$f" .yaml)_passes_check" 0 'valid' "$moefold" check --everything "$f"
    done
    first=$(ls "$work/$name" | head -1)
    check "${name}_starts_with_alltoall" [ "$first" = 01-alltoall-eager.yaml ]
    "$moefold" show "$work/$name/$first" --json >"$work/first.json"
    check "${name}_starts_eager_in_bf16" python3 -c "
import json, sys
k = json.load(open('$work/first.json'))['knobs']
v = {x['key']: x['value'] for x in k} if isinstance(k, list) else {n: x['value'] for n, x in k.items()}
sys.exit(0 if v['model.moe_token_dispatcher_type'] == 'alltoall' and v['model.cuda_graph_impl'] == 'none'
         and v['mixed_precision'] == 'bf16_mixed'
         and not v['comm_overlap.overlap_moe_expert_parallel_comm'] else 1)"
    holds "${name}_is_listed_as_written" "$work/$name.json" \
        "[s['file'] for s in b] == sorted(__import__('os').listdir('$work/$name'))"
    holds "${name}_fits_and_has_prices" "$work/$name.json" \
        "all(s['fits'] and s['step_s'] > 0 and s['peak_bytes'] <= s['usable_bytes'] for s in b)"
    holds "${name}_ends_in_the_winner" "$work/$name.json" \
        "abs(b[-1]['step_s'] / x['best'][0]['step_s'] - 1) < 1e-9 and
         b[-1]['peak_bytes'] == x['best'][0]['peak_bytes']"
    check "${name}_ends_in_its_recipe" diff -q "$work/$name.yaml" \
        <(grep -v '^# \(Bring-up\|Added\|Predicted\)' "$work/$name/$(ls "$work/$name" | tail -1)")
    holds "${name}_says_what_changed" "$work/$name.json" "all(s['changed'] for s in b)"
    holds "${name}_says_why_it_skips" "$work/$name.json" \
        "len(x['bring_up']) == 5 and all(s['skipped'] for s in x['bring_up'] if s not in b)"
done

holds hopper_takes_the_guides_order "$work/hopper.json" \
    "[s['name'] for s in x['bring_up']] == ['alltoall-eager', 'deepep', 'overlap', 'graphs', 'fp8'] and
     {'alltoall-eager', 'deepep', 'overlap', 'fp8'} <= {s['name'] for s in b}"
holds recompute_is_added_where_bf16_does_not_fit "$work/nvl72.json" \
    "any('recompute' in (s['added'] or '') for s in b if s['name'] != 'fp8')"
holds plain_skips_what_does_not_apply "$work/plain.json" \
    "[s['name'] for s in x['bring_up'] if s['skipped']] and 'bf16_mixed' in x['bring_up'][4]['skipped']"

# ---- the folder
small=(plan qwen3-30b-a3b --gpus 16xH100 --seq 4096)
mkdir "$work/full" "$work/empty"
echo mine >"$work/full/notes.txt"
expect full_folder_is_refused 2 'not empty \(it holds notes.txt\)' "$moefold" "${small[@]}" --bring-up "$work/full"
check full_folder_is_left_alone [ "$(ls "$work/full")" = notes.txt ]
expect a_file_is_no_folder 2 '--bring-up .*cannot read it as a folder' "$moefold" "${small[@]}" --bring-up "$work/full/notes.txt"
expect empty_folder_is_taken 0 '01-alltoall-eager.yaml' "$moefold" "${small[@]}" --bring-up "$work/empty"
expect nowhere_is_refused 2 'cannot create the folder' "$moefold" "${small[@]}" --bring-up "$work/no/such/place"
exit $failed
