#!/usr/bin/env bash
# A model as people name it: a path to a config.json, a name on the hub, a preset, in every command that takes a recipe.
. tests/cli/saying.sh
golden=tests/data/golden
parameters() { grep -oE '"parameters":[0-9]+' | head -1 | cut -d: -f2; }

# ---- spellings
check hub_name_is_the_preset [ "$("$moefold" check --everything deepseek-ai/DeepSeek-V3 cluster.n_gpus=256 --json | parameters)" = 671026404352 ]
check any_case [ "$("$moefold" check --everything QWEN/qwen3-30b-A3B --json | parameters)" = "$("$moefold" check --everything qwen3-30b-a3b --json | parameters)" ]
expect path_to_a_file 0 'olmoe-tiny/config.json: valid' "$moefold" check --everything $golden/olmoe-tiny/config.json cluster.gpu=cpu model.seq_length=32
expect length_of_a_short_model 0 'model.seq_length +64 +unset: the longest' "$moefold" show $golden/olmoe-tiny cluster.gpu=cpu
expect folder 0 'olmoe-tiny: valid' "$moefold" check --everything $golden/olmoe-tiny cluster.gpu=cpu model.seq_length=32
cp $golden/glm4-moe-tiny/config.json "$work/my-model.json"
expect file_of_another_name 0 'my-model.json: valid' "$moefold" check --everything "$work/my-model.json" cluster.gpu=cpu model.seq_length=32
printf 'moefold:\n  model: my-model.json\nmodel:\n  seq_length: 32\ncluster:\n  gpu: cpu\n' >"$work/recipe.yaml"
expect beside_a_recipe 0 'valid' "$moefold" check --everything "$work/recipe.yaml"
mkdir -p "$work/zai-org/GLM-4.5"
cp $golden/glm4-moe-tiny/config.json "$work/zai-org/GLM-4.5/"
check a_path_wins [ "$(cd "$work" && "$moefold" check --everything zai-org/GLM-4.5 cluster.gpu=cpu --json | parameters)" -lt 100000 ]

# ---- every command
expect show 0 'model.num_layers +92' "$moefold" show zai-org/GLM-4.5
expect show_params 0 'q_layernorm' "$moefold" show allenai/OLMoE-1B-7B-0924 --params
expect plan 0 'glm-4.5-air|GLM-4.5-Air' "$moefold" plan --everything zai-org/GLM-4.5-Air --gpus 64xH100 --seq 4096
expect plan_dense 0 'llama-3-8b' "$moefold" plan --everything llama-3-8b --gpus 16xH100 --seq 8192
expect price 0 'tokens/s' "$moefold" price --everything deepseek-ai/DeepSeek-V2-Lite cluster.n_gpus=8 model.expert_model_parallel_size=8
expect train_from_a_file 0 'done after 2 steps' "$moefold" train $golden/deepseek-v2-tiny/config.json cluster.gpu=cpu \
    model.seq_length=32 train.global_batch_size=2 train.train_iters=2
for case in deepseek-v2 deepseek-v2-lite glm4-moe qwen2-moe olmoe minimax-m2 qwen3 qwen2 llama mistral starcoder2; do
    expect "parity_$case" 0 'agrees' "$moefold" parity "$golden/$case-tiny"
done

# ---- what is missing is named
expect sparse_attention 2 'DeepSeek-V3.2-Exp: .*sparse attention \(DSA\)' "$moefold" check --everything deepseek-ai/DeepSeek-V3.2-Exp
expect chunked_attention 2 'chunked attention' "$moefold" plan --everything meta-llama/Llama-4-Scout-17B-16E --gpus 8xH100 --seq 4096
printf '{"model_type": "llama4"}' >"$work/config.json"
expect chunked_attention_in_a_file 2 'config.json: model_type is "llama4".*chunked attention' "$moefold" check --everything "$work/config.json"
{ printf '\xef\xbb\xbf' && cat $golden/mixtral-tiny/config.json; } >"$work/config.json"
expect byte_order_mark 0 'valid' "$moefold" check --everything "$work/config.json"
: >"$work/config.json"
expect empty_file 2 'config.json:1:1: the file is empty' "$moefold" check --everything "$work/config.json"
sed 's/{/{"use_mtp": true, "num_mtp_modules": 3,/' $golden/minimax-m2-tiny/config.json >"$work/config.json"
expect prediction_modules_of_minimax 0 'num_mtp_modules is 3 but no weights are beside it: left out' "$moefold" check --everything "$work/config.json"
sed 's/"router_aux_loss_coef": 0.0/"router_aux_loss_coef": 0.9/' $golden/gpt-oss-tiny/config.json >"$work/config.json"
expect numbers_as_they_are_written 0 'router_aux_loss_coef 0.9 is not used' "$moefold" check --everything "$work/config.json"
# a beginning that one preset has means it, and that is said; of several all are named
expect a_beginning_is_a_preset 0 '^qwen3-30b is read as qwen3-30b-a3b' "$moefold" show qwen3-30b --gpus 16xH100
check and_is_the_same_model [ "$("$moefold" check --everything qwen3-30b cluster.n_gpus=16 --json 2>/dev/null | parameters)" = \
    "$("$moefold" check --everything qwen3-30b-a3b cluster.n_gpus=16 --json | parameters)" ]
expect several_are_named 2 'presets that begin so are mixtral-8x7b or mixtral-8x22b$' "$moefold" check --everything mixtral
expect in_a_file_names_are_whole 2 'moefold.model=qwen3-30b: .*the nearest preset is qwen3-30b-a3b;' "$moefold" check --everything tiny moefold.model=qwen3-30b
expect a_begun_command_is_named 2 'did you mean profile' "$moefold" prof
expect of_two_commands_both 2 'did you mean trace or train' "$moefold" tra
expect a_begun_option_is_named 2 'did you mean --all-ranks' "$moefold" check --everything tiny --all-r
expect gpus_are_named_only 2 'did you mean GB200' "$moefold" plan --everything tiny --gpus 8xGB2 --seq 4K
expect nearest_preset 2 'glm-4.5' "$moefold" check --everything glm-4.55
expect norm_over_tp_ranks 1 'whole-qk-norm-fits-tp' "$moefold" check --everything $golden/minimax-m2-tiny cluster.gpu=cpu \
    model.tensor_model_parallel_size=4 model.expert_tensor_parallel_size=1 cluster.n_gpus=4

# ---- what Megatron does otherwise is said
expect group_score_is_megatrons 0 'moe_router_group_score +megatron +Megatron scores a group' "$moefold" show deepseek-v2
expect group_score_is_the_models 0 'moe_router_group_score +best +preset' "$moefold" show deepseek-v2 cluster.gpu=cpu
expect group_score_of_the_user 1 'target-can-run' "$moefold" check --everything deepseek-v2 moefold.moe_router_group_score=best
expect whole_norm_has_no_flag 1 'qk_norm_whole=true .*head by head' "$moefold" show olmoe-1b-7b --as megatron-lm
expect llama_rope_has_its_flags 0 '--use-rope-scaling' "$moefold" show llama-3.1-8b --as megatron-lm
exit $failed
