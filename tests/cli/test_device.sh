#!/bin/bash
# A program that is built for a GPU runs on the kernels of the CPU: where a program runs is not what it is.
. tests/cli/saying.sh
case=tests/data/golden/qwen3-moe-tiny

figure() { sed -n "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/p" | head -1; }

"$moefold" parity "$case" mixed_precision=bf16_mixed --json >"$work/cpu.json"
"$moefold" parity "$case" cluster.gpu=H100 moefold.device=cpu --json >"$work/gpu.json" 2>"$work/said"
check the_gpu_program_computes_the_same \
    [ -n "$(figure loss <"$work/cpu.json")" -a "$(figure loss <"$work/cpu.json")" = "$(figure loss <"$work/gpu.json")" ]
check the_curve_begins_with_the_loss grep -q "\"curve\":\[$(figure loss <"$work/cpu.json"),[0-9.]*,[0-9.]*" "$work/cpu.json"
check it_is_planned_for_the_gpu \
    [ "$(figure arena_bytes <"$work/cpu.json")" != "$(figure arena_bytes <"$work/gpu.json")" ]
check the_change_of_target_is_said grep -q 'moefold.target=moefold' "$work/said"
expect layouts_of_many_nodes_are_refused 1 'our GPU backend runs on one node, but this layout has 16 ranks and cluster.gpus_per_node=8; repair' \
    "$moefold" train tiny cluster.gpu=H100 cluster.n_gpus=16
if ! nvidia-smi -L >"$work/gpus" 2>&1; then
    expect no_gpu 3 "moefold.device=cuda: there is no moefold-cuda.so in the program's folder|there is no usable GPU|driver supports CUDA.*moefold.device=cpu" \
        "$moefold" train tiny cluster.gpu=cpu cluster.n_gpus=1 moefold.device=cuda
fi
expect other_gpus_are_refused 1 'our-gpu-programs-are-for-hopper' \
    "$moefold" train tiny cluster.gpu=B200 moefold.device=cpu
fp8=(tiny cluster.gpu=H100 moefold.device=cpu mixed_precision=bf16_with_fp8_subchannel_scaling_mixed train.train_iters=1
    model.seq_length=64)
expect fp8_recipes_train_here 0 'done after 1 steps' "$moefold" train "${fp8[@]}"
expect fp8_weights_are_refused_by_name 1 'our-weights-stay-bf16.*fp8_param_gather=true' \
    "$moefold" train "${fp8[@]}" mixed_precision.fp8_param_gather=true
expect gpu_recipes_train_here 0 'done after 2 steps' "$moefold" train tiny cluster.gpu=H100 moefold.device=cpu \
    model.seq_length=64 train.train_iters=2
exit $failed
