#!/usr/bin/env bash
# Every repair that check prints is appended to the very command and checked: it repairs, breaks no other rule, and fits
# unless it says that it does not. From the repository's root.
. tests/cli/saying.sh
export MOEFOLD=$moefold PYTHONPATH=tests/cli PYTHONDONTWRITEBYTECODE=1

# ---- jobs of which repairs once did not fit, could not be appended, broke another rule or did something else
repaired() { # NAME WORDS...
    local name=$1 wrong
    shift
    wrong=$(python3 -c 'import sys, repairs
n, wrong = repairs.faults(sys.argv[1:])
print("\n".join(wrong) if n else "no repair is printed")' "$@")
    check "repaired_$name" [ "$wrong" = "" ] || printf '    %s\n' "moefold check $*" "$wrong"
}
repaired state_of_the_banner deepseek-v3 ep=64 --gpus 256xH100
repaired state_of_long_context deepseek-v3 cp=32 seq=128K --gpus 256xH100
repaired state_and_an_error deepseek-v3 ep=64 --gpus 256xH100 model.moe_token_dispatcher_type=deepep
repaired more_gpus deepseek-v3 ep=64 pp=8 --gpus 256xH100
repaired more_gpus_of_a_rack qwen3-30b-a3b ep=16 tp=2 pp=2 --gpus 24xGB200
repaired length_by_option qwen3-30b-a3b cp=4 ep=8 --gpus 16xH100 --seq 4100
repaired fp8 deepseek-v3 ep=64 pp=4 --gpus 256xH100 mixed_precision=fp8
repaired alias_of_the_length qwen3-30b-a3b cp=4 ep=8 --gpus 16xH100 dataset.seq_length=4100
repaired flags_of_megatron qwen3-30b-a3b ep=8 --gpus 16xH100 --context-parallel-size 3
repaired script --from-megatron tests/data/megatron/qwen3_30b_a3b.txt --gpus 24xH100
repaired offload_of_megatron_lm tiny moefold.system=megatron-lm optimizer.optimizer_cpu_offload=true
repaired padding_of_deepep qwen3-30b-a3b ep=8 --gpus 8xH100 model.moe_token_dispatcher_type=flex \
    model.moe_flex_dispatcher_backend=deepep model.moe_expert_capacity_factor=1.0 model.moe_pad_expert_input_to_capacity=true

# ---- what was meant
expect deepep_is_a_backend 1 'repair:  model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=deepep$' \
    "$moefold" check --everything deepseek-v3 ep=64 --gpus 256xH100 model.moe_token_dispatcher_type=deepep
expect fp8_is_that_of_hopper 1 'repair:  mixed_precision=bf16_with_fp8_subchannel_scaling_mixed$' \
    "$moefold" check --everything deepseek-v3 ep=64 pp=4 --gpus 256xH100 mixed_precision=fp8
expect fp8_is_that_of_blackwell 1 'repair:  mixed_precision=bf16_with_mxfp8_mixed$' \
    "$moefold" check --everything deepseek-v3 ep=64 pp=4 --gpus 256xB200 mixed_precision=fp8

# ---- the very command
expect gpus_again 1 'or:      --gpus 512xH100$' "$moefold" check --everything deepseek-v3 ep=64 pp=8 --gpus 256xH100
expect number_alone_again 1 'or:      --gpus 512$' "$moefold" check --everything deepseek-v3 ep=64 pp=8 --gpus 256
expect override_again 1 'or:      cluster.n_gpus=512$' "$moefold" check --everything deepseek-v3 ep=64 pp=8 cluster.n_gpus=256
expect length_again 1 'repair:  --seq 4104$' "$moefold" check --everything qwen3-30b-a3b cp=4 ep=8 --gpus 16xH100 --seq 4100
odd=(qwen3-30b-a3b --gpus 16xH100 --seq 4100 --pin train.micro_batch_size=1 --pin model.context_parallel_size=2
    --pin model.tensor_model_parallel_size=2)
expect plan_names_a_repair 1 'a repair: --seq 4128$' "$moefold" plan --everything "${odd[@]}"
expect plan_takes_it 0 'TP +CP' "$moefold" plan --everything "${odd[@]}" --seq 4128

# ---- where nothing does
expect nothing_is_said 1 'no repair was found: nothing fits on 8 H100: no recompute, offload or parallel sizes; .* it fits on [0-9]+' \
    "$moefold" check --everything deepseek-v3 --gpus 8xH100

exit $failed
