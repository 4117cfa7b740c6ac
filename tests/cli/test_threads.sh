#!/usr/bin/env bash
# Ranks as threads of one process, from start to end of a run: on devices whose ranks move messages by themselves, as on a GPU, the
# losses are those of the CPU to the digit, with graphs, too. `make tsan` runs this under the thread sanitizer.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive MALLOC_PERTURB_=165
job=(tests/data/golden/qwen3-moe-tiny cluster.gpu=H200 moefold.target=moefold moefold.device=cpu mixed_precision=fp32 model.seq_length=32
    train.train_iters=2 train.global_batch_size=4 train.micro_batch_size=1 logger.log_interval=1)
losses() { # DEVICE WORDS...
    MOEFOLD_DEVICE=$1 timeout 200 "$moefold_test" train "${job[@]}" --as-threads "${@:2}" --metrics "$work/m" >"$work/out" 2>&1 || echo "code $?"
    grep -c 'WARNING: ThreadSanitizer' "$work/out"
    grep -o '"lm loss":[0-9.]*' "$work/m"
    rm -rf "$work/m" "$work/save"
}
compare() { # NAME WORDS...
    local name=$1 device right
    shift
    right=$(losses cpu "$@")
    check "${name}_runs" [ "$(head -1 <<<"$right")" = 0 -a "$(wc -l <<<"$right")" = 3 ]
    for device in peers peers:staged; do
        check "${name}_is_the_same_on_$device" [ "$(losses $device "$@")" = "$right" ]
    done
}
compare experts --ranks 2 model.expert_model_parallel_size=2 model.moe_token_dispatcher_type=alltoall
compare stages_and_tensors --ranks 4 model.pipeline_model_parallel_size=2 model.tensor_model_parallel_size=2
compare replicas --ranks 2 ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true moefold.comm_delay=20us+1GB/s "checkpoint.save=$work/save"
right=$(losses cpu --ranks 2 model.context_parallel_size=2)
check graphs_change_nothing [ "$(losses peers --ranks 2 model.context_parallel_size=2 model.cuda_graph_impl=full_iteration)" = "$right" ]
exit $failed
