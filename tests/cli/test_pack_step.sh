#!/usr/bin/env bash
# Packed steps on the command line: refused where there are stages, proved by the audit, and with the same digits on a late device, in a graph,
# where routed buffers grow, and over a checkpoint; `check --fix` takes them before anything is computed again.
. tests/cli/saying.sh

export OMP_NUM_THREADS=1
own=(cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.mock_data=true)
small=(tiny "${own[@]}" moefold.device=cpu model.seq_length=128 train.micro_batch_size=2 train.global_batch_size=2 logger.log_interval=1)
on=moefold.pack_step=true
off=moefold.pack_step=false

"$moefold" check --everything "${small[@]}" $on cluster.n_gpus=2 model.pipeline_model_parallel_size=2 >"$work/out" 2>&1
check two_stages_are_refused [ $? = 1 ]
check by_name grep -q 'moefold.pack_step' "$work/out"
"$moefold" check --everything "${small[@]}" $on moefold.target=megatron >"$work/out" 2>&1
check megatron_has_none [ $? = 1 ]
"$moefold" check --everything "${small[@]}" $on --all-ranks >"$work/out" 2>&1
check the_audit_finds_all_in_order [ $? = 0 ]
# What messages touch keeps its place for a whole list: these two would race else.
for words in 'model.tensor_model_parallel_size=2 model.context_parallel_size=2' 'model.expert_model_parallel_size=4
    model.moe_token_dispatcher_type=alltoall model.moe_shared_expert_intermediate_size=64 model.moe_shared_expert_overlap=true'; do
    # shellcheck disable=SC2086
    "$moefold" check --everything "${small[@]}" $on cluster.n_gpus=4 train.global_batch_size=8 $words --all-ranks >"$work/out" 2>&1
    check "no_race_with_${words%%=*}" grep -q 'no race between streams' "$work/out"
done

curve() { # FILE WORDS...
    local to=$1
    shift
    "$moefold" train "${small[@]}" train.train_iters=4 "$@" --metrics "$work/metrics" >"$work/log" 2>&1 || cat "$work/log"
    grep '"event":"iteration"' "$work/metrics" | grep -o '"\(lm loss\|grad_norm\)":[^,}]*' >"$to"
    [ -s "$to" ] || echo "no curve for $*" >>"$to"
    rm -f "$work/metrics"
}
curve "$work/off" $off
curve "$work/on" $on
check packing_changes_no_digit cmp "$work/off" "$work/on"
check one_gpu_packs_unless_told sh -c "'$moefold' show tiny ${own[*]} --memory >'$work/unset.txt'; '$moefold' show tiny ${own[*]} $on --memory | cmp - '$work/unset.txt'"
MOEFOLD_DEVICE=deferred:5 moefold=$moefold_test curve "$work/late" $on
check nor_does_a_late_device cmp "$work/off" "$work/late"
curve "$work/graph" $on model.cuda_graph_impl=full_iteration
curve "$work/plain" $off model.cuda_graph_impl=full_iteration
check nor_does_a_graph cmp "$work/plain" "$work/graph"

# Experts that get more than their buffers hold: the step runs again with larger ones, whose places are others.
tight=moefold.moe_buffer_factor=1.0
curve "$work/grown-off" $off $tight
cp "$work/log" "$work/grown.log"
curve "$work/grown" $on $tight
check buffers_grow_as_ever cmp "$work/grown-off" "$work/grown"

curve "$work/first" $on train.train_iters=2 scheduler.lr_decay_iters=4 checkpoint.save="$work/run" checkpoint.save_interval=2
curve "$work/rest" $off scheduler.lr_decay_iters=4 checkpoint.load="$work/run"
curve "$work/whole" $off scheduler.lr_decay_iters=4
check a_run_goes_on_without cmp <(cat "$work/first" "$work/rest") "$work/whole"

# What costs nothing comes first, and is enough here.
"$moefold" check --everything qwen3-30b-a3b model.num_layers=4 "${own[@]}" $off model.moe_router_force_load_balancing=true train.micro_batch_size=1 \
    train.global_batch_size=1 model.seq_length=163840 model.max_position_embeddings=163840 --fix >"$work/out" 2>&1
check fix_packs_first grep -q 'moefold.pack_step=true' "$work/out"
check and_computes_nothing_again sh -c "! grep -q recompute_modules '$work/out'"
exit $failed
