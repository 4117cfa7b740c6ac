#!/usr/bin/env bash
# Optimizer state that the host keeps (optimizer.optimizer_cpu_offload): whatever its share, on one rank and on several, on a
# device that runs late, over a checkpoint: the same losses and norms to the bit, and every planned byte is used.
. tests/cli/saying.sh

export OMP_NUM_THREADS=1
common=(cluster.gpu=H200 moefold.device=cpu moefold.target=moefold model.seq_length=32 train.global_batch_size=4
    train.micro_batch_size=1 moefold.mock_data=true optimizer.clip_grad=0.5 optimizer.use_precision_aware_optimizer=true
    optimizer.store_param_remainders=false)
host=(optimizer.optimizer_cpu_offload=true)
beside=(optimizer.overlap_cpu_optimizer_d2h_h2d=true)

# curve FILE WORDS...: losses and norms of a run, with all their digits.
curve() {
    local to=$1
    shift
    "$moefold" train "$@" "${common[@]}" --metrics "$work/metrics" >"$work/log" 2>&1 || cat "$work/log"
    grep '"event":"iteration"' "$work/metrics" | grep -o '"\(lm loss\|grad_norm\)":[^,}]*' >"$to"
    rm -f "$work/metrics"
}

# same NAME FILE LINES: the curve is that of the run without, and has so many lines.
same() {
    local want=$work/base
    [ "$(wc -l <"$2")" -eq "$3" ] || { bad "$1" "$(wc -l <"$2") lines, not $3: $(tail -2 "$work/log")"; return; }
    check "$1" cmp -s <(tail -n "$3" "$want") "$2"
}

for model in qwen3-moe deepseek-v3; do
    one=("tests/data/golden/$model-tiny" cluster.n_gpus=1 train.train_iters=4)
    curve "$work/base" "${one[@]}"
    curve "$work/x" "${one[@]}" "${host[@]}"
    same "${model}_all" "$work/x" 8
    curve "$work/x" "${one[@]}" "${host[@]}" optimizer.optimizer_offload_fraction=0.3 "${beside[@]}"
    same "${model}_some_overlapped" "$work/x" 8
    MOEFOLD_DEVICE=deferred:5 moefold=$moefold_test curve "$work/x" "${one[@]}" "${host[@]}" optimizer.optimizer_offload_fraction=0.7 "${beside[@]}"
    same "${model}_late_device" "$work/x" 8
    MOEFOLD_DEVICE=deferred:6 moefold=$moefold_test curve "$work/x" "${one[@]}" "${host[@]}"
    same "${model}_late_device_one_place" "$work/x" 8
    expect "${model}_planned_is_used" 0 'pinned on the host +([0-9,]+) of +\1$' "$moefold" train "${one[@]}" "${common[@]}" \
        "${host[@]}" optimizer.optimizer_offload_fraction=0.4 model.moe_router_force_load_balancing=true --touched
done

two=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=2 model.expert_model_parallel_size=2 train.train_iters=4 --ranks 2)
curve "$work/base" "${two[@]}"
curve "$work/x" "${two[@]}" "${host[@]}" optimizer.optimizer_offload_fraction=0.5 "${beside[@]}"
same two_ranks "$work/x" 8

# A step that is skipped writes nothing, wherever the state is.
one=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=1 train.train_iters=4 optimizer.grad_norm_skip_threshold=2.8)
curve "$work/base" "${one[@]}"
curve "$work/x" "${one[@]}" "${host[@]}" "${beside[@]}"
same skipped_steps "$work/x" "$(wc -l <"$work/base")"
check some_are_skipped grep -qE 'number of skipped iterations: +[1-9]' "$work/log"

# FP32 weights are their own masters.
one=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=1 train.train_iters=4 model.bf16=false)
curve "$work/base" "${one[@]}"
curve "$work/x" "${one[@]}" "${host[@]}" optimizer.optimizer_offload_fraction=0.6
same wide_weights "$work/x" 8

# A checkpoint knows nothing of where the state was.
one=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=1)
curve "$work/base" "${one[@]}" train.train_iters=4
curve "$work/x" "${one[@]}" train.train_iters=4 train.exit_interval=2 checkpoint.save="$work/ck" checkpoint.save_interval=2 \
    "${host[@]}" optimizer.optimizer_offload_fraction=0.5
for share in 0 0.25 1; do
    curve "$work/x" "${one[@]}" train.train_iters=4 checkpoint.load="$work/ck" "${host[@]}" \
        optimizer.optimizer_offload_fraction=$share
    same "resumed_with_$share" "$work/x" 4
done

exit $failed
