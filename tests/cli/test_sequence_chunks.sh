#!/usr/bin/env bash
# Sequence chunks and groups of heads on the command line: half a million tokens fit by them and `check --fix` says so; Megatron has
# neither; and the program for a GPU trains in BF16 as it does without them.
. tests/cli/saying.sh

export OMP_NUM_THREADS=1
long=(qwen3-30b-a3b model.num_layers=4 cluster.gpu=H200 cluster.n_gpus=1 model.moe_router_force_load_balancing=true moefold.target=moefold
    train.micro_batch_size=1 train.global_batch_size=1 model.seq_length=524288 model.max_position_embeddings=524288)
full=(model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1)

"$moefold" check --everything "${long[@]}" "${full[@]}" moefold.pack_step=false >"$work/out" 2>&1
check half_a_million_tokens_do_not_fit_at_once [ $? = 1 ]
"$moefold" check --everything "${long[@]}" "${full[@]}" moefold.sequence_chunks=8 >"$work/out" 2>&1
check in_chunks_they_fit [ $? = 0 ]
"$moefold" check --everything "${long[@]}" model.seq_length=786432 model.max_position_embeddings=786432 --fix >"$work/out" 2>&1
check fix_finds_chunks grep -q 'moefold.sequence_chunks=[0-9]' "$work/out"

for words in moefold.sequence_chunks=8 moefold.attention_head_groups=2; do
    "$moefold" check --everything qwen3-30b-a3b cluster.gpu=H200 cluster.n_gpus=8 "$words" >"$work/out" 2>&1
    check "megatron_has_no_${words%%=*}" [ $? = 1 ]
    check "which_names_${words%%=*}" grep -q "$words" "$work/out"
done

# The loss of the first step is that of the same forward; what follows differs by sums of weight gradients over chunks.
small=(tiny cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.device=cpu moefold.mock_data=true model.seq_length=128
    train.micro_batch_size=1 train.global_batch_size=2 train.train_iters=3 logger.log_interval=1)
curve() { # FILE WORDS...
    local to=$1
    shift
    "$moefold" train "${small[@]}" "$@" --metrics "$work/metrics" >"$work/log" 2>&1 || cat "$work/log"
    grep '"event":"iteration"' "$work/metrics" | grep -o '"\(lm loss\|grad_norm\)":[^,}]*' >"$to"
    rm -f "$work/metrics"
}
near() { paste -d: "$1" "$2" | awk -F: -v most="$3" '{d = $2 / $4 - 1; if (d < 0) d = -d; if (!(d <= most)) bad = 1} END {exit bad || NR != 6}'; }
curve "$work/off"
curve "$work/groups" moefold.attention_head_groups=2
curve "$work/chunks" moefold.sequence_chunks=4
curve "$work/again" moefold.sequence_chunks=4 moefold.attention_head_groups=2 "${full[@]}"
check groups_change_no_digit cmp "$work/off" "$work/groups"
check chunks_train_alike near "$work/chunks" "$work/off" 1e-3
check recompute_in_chunks_changes_no_digit cmp "$work/again" "$work/chunks"
MOEFOLD_DEVICE=deferred:7 moefold=$moefold_test curve "$work/late" moefold.sequence_chunks=4 moefold.attention_head_groups=2 "${full[@]}"
check nor_does_a_late_device cmp "$work/late" "$work/chunks"
"$moefold" train "${small[@]}" moefold.sequence_chunks=4 moefold.attention_head_groups=2 "${full[@]}" train.train_iters=1 \
    model.moe_router_force_load_balancing=true --touched >"$work/out" 2>&1
check every_planned_byte_is_used [ $? = 0 ]

# Every chunk has its own messages: all ranks agree on them, and nothing races.
for words in model.moe_token_dispatcher_type=alltoall model.moe_token_dispatcher_type=allgather \
    'model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=hybridep'; do
    # shellcheck disable=SC2086
    "$moefold" check --everything tiny cluster.gpu=H200 moefold.target=moefold cluster.n_gpus=4 model.expert_model_parallel_size=4 moefold.sequence_chunks=4 \
        moefold.attention_head_groups=2 $words --all-ranks >"$work/out" 2>&1
    check "ranks_agree_with_${words##*=}" [ $? = 0 ]
done
exit $failed
