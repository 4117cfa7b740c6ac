#!/usr/bin/env bash
# GPT models with LayerNorm, MLPs without a gate, biases and learned positions: checked, planned, priced and trained.
. tests/cli/saying.sh
field() { python3 -c "import json,sys; d=json.load(sys.stdin); print(d$1)" 2>/dev/null; }
last() { python3 -c "
import json, sys
lines = [json.loads(l) for l in sys.stdin if l.startswith('{')]
print([l['losses']['lm loss'] for l in lines if l.get('event') == 'iteration'][-1])"; }
near() { awk "BEGIN { d = $1 - $2; exit !(d < 2e-4 && d > -2e-4) }"; }

gpt=(model.normalization=LayerNorm model.gated_linear_unit=false model.activation_func=gelu model.add_bias_linear=true
    model.position_embedding_type=learned_absolute)

# ---- a Megatron-LM argument list with that system's defaults: LayerNorm, gelu, biases, learned positions
cat >"$work/gpt.txt" <<'END'
--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048
--vocab-size 50257 --micro-batch-size 2 --global-batch-size 256 --train-iters 100 --lr 1e-4 --bf16
--tensor-model-parallel-size 2 --attention-dropout 0.0 --hidden-dropout 0.0 --tokenizer-type NullTokenizer
--position-embedding-type learned_absolute --no-rope-fusion --mock-data
END
"$moefold" check --everything --from-megatron "$work/gpt.txt" cluster.gpu=H100 cluster.n_gpus=16 --json >"$work/check.json" 2>"$work/err"
check list_is_valid [ "$(field "['ok']" <"$work/check.json")" = True ]
# 24 layers of 12 h^2 + 13 h, embedding (padded by TP x 128) and positions, the last norm
check list_has_its_weights [ "$(field "['model']['parameters']" <"$work/check.json")" = \
    $((24 * (12 * 2048 * 2048 + 13 * 2048) + 50432 * 2048 + 2048 * 2048 + 2 * 2048)) ]
"$moefold" price --from-megatron "$work/gpt.txt" cluster.gpu=H100 cluster.n_gpus=16 --json >"$work/price.json" 2>"$work/err"
check list_is_priced awk "BEGIN { exit !($(field "['step_s']" <"$work/price.json" || echo 0) > 0) }"

# ---- presets and MoE: checked, priced, planned; half the MLP's first matrix is half its FLOPs
"$moefold" check --everything gpt3-175b cluster.n_gpus=64 model.tensor_model_parallel_size=8 model.pipeline_model_parallel_size=8 --json \
    >"$work/check.json" 2>/dev/null
check gpt3_has_its_weights [ "$(field "['model']['parameters']" <"$work/check.json")" = 174615846912 ]
"$moefold" price mixtral-8x7b "${gpt[@]}" cluster.n_gpus=64 model.expert_model_parallel_size=8 --json >"$work/price.json" 2>/dev/null
check moe_is_priced awk "BEGIN { exit !($(field "['step_s']" <"$work/price.json" || echo 0) > 0) }"
"$moefold" plan --everything starcoder2-15b --gpus 32xH100 --seq 4096 --json >"$work/plan.json" 2>/dev/null
check plan_finds_a_winner grep -q '"step_s"' "$work/plan.json"
"$moefold" plan --everything gpt3-175b --gpus 128xH100 --seq 2048 --json >"$work/plan.json" 2>/dev/null
check plan_of_gpt3_finds_a_winner grep -q '"step_s"' "$work/plan.json"
expect every_rank_is_proved 0 'all ranks agree' "$moefold" check --everything gpt3-175b cluster.n_gpus=64 model.tensor_model_parallel_size=8 \
    model.pipeline_model_parallel_size=8 model.context_parallel_size=1 --all-ranks
expect mrope_is_refused 1 'mrope' "$moefold" check --everything tiny model.position_embedding_type=mrope
expect short_table_is_refused 1 'positions-cover-sequence' "$moefold" train tiny cluster.gpu=cpu "${gpt[@]}" \
    model.seq_length=64 model.max_position_embeddings=32 train.train_iters=1

# ---- trained: layouts change who computes what, not what is computed
small=(tiny cluster.gpu=cpu "${gpt[@]}" model.seq_length=64 model.max_position_embeddings=64 model.num_layers=2
    train.micro_batch_size=1 train.global_batch_size=4 optimizer.lr=3e-3 train.train_iters=6 moefold.moe_buffer_factor=8
    model.qk_layernorm=false --json)
for kind in moe dense; do
    words=(model.expert_tensor_parallel_size=1)
    [ $kind = dense ] && words=(model.num_moe_experts=null)
    one=$("$moefold" train "${small[@]}" "${words[@]}" 2>/dev/null | last)
    check "${kind}_learns" awk "BEGIN { exit !($one < 6.9) }"
    for layout in tensor_model_parallel_size context_parallel_size pipeline_model_parallel_size; do
        two=$("$moefold" train "${small[@]}" "${words[@]}" "model.$layout=2" --ranks 2 2>/dev/null | last)
        check "${kind}_$layout" near "$one" "$two"
    done
    full=$("$moefold" train "${small[@]}" "${words[@]}" model.recompute_granularity=full model.recompute_method=uniform \
        model.recompute_num_layers=1 2>/dev/null | last)
    check "${kind}_recompute" near "$one" "$full"
done
without positions_matter "lm loss\": $one," "$moefold" train "${small[@]}" "${words[@]}" model.position_embedding_type=none
exit $failed
