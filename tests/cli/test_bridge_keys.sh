#!/usr/bin/env bash
# Megatron-Bridge: every key that its recipes set is known here (tests/data/bridge_keys.txt lists them), --with reads override
# files, and what is exported are keys that its configuration has. Where MEGATRON_BRIDGE names a checkout (and MEGATRON_LM one
# of Megatron-LM, whose classes it inherits), list and exports are compared with it; with Hydra, Hydra takes them.
. tests/cli/saying.sh

# ---- keys
known() { # NAME KEYS
    sed 's/$/: null/' "$2" >"$work/keys.yaml"
    expect "$1" 0 'valid' "$moefold" check --everything tiny cluster.gpu=cpu --with "$work/keys.yaml"
}
known keys_of_bridge_recipes tests/data/bridge_keys.txt
expect idle_key_is_noted 0 'model.apply_rope_fusion: .*no effect' "$moefold" check --everything tiny model.apply_rope_fusion=true
expect idle_key_takes_any_value 0 'valid' "$moefold" check --everything tiny 'model.quant_recipe={a:[1,2]}' ft.enable_ft_package=true
expect environment_is_noted 0 'env_vars.NCCL_DEBUG' "$moefold" check --everything tiny env_vars.NCCL_DEBUG=INFO
expect unknown_key_is_still_an_error 2 'unknown knob' "$moefold" check --everything tiny model.apply_rope_fusoin=true
expect second_copy_counts 0 'mixed_precision.fp8  *hybrid' "$moefold" show deepseek-v3 model.fp8=hybrid

# ---- two copies that differ: what Bridge does with them
expect precision_section_counts 0 'model.fp8=e4m3 .* has no effect: Megatron-Bridge takes mixed_precision.fp8=hybrid' \
    "$moefold" check --everything tiny mixed_precision.fp8=hybrid model.fp8=e4m3
expect overlap_section_counts 0 'ddp.overlap_grad_reduce  *false ' "$moefold" show tiny --gpus 8xH100 \
    ddp.overlap_grad_reduce=true comm_overlap.overlap_grad_reduce=false ddp.overlap_param_gather=false
expect either_turns_on 0 'ddp.use_distributed_optimizer  *true ' "$moefold" show tiny \
    ddp.use_distributed_optimizer=false optimizer.use_distributed_optimizer=true
expect named_precision_counts 0 'mixed_precision.grad_reduce_in_fp32  *true ' "$moefold" show tiny \
    mixed_precision=bf16_mixed ddp.grad_reduce_in_fp32=false
expect repairs_name_the_key_that_counts 1 'repair: *comm_overlap.overlap_param_gather=false' "$moefold" check --everything tiny --gpus 8xH100 \
    comm_overlap.overlap_param_gather=true ddp.use_distributed_optimizer=false
expect lengths_must_agree 1 'aliases-agree' "$moefold" check --everything deepseek-v3 seq=8K dataset.seq_length=4096

# ---- old words
expect full_scope_is_whole_layers 0 'read as \[\] .whole layers' "$moefold" check --everything tiny model.cuda_graph_scope=full
expect full_iteration_is_a_kind 0 'model.cuda_graph_impl  *full_iteration' "$moefold" show tiny --gpus 1xH100 model.num_moe_experts=null \
    model.cuda_graph_impl=local model.cuda_graph_scope=full_iteration rerun_state_machine.check_for_nan_in_loss=false
expect stages_in_lists 0 'model.pipeline_model_parallel_layout  *Et|t|t\*2L' "$moefold" show tiny --gpus 3xH100 pp=3 \
    'model.pipeline_model_parallel_layout=[[embedding,decoder],[decoder],[decoder,decoder,loss]]'
expect interval_zero_is_none 0 'validation.eval_interval  *null' "$moefold" show tiny validation.eval_interval=0

