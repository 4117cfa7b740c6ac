#!/usr/bin/env bash
# Sequence chunks found by `plan` without being told: half a million tokens with AdamW on one H200, in a packed step and in one that is
# not; pins are kept, and nobody else's plan changes.
. tests/cli/saying.sh

job=(qwen3-30b-a3b --gpus 1xH200 --gbs 1 --pin model.num_layers=4 --pin model.moe_router_force_load_balancing=true --pin mixed_precision=bf16_mixed)
long=("${job[@]}" --seq 524288 --pin model.max_position_embeddings=524288 --pin moefold.target=moefold)
figure() { grep -o "\"$1\":[^,}]*" "$2" | head -1 | sed 's/.*://'; }
plan() { # FILE WORDS...
    local to=$1
    shift
    "$moefold" plan --everything "$@" --json >"$to" 2>"$work/err"
}

plan "$work/both" "${long[@]}" --out "$work/recipe.yaml"
check half_a_million_tokens_are_planned [ $? = 0 ]
check in_chunks [ "$(figure sequence_chunks "$work/both")" -gt 1 ]
check the_recipe_has_them grep -q 'sequence_chunks: [0-9]' "$work/recipe.yaml"
"$moefold" check --everything "$work/recipe.yaml" >"$work/out" 2>&1
check and_fits [ $? = 0 ]
"$moefold" plan --everything "${long[@]}" >"$work/out" 2>&1
check people_are_told grep -q 'among layouts with moefold.sequence_chunks=' "$work/out"

plan "$work/chunks" "${long[@]}" --pin moefold.pack_step=false
check chunks_alone_do_it [ "$(figure sequence_chunks "$work/chunks")" -gt 1 ]
plan "$work/pinned" "${long[@]}" --pin moefold.sequence_chunks=2 --pin moefold.pack_step=false
check pins_are_kept grep -q 'sequence_chunks: 2' "$work/pinned"
plan "$work/plain" "${long[@]}" --pin moefold.sequence_chunks=1 --pin moefold.pack_step=false
check full_recompute_is_found_without_a_pin [ $? = 0 ]
plan "$work/full" "${long[@]}" --pin moefold.sequence_chunks=1 --pin moefold.pack_step=false --pin model.recompute_granularity=full
check the_same_as_with_one [ "$(figure step_s "$work/plain")" = "$(figure step_s "$work/full")" ]
faster() { awk -v x="$(figure step_s "$1")" -v y="$(figure step_s "$2")" 'BEGIN {exit !(x > 0 && x < y)}'; }
check chunks_are_faster_than_none faster "$work/chunks" "$work/plain"
check both_are_faster_than_chunks faster "$work/both" "$work/chunks"

none() { ! grep -q '"sequence_chunks":' "$1"; }
plan "$work/short" "${job[@]}" --seq 4096 --pin moefold.target=moefold
check nothing_is_tried_where_memory_does_not_bind none "$work/short"
plan "$work/theirs" "${job[@]}" --seq 131072 --pin model.max_position_embeddings=131072
check megatron_has_neither none "$work/theirs"
exit $failed
