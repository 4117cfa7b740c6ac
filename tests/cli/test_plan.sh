#!/usr/bin/env bash
# `moefold plan` as a person meets it: what cannot be read (2), what cannot be laid out or does not fit (1), each with a
# message that names the knob, its value and a repair; and a recipe beside its plan. From the repository's root.
set -u
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. tests/cli/once.sh

# expect NAME CODE PATTERN WORDS...: the exit code of a plan, and a pattern in what it prints on either channel.
expect() {
    local name=$1 code=$2 pattern=$3
    shift 3
    local out got
    out=$(once "$moefold" plan --everything "$@" 2>&1)
    got=$?
    if [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"; then
        echo "ok $name"
    else
        echo "not ok $name (exit $got instead of $code, or no '$pattern' in:)"
        sed 's/^/    /' <<<"$out" | head -5
        failed=1
    fi
}
small=(qwen3-30b-a3b --gpus 16xH100 --seq 4096)
large=(deepseek-v3 --gpus 256xH100 --seq 4096)

# ---- words that cannot be read
expect no_model 2 'name a recipe' --gpus 16xH100
expect no_gpus 2 '--gpus 256xH100' qwen3-30b-a3b --seq 4096
expect sequence_of_zero 2 '--seq 0: a whole number from 1' qwen3-30b-a3b --gpus 16xH100 --seq 0
expect sequence_of_letters 2 '--seq long: a whole number' qwen3-30b-a3b --gpus 16xH100 --seq long
expect sequence_too_long 2 '--seq 99999999999:.*1073741824' qwen3-30b-a3b --gpus 16xH100 --seq 99999999999
expect batch_of_zero 2 '--gbs 0: a whole number' "${small[@]}" --gbs 0
expect no_gpu_at_all 2 '--gpus 0xH100: a count from 1' qwen3-30b-a3b --gpus 0xH100
expect half_a_cluster 2 '--gpus 16H100: write a count, x and a name' qwen3-30b-a3b --gpus 16H100
expect nobody_described_it 2 'H110.*did you mean H100' qwen3-30b-a3b --gpus 16xH110
expect model_misspelt 2 'nearest preset is deepseek-v3' deepseek-v4 --gpus 16xH100
expect pin_misspelt 2 "nearest known one is 'model.context_parallel_size'" "${small[@]}" --pin model.context_paralel_size=2
expect pin_of_nothing 2 '--pin: write a knob and its value' "${small[@]}" --pin
expect pin_without_value 2 '--pin model.context_parallel_size: write' "${small[@]}" --pin model.context_parallel_size
expect pin_of_a_word 2 'whole number' "${small[@]}" --pin model.context_parallel_size=two
expect unknown_precision 2 '--precision fp3: any' "${small[@]}" --precision fp3
expect unknown_stack 2 'moefold.stack=99.*26.08' "${small[@]}" --stack 99
expect skew_below_one 2 '--routing 0.5: .*1..1024' "${small[@]}" --routing 0.5
expect against_nothing 2 '--against nowhere.yaml: there is no such recipe' "${small[@]}" --against nowhere.yaml
expect against_another_model 2 'is a recipe of qwen3-30b-a3b, but the plan is for deepseek-v3' "${large[@]}" --against recipes/qwen3-30b-4k-h100.yaml

# ---- requests that no layout meets
expect pin_out_of_range 1 'context_parallel_size=0 is not allowed; the range is 1..65536; a repair: .*=1' "${small[@]}" --pin model.context_parallel_size=0
expect pin_below_zero 1 'context_parallel_size=-4 is not allowed' "${small[@]}" --pin=model.context_parallel_size=-4
expect pin_of_no_such_word 1 'alltoal is not allowed; one of allgather.alltoall.flex; a repair: .*=alltoall' "${small[@]}" --pin model.moe_token_dispatcher_type=alltoal
expect more_ep_than_experts 1 'expert_model_parallel_size=512 does not divide the 256 experts; a repair: .*=256' "${large[@]}" --pin model.expert_model_parallel_size=512
expect cp_that_splits_nothing 1 'not a multiple of 2 x CP = 2 x 3.*a repair: model.context_parallel_size=2' "${small[@]}" --pin model.context_parallel_size=3
expect pins_that_exclude_one_another 1 'overlap_moe_expert_parallel_comm=true cannot be combined with full recompute.*a repair: ' "${small[@]}" --pin model.recompute_granularity=full --pin comm_overlap.overlap_moe_expert_parallel_comm=true
expect chunks_without_stages 1 'virtual_pipeline_model_parallel_size=4 needs PP > 1' "${small[@]}" --pin model.virtual_pipeline_model_parallel_size=4 --pin model.pipeline_model_parallel_size=1
expect pins_too_large_together 1 'leave one of these pins out: model.tensor_model_parallel_size=4, model.context_parallel_size=8' "${small[@]}" --pin model.tensor_model_parallel_size=4 --pin model.context_parallel_size=8
expect batch_that_does_not_divide 1 'global_batch_size=100 is not a multiple of micro batch 1 x DP 97' deepseek-v3 --gpus 97xH100 --seq 4096 --gbs 100
expect batch_too_large 2 '--gbs 900000000: on 16 GPUs.*at most --gbs' qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 900000000
expect more_choices_than_experts 1 'model.moe_router_topk=9 is more than the 8 experts' tiny --gpus 8xH100 --seq 4096 --pin model.moe_router_topk=9
expect heads_that_do_not_divide 1 'does not divide the 7 attention heads' tiny --gpus 8xH100 --seq 4096 --pin model.num_attention_heads=7
expect empty_cluster 2 'such as 256xH100' qwen3-30b-a3b --gpus '' --seq 4096
expect odd_length 1 'model.seq_length=4097.*a repair: --seq 4104$' qwen3-30b-a3b --gpus 16xH100 --seq 4097 --pin train.micro_batch_size=1

# ---- requests that do not fit
fp8=(--pin mixed_precision=bf16_with_fp8_subchannel_scaling_mixed)
expect too_few_gpus 1 'Fewest +80 H100 are enough' deepseek-v3 --gpus 8xH100 --seq 4096 "${fp8[@]}"
expect nearest_miss 1 'needs .* GiB on its fullest rank, .* bytes .* more than is usable' deepseek-v3 --gpus 8xH100 --seq 4096 "${fp8[@]}"
expect fewest_is_exact 1 'Fewest +96 H100 are enough \(the smallest count of whole nodes\): .*--gpus 96xH100 --seq 131072 --gbs 64' deepseek-v3 --gpus 8xH100 --seq 131072 "${fp8[@]}"
expect fewest_does 0 'TP +CP.*EP' deepseek-v3 --gpus 96xH100 --seq 131072 --gbs 64
expect one_node_less_does_not 1 'nothing fits on 88 H100' deepseek-v3 --gpus 88xH100 --seq 131072 --gbs 64 "${fp8[@]}"
expect fewer_may_do_where_more_do_not 1 'Fewest +96 H100' deepseek-v3 --gpus 104xH100 --seq 131072 "${fp8[@]}"
expect fewest_has_a_layout 1 'DP [0-9]+, batch of 2080.*; a step of [1-9][0-9.]* s, .* on the fullest rank' deepseek-v3 --gpus 8xH100 --seq 4096 "${fp8[@]}"
ones=(--pin model.tensor_model_parallel_size=1 --pin model.context_parallel_size=1 --pin model.pipeline_model_parallel_size=1)
expect batch_that_would_not_divide 1 'DP 4, batch of 8, because 6 does not divide' qwen3-30b-a3b --gpus 2xH100 --seq 4096 --gbs 6 "${ones[@]}"
expect smallest_cluster_is_part_of_a_node 0 'holds this job: 4 H100' "${small[@]}" --more
expect json_has_fewest 0 '"fewest":.*"exact": ?true.*"global_batch_size": ?2048.*"gpus": ?4,|"fewest":.*"gpus": ?4,.*"exact": ?true' "${small[@]}" --json --more
bare=(--pin model.recompute_granularity=null --pin model.tensor_model_parallel_size=1 --pin model.context_parallel_size=1)
expect fewest_with_other_factors 1 'Fewest +24 H100 are enough' qwen3-30b-a3b --gpus 8xH100 --seq 14336 "${bare[@]}"
expect miss_is_to_the_byte 1 'needs 92.08 GiB on its fullest rank, 18,184,715,835 bytes' qwen3-30b-a3b --gpus 8xH100 --seq 14336 "${bare[@]}"
expect offload_fits_where_nothing_did 1 'Offload +fits on these GPUs: .*expert_fc1,moe_act' qwen3-30b-a3b --gpus 8xH100 --seq 16384 "${bare[@]}"
expect offload_cannot_help_weights 1 'Offload +activation offload does not make it fit' deepseek-v3 --gpus 8xH100 --seq 4096 "${fp8[@]}"
# ---- that nothing fits is true, and what was left for it is said
expect weights_are_left 0 'Nothing fits with weights in FP8 .*: weights in 16 bits' gpt-oss-120b --gpus 8xB200 --seq 8K
expect weights_are_named 0 'optimizer on the host.*, weights in 16 bits' gpt-oss-120b --gpus 8xB200 --seq 8K
expect formats_are_left 1 "platform's number format: all formats were searched" qwen3-30b-a3b --gpus 1xH100 --seq 128K --gbs 1
expect no_format_is_the_platforms 0 'Precision: .* \(the first of all that were searched\)' qwen3-30b-a3b --gpus 8xB200 --seq 4096 --gbs 64 \
    --precision any
expect three_gpus 1 'nothing fits on 3 H100' deepseek-v3 --gpus 3xH100 --seq 4096
expect nothing_fits_json 1 '"fits": ?false' deepseek-v3 --gpus 8xH100 --seq 4096 --json
expect json_counts_every_kind 1 '"played": ?[0-9]+,.*"seconds": ?[0-9]+\.' deepseek-v3 --gpus 8xH100 --seq 4096 --json

# ---- activations on the host, and the front
expect offload_is_tried_after_recompute 0 'variants were tried on the layouts of the list' "${small[@]}" --more
expect offload_that_is_faster_is_said 0 '[1-9][0-9.]* % shorter, .* GiB on each GPU.s host: TP' deepseek-v3 --gpus 256xH100 --seq 131072 --more
expect no_offload_where_nothing_is_made_again 0 '"activation_offload": ?null' qwen3-30b-a3b --gpus 64xGB200 --seq 4096 --json --more \
    --pin model.recompute_granularity=null --pin optimizer.optimizer_cpu_offload=false
expect asked_offload_is_not_tried 0 '"activation_offload": ?null' "${small[@]}" --pin model.fine_grained_activation_offloading=true --pin 'model.offload_modules=[moe_act]' --json --more
expect front_goes_down_to_40_percent 0 '[0-9] s +4[4-9]\.[0-9]+ GiB free' "${small[@]}" --more

# ---- a recipe beside its plan
own=recipes/qwen3-30b-4k-h100.yaml
expect against_is_the_job 0 '^Plan +qwen3-30b-a3b on 16 H100, sequence length 4,096, global batch 1,024 \(recipes' --against $own
expect against_has_a_place 0 'It ranks (as number|below)' --against $own
expect against_has_a_path 0 'changes that lead from it to the first' qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 1024 --against $own
expect against_says_what_fell 0 '(launches|communication|attention) [-+][0-9.]+ s' --against $own
expect against_what_cannot_be_built 1 'no program can be built: ' --against $own --gpus 1xH100
expect against_what_does_not_fit 0 'it does not fit, by .*' --against $own --seq 16384 --gbs 256
for key in place path moved violations same_sizes fits; do
    expect "json_against_has_$key" 0 "\"against\".*\"$key\":" --against $own --json
done
expect pins_hold_beside_a_recipe 0 'TP +CP.*EP' --against $own --pin model.expert_model_parallel_size=8
expect pinned_graphs_are_kept 0 'graphs:' "${small[@]}" --pin model.cuda_graph_impl=transformer_engine --pin 'model.cuda_graph_modules=[moe_router]'
expect lost_pins_are_named 0 'not kept by the search: model.recompute_method' "${small[@]}" --pin model.recompute_granularity=full --pin model.recompute_method=block --pin model.recompute_num_layers=4
expect recipe_carries_pins 0 'on 16 H100, sequence length 4,096, global batch 1,024' $own

# ---- a system's own defaults that no layout can have
expect broken_defaults_are_repaired_and_listed 0 '^ +ddp.use_distributed_optimizer=true$' qwen3-30b-a3b --gpus 16xB200 --seq 4096 moefold.system=megatron-lm

# ---- the winner against its own plan
"$moefold" plan --everything "${small[@]}" --out "$work/best.yaml" >/dev/null
expect winner_stands_first 0 'It ranks as number 1 of the list' --against "$work/best.yaml"
exit $failed