# ---- what has no effect changes no price
price() { "$moefold" price --json "$@" | grep -oE '"(step_s|peak_bytes|tokens_per_s_per_gpu)":[0-9.e+-]+' | head -3; }
without_effect() { # BASE then KEY=VALUE...: each is accepted and changes nothing
    local base key plain
    read -ra base <<<"$1"
    plain=$(price "${base[@]}")
    for key in "${@:2}"; do
        check "no_effect_${key%%=*}" [ -n "$plain" -a "$plain" = "$(price "${base[@]}" "$key")" ]
    done
}
without_effect 'qwen3-30b-a3b --gpus 16xH100 ep=8 cp=2 gbs=64' model.moe_flex_dispatcher_backend=hybridep \
    'model.cuda_graph_modules=[attn]' 'model.hierarchical_context_parallel_sizes=[2,1]' mixed_precision.fp8_recipe=mxfp8 \
    'model.recompute_modules=[moe_act]' model.recompute_method=block 'model.offload_modules=[moe_act]' \
    optimizer.optimizer_offload_fraction=0.5 model.moe_router_num_groups=8 comm_overlap.tp_comm_overlap=true
without_effect 'llama-3.1-8b --gpus 8xH100 tp=2 gbs=8 model.sequence_parallel=false' comm_overlap.tp_comm_overlap=true
expect object_sets_its_fields 0 'comm_overlap.tp_comm_overlap  *true' "$moefold" show tiny \
    '++comm_overlap={_target_:a.b.C,tp_comm_overlap:true}'
expect open_object 2 'is not an object' "$moefold" check --everything tiny 'comm_overlap={tp_comm_overlap:true'
deep=$(printf '{b:%.0s' $(seq 500))
expect deep_object 2 'a key of' "$moefold" check --everything tiny "comm_overlap=$deep"

# ---- --with
cat >"$work/a.yaml" <<'Y'
model:
  tensor_model_parallel_size: 2
  attention_backend: flash
train: {global_batch_size: 64}
ft: null
dataset:
  hf_dataset: {split: train, files: [{a: 1}]}
Y
echo 'model.tensor_model_parallel_size: 4' >"$work/b.yaml"
with=("$moefold" show tiny cluster.n_gpus=8 --with "$work/a.yaml" --with="$work/b.yaml")
expect with_names_itself 2 "--with $work/c.yaml: there is no such file; the nearest is $work/[ab].yaml" "$moefold" check --everything tiny --with "$work/c.yaml"
expect with_says_what_it_wants 2 "--with nowhere: there is no such file; name a YAML file" "$moefold" check --everything tiny --with nowhere
expect later_file_wins 0 "tensor_model_parallel_size  *4  *$work/b.yaml:1" "${with[@]}"
expect earlier_file_stays 0 "global_batch_size  *64  *$work/a.yaml:4" "${with[@]}"
expect command_line_wins_over_files 0 'global_batch_size  *128  *command line' "${with[@]}" train.global_batch_size=128
expect missing_override_file 2 'nowhere.yaml' "$moefold" check --everything tiny --with nowhere.yaml
expect with_needs_a_file 2 'needs FILE' "$moefold" check --everything tiny --with

# ---- against a checkout
if [ ! -d "${MEGATRON_BRIDGE:-}/src/megatron/bridge" ] || [ ! -d "${MEGATRON_LM:-}/megatron" ]; then
    echo "ok exports_have_keys_of_bridge # skip: MEGATRON_BRIDGE and MEGATRON_LM name no checkouts"
    exit $failed
fi
python=${MEGATRON_PYTHON:-python3}
"$python" tests/cli/bridge_keys.py set "$MEGATRON_BRIDGE" >"$work/set.txt"
"$python" tests/cli/bridge_keys.py fields "$MEGATRON_BRIDGE" "$MEGATRON_LM" >"$work/fields.txt"
known keys_of_this_checkout "$work/set.txt"
tools/megatron-options "$MEGATRON_LM" "$MEGATRON_BRIDGE" >"$work/options.txt"
check options_of_these_checkouts_are_in_the_table [ "$(grep -vc ' other versions$' "$work/options.txt")" = 0 ]
known fields_of_this_checkout <(grep -v '^model.bf16\|^model.fp16' "$work/fields.txt")
mkdir "$work/exports"
for recipe in recipes/*.yaml $("$moefold" show --presets); do
    name=$(basename "$recipe" .yaml)
    "$moefold" show "$recipe" --as megatron-bridge >"$work/exports/$name.txt" 2>"$work/err" && continue
    rm "$work/exports/$name.txt"
    check "refused_$name" grep -q 'cannot be written for Megatron-Bridge' "$work/err"
done
"$python" tests/cli/bridge_takes.py "$work/fields.txt" "$work"/exports/*.txt >"$work/said" || failed=1
sed "s|$work/||" "$work/said"
exit $failed
