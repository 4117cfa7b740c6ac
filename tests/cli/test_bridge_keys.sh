#!/usr/bin/env bash
# Megatron-Bridge: every key that its recipes set is known here (tests/data/bridge_keys.txt lists them), --with reads override
# files, and what is exported are keys that its configuration has. Where MEGATRON_BRIDGE names a checkout (and MEGATRON_LM one
# of Megatron-LM, whose classes it inherits), list and exports are compared with it; with Hydra, Hydra takes them.
. tests/cli/saying.sh

# ---- keys
known() { # NAME KEYS
    sed 's/$/: null/' "$2" >"$work/keys.yaml"
    expect "$1" 0 'valid' "$moefold" check tiny cluster.gpu=cpu --with "$work/keys.yaml"
}
known keys_of_bridge_recipes tests/data/bridge_keys.txt
expect idle_key_is_noted 0 'model.apply_rope_fusion: .*no effect' "$moefold" check tiny model.apply_rope_fusion=true
expect idle_key_takes_any_value 0 'valid' "$moefold" check tiny 'model.quant_recipe={a:[1,2]}' ft.enable_ft_package=true
expect environment_is_noted 0 'env_vars.NCCL_DEBUG' "$moefold" check tiny env_vars.NCCL_DEBUG=INFO
expect unknown_key_is_still_an_error 2 'unknown knob' "$moefold" check tiny model.apply_rope_fusoin=true
expect second_copy_counts 0 'mixed_precision.fp8  *hybrid' "$moefold" show deepseek-v3 model.fp8=hybrid
expect second_copies_must_agree 1 'aliases-agree' "$moefold" check deepseek-v3 mixed_precision.fp8=hybrid model.fp8=e4m3
expect object_sets_its_fields 0 'comm_overlap.tp_comm_overlap  *true' "$moefold" show tiny \
    '++comm_overlap={_target_:a.b.C,tp_comm_overlap:true}'
expect open_object 2 'is not an object' "$moefold" check tiny 'comm_overlap={tp_comm_overlap:true'
deep=$(printf '{b:%.0s' $(seq 500))
expect deep_object 2 'a key of' "$moefold" check tiny "comm_overlap=$deep"

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
expect with_names_itself 2 "--with $work/c.yaml: there is no such file; the nearest is $work/[ab].yaml" "$moefold" check tiny --with "$work/c.yaml"
expect with_says_what_it_wants 2 "--with nowhere: there is no such file; name a YAML file" "$moefold" check tiny --with nowhere
expect later_file_wins 0 "tensor_model_parallel_size  *4  *$work/b.yaml:1" "${with[@]}"
expect earlier_file_stays 0 "global_batch_size  *64  *$work/a.yaml:4" "${with[@]}"
expect command_line_wins_over_files 0 'global_batch_size  *128  *command line' "${with[@]}" train.global_batch_size=128
expect missing_override_file 2 'nowhere.yaml' "$moefold" check tiny --with nowhere.yaml
expect with_needs_a_file 2 'needs FILE' "$moefold" check tiny --with

# ---- against a checkout
if [ ! -d "${MEGATRON_BRIDGE:-}/src/megatron/bridge" ] || [ ! -d "${MEGATRON_LM:-}/megatron" ]; then
    echo "ok exports_have_keys_of_bridge # skip: MEGATRON_BRIDGE and MEGATRON_LM name no checkouts"
    exit $failed
fi
python=${MEGATRON_PYTHON:-python3}
"$python" tests/cli/bridge_keys.py set "$MEGATRON_BRIDGE" >"$work/set.txt"
"$python" tests/cli/bridge_keys.py fields "$MEGATRON_BRIDGE" "$MEGATRON_LM" >"$work/fields.txt"
known keys_of_this_checkout "$work/set.txt"
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
