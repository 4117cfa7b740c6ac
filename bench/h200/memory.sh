# Planned bytes beside those that two steps touch, under forced balance: reference cases, and the shapes of the speed part.
even=(model.moe_router_force_load_balancing=true cluster.n_gpus=1 moefold.device=cuda train.train_iters=1 --touched --json)

touched() { # NAME WORDS...
    local name=$1 code
    shift
    timeout 100 "$moefold" train "$@" "${even[@]}" >"$work/json" 2>"$work/err"
    code=$?
    say_if "$name: bytes touched of planned; workspace; outside" \
        "$(figure touched_bytes <"$work/json") of $(figure planned_bytes <"$work/json"); $(figure workspace_touched_bytes <"$work/json") of $(figure workspace_planned_bytes <"$work/json"); $(figure outside_bytes <"$work/json")" \
        "equal; at most; 0" [ $code -eq 0 ]
    [ $code -eq 0 ] || tail -2 "$work/err"
}

for folder in "$golden"/*-tiny; do
    words=(model.seq_length=64 train.global_batch_size=2 train.micro_batch_size=1)
    case $folder in */mixtral-options-tiny) words+=(model.max_position_embeddings=64) ;; esac # its config has 16
    touched "$(basename "$folder" -tiny), BF16" "$folder" cluster.gpu=H200 "${words[@]}"
done
large=(cluster.gpu=H200 moefold.mock_data=true optimizer.optimizer=none)
qwen=(qwen3-30b-a3b model.num_layers=4 "${large[@]}")
touched "Qwen3-30B-A3B shape, 4 layers, 8x4096" "${qwen[@]}" train.micro_batch_size=8 train.global_batch_size=8 model.seq_length=4096
touched "the same, 1x32768" "${qwen[@]}" train.micro_batch_size=1 train.global_batch_size=1 model.seq_length=32768
touched "DeepSeek-V3 widths, 4x4096" deepseek-v3 model.num_layers=3 'model.moe_layer_freq=[0,1,1]' model.num_moe_experts=32 \
    model.mtp_num_layers=0 model.moe_router_num_groups=null model.moe_router_group_topk=null "${large[@]}" train.micro_batch_size=4 \
    train.global_batch_size=4 model.seq_length=4096
