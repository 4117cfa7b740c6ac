# Where each family's step goes, operation by operation: a few layers of every preset's family, forward and backward, with the work
# of Megatron's runs as in speed.sh. Every operation of a traced step stands beside what its bytes or its predicted products allow; one
# above 1 % of the step that reaches less than half of that is a finding. families.tsv has them; families-*.txt every operation.
# FAMILIES_ONLY, a word of names, runs these alone; FAMILIES_SHAPES names the shapes.
common=(cluster.gpu=H200 cluster.n_gpus=1 optimizer.optimizer=none optimizer.clip_grad=0 model.moe_router_load_balancing_type=none
    model.moe_router_force_load_balancing=true moefold.mock_data=true moefold.target=moefold model.mtp_num_layers=0)
dense_common=(cluster.gpu=H200 cluster.n_gpus=1 optimizer.optimizer=none optimizer.clip_grad=0 moefold.mock_data=true moefold.target=moefold)

family() { # NAME WORDS...: both shapes
    local name=$1 shape samples length log=$work/log ms
    shift
    case $name in *"${FAMILIES_ONLY:-}"*) ;; *) return ;; esac
    for shape in ${FAMILIES_SHAPES:-8x4096 1x32768}; do
        samples=${shape%x*} length=${shape#*x}
        # shellcheck disable=SC2206
        local words=("$@" train.micro_batch_size=$samples train.global_batch_size=$samples model.seq_length=$length
            model.max_position_embeddings=32768)
        "$moefold" price "${words[@]}" --whole-step --trace "$work/predicted.json" >"$work/price" 2>&1 || tail -2 "$work/price"
        if ! timeout 90 "$moefold" train "${words[@]}" moefold.device=cuda train.train_iters=8 logger.log_interval=1 --metrics "$work/m" \
            --trace "$work/measured.json" --trace-steps 7-8 >"$log" 2>&1; then
            say "$name, $shape" "$(tail -1 "$log" | cut -c1-160)" "runs" no
            continue
        fi
        ms=$(each elapsed_ms <"$work/m" | sed '1d;7,8d' | median)
        rm -f "$work/m"
        python3 "$here/families.py" "$name, $shape" "$ms" "$work/predicted.json" "$work/measured.json" \
            >"$dir/families-$(tr -cs 'a-zA-Z0-9.\n' - <<<"$name-$shape").txt" 2>"$work/err" || tail -1 "$work/err"
        while IFS=$'\t' read -r what seen asked fine; do say "$what" "$seen" "$asked" "$fine"; done \
            < <(sed -n 's/^row\t//p' "$dir/families-$(tr -cs 'a-zA-Z0-9.\n' - <<<"$name-$shape").txt")
    done
}

family "Qwen3-30B" qwen3-30b-a3b model.num_layers=4 "${common[@]}"
family "Qwen3-Next" qwen3-next-80b-a3b model.num_layers=4 model.num_moe_experts=128 "${common[@]}"
family "gpt-oss-20b" gpt-oss-20b model.num_layers=4 "${common[@]}"
family "Mixtral-8x7B" mixtral-8x7b model.num_layers=2 "${common[@]}"
family "DeepSeek-V3" deepseek-v3 model.num_layers=2 'model.moe_layer_freq=[0,1]' model.num_moe_experts=32 model.moe_router_num_groups=null \
    model.moe_router_group_topk=null "${common[@]}"
family "Kimi-K2" kimi-k2 model.num_layers=2 'model.moe_layer_freq=[0,1]' model.num_moe_experts=48 "${common[@]}"
family "DeepSeek-V2-Lite" deepseek-v2-lite model.num_layers=4 'model.moe_layer_freq=[0,1,1,1]' "${common[@]}"
family "Moonlight" moonlight-16b model.num_layers=4 'model.moe_layer_freq=[0,1,1,1]' "${common[@]}"
family "GLM-4.5-Air" glm-4.5-air model.num_layers=3 'model.moe_layer_freq=[0,1,1]' "${common[@]}"
family "MiniMax-M2" minimax-m2 model.num_layers=2 "${common[@]}"
family "OLMoE" olmoe-1b-7b model.num_layers=4 "${common[@]}"
family "Qwen2-57B" qwen2-57b-a14b model.num_layers=3 "${common[@]}"
family "Qwen1.5-MoE" qwen1.5-moe-a2.7b model.num_layers=4 "${common[@]}"
family "Llama-3.1-8B" llama-3.1-8b model.num_layers=4 "${dense_common[@]}"
family "Qwen2.5-7B" qwen2.5-7b model.num_layers=4 "${dense_common[@]}"
family "Qwen3-0.6B" qwen3-0.6b model.num_layers=8 "${dense_common[@]}"
family "Starcoder2-7B" starcoder2-7b model.num_layers=4 "${dense_common[@]}"
