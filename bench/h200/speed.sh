# Forward and backward of the shapes for which Megatron's times on such a GPU are known: step, TFLOP/s, arena, the share of each
# kind of operation, the prediction; planned bytes and touched bytes. The work is that of Megatron's runs: main gradients in FP32, no
# optimizer, no norm of the gradient (no clipping) and no load-balancing loss.
common=(cluster.gpu=H200 cluster.n_gpus=1 optimizer.optimizer=none optimizer.clip_grad=0 model.moe_router_load_balancing_type=none
    model.moe_router_force_load_balancing=true moefold.mock_data=true moefold.target=moefold)
qwen=(qwen3-30b-a3b model.num_layers=4)
deepseek=(deepseek-v3 model.num_layers=3 'model.moe_layer_freq=[0,1,1]' model.num_moe_experts=32 model.mtp_num_layers=0
    model.moe_router_num_groups=null model.moe_router_group_topk=null)

batch() { echo "train.micro_batch_size=$1 train.global_batch_size=$1 model.seq_length=$2"; }

# shares: of the times by kind that `train --predict` ends with, each measured one as a part of the step
shares() {
    awk '/^seconds a step/ {on = 1; next} !on || NF < 3 {next} {t = $NF; $NF = ""; $(NF - 1) = ""; sub(/ +$/, "")}
        $0 == "step" {for (i = 1; i <= n; i++) printf("%s%s %.1f", i > 1 ? ", " : "", name[i], 100 * part[i] / t); exit}
        {name[++n] = $0; part[n] = t}'
}

# speed NAME MEGATRON_MS SAMPLES LENGTH WORDS...: one run of 14 steps; the first does not count.
speed() {
    local name=$1 theirs=$2 samples=$3 length=$4 ms least predicted log=$work/log
    shift 4
    # shellcheck disable=SC2046
    set -- "$@" "${common[@]}" $(batch "$samples" "$length")
    predicted=$("$moefold" price "$@" --json 2>"$work/err" | figure step_s)
    "$moefold" train "$@" moefold.device=cuda train.train_iters=14 logger.log_interval=1 --predict --metrics "$work/m" \
        >"$log" 2>&1 || tail -3 "$log"
    ms=$(each elapsed_ms <"$work/m" | tail -n +2 | median)
    least=$(each elapsed_ms <"$work/m" | tail -n +2 | sort -g | head -1)
    say_if "$name: ms (least), Megatron's median beside it" "$(printf '%.1f (%.1f)' "$ms" "$least")" "${theirs:-}" \
        holds "${theirs:-1e9} >= $ms"
    say "$name: model TFLOP/s" "$(each tflops_per_gpu <"$work/m" | tail -n +2 | median | xargs printf '%.0f')" "" -
    say_if "$name: predicted ms, and its error" "$(awk "BEGIN {printf \"%.1f, %+.1f %%\", 1000 * $predicted, 100 * (1000 * $predicted / $ms - 1)}")" \
        "within 10 %" holds "1000 * $predicted <= 1.1 * $ms && 1000 * $predicted >= 0.9 * $ms"
    say "$name: share of each kind, %" "$(shares <"$log")" "" -
    rm -f "$work/m"
}

speed "Qwen3-30B-A3B shape, 4 layers, 8x4096" 260 8 4096 "${qwen[@]}"
speed "the same in deterministic mode" "" 8 4096 "${qwen[@]}" model.deterministic_mode=true
speed "the same, 1x32768" 437 1 32768 "${qwen[@]}"
speed "DeepSeek-V3 widths, 4x4096" 518 4 4096 "${deepseek[@]}"
