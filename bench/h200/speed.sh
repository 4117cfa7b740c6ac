# Forward and backward of the shapes for which Megatron's times on such a GPU are known: step, TFLOP/s, arena, the share of each
# kind of operation, the prediction; planned bytes and touched bytes. The work is that of Megatron's runs: main gradients in FP32, no
# optimizer, no norm of the gradient (no clipping) and no load-balancing loss. SPEED_SECTIONS names some of: small times rates longest.
common=(cluster.gpu=H200 cluster.n_gpus=1 optimizer.optimizer=none optimizer.clip_grad=0 model.moe_router_load_balancing_type=none
    model.moe_router_force_load_balancing=true moefold.mock_data=true moefold.target=moefold)
qwen=(qwen3-30b-a3b model.num_layers=4)
deepseek=(deepseek-v3 model.num_layers=3 'model.moe_layer_freq=[0,1,1]' model.num_moe_experts=32 model.mtp_num_layers=0
    model.moe_router_num_groups=null model.moe_router_group_topk=null)

batch() { echo "train.micro_batch_size=$1 train.global_batch_size=$1 model.seq_length=$2"; }

# work_of WORDS...: TFLOP and GB of a step by kind of operation, as `train --predict` names them: of the program's list of operations.
# An operation's bytes are those of its buffers, each once.
work_of() {
    "$moefold" show "$@" --ops 2>/dev/null | awk '
        / times forward, [0-9]+ backward\)/ {match($0, /\([0-9]+ times/); f = substr($0, RSTART + 1) + 0; match($0, /, [0-9]+ backward/); b = substr($0, RSTART + 2) + 0; next}
        function before(unit) {return match($0, "[0-9.e+-]+ " unit) ? substr($0, RSTART, RLENGTH) + 0 : 0}
        $1 ~ /^(forward|backward|weight)$/ {
            op = $1 == "weight" ? $4 : $3; times = $1 == "forward" ? f : b
            kind = "elementwise and norms"
            if (op ~ /^Q?GEMM/) kind = "GEMM"
            if (op ~ /^Q?GROUPED(_[DW])?$/) kind = "expert GEMM (grouped)"
            if (op ~ /^ATTN/) kind = "attention"
            if (op ~ /^HEAD/) kind = "LM head and loss"
            if (op ~ /^(ROUTE|DROP|AUX|Z_LOSS|LOAD|SORT|PERMUTE|UNPERMUTE)/) kind = "router and permutation"
            if (op ~ /QUANT/) kind = "FP8 cast"
            tera[kind] += times * before("GF") / 1000; giga[kind] += times * before("MB") / 1000}
        END {for (k in giga) printf "%s\t%s\t%s\n", k, tera[k] + 0, giga[k]}'
}

# The best that was ever seen for a kind on such a GPU, with pauses before each call: products TFLOP/s (attention: forward and backward of
# 1x32768 together), what memory binds GB/s. Of FP8 products, others.
best_of() {
    case $1:$2 in
    GEMM:*FP8*) echo 1490 ;;
    expert*:*FP8*) echo 1200 ;;
    GEMM:*) echo 811 ;;
    expert*) echo 803 ;;
    attention:*) echo 594 ;;
    LM*) echo 761 ;;
    *) echo 4244 ;;
    esac
}

# kinds: "ms<TAB>kind" of the times by kind that `train --predict` ends with, and of the step itself
kinds() {
    awk '/^seconds a step/ {on = 1; next} !on || NF < 3 {next} {t = $NF; $NF = ""; $(NF - 1) = ""; sub(/ +$/, ""); printf "%.3f\t%s\n", 1000 * t, $0}
        $0 ~ /^step/ {exit}'
}

# roofline NAME WORDS...: of a run's log, a row a kind: ms, share of the step, rate, share of the best ever seen.
roofline() {
    local name=$1 kind ms tera giga step best
    shift
    kinds <"$work/log" >"$work/kinds"
    work_of "$@" >"$work/ops"
    step=$(awk -F'\t' '$2 == "step" {print $1}' "$work/kinds")
    while IFS=$'\t' read -r ms kind; do
        [ "$kind" = step ] && break
        IFS=$'\t' read -r _ tera giga <<<"$(awk -F'\t' -v k="$kind" '$1 == k' "$work/ops")"
        best=$(best_of "$kind" "$name")
        say "$name: $kind" "$(awk -v ms="$ms" -v step="${step:-nan}" -v tera="${tera:-0}" -v giga="${giga:-0}" -v best="$best" 'BEGIN {
            printf "%.1f ms, %.1f %%", ms, 100 * ms / step
            if (ms > 0 && tera >= 1) printf "; %.0f TFLOP/s, %.0f %% of %d", 1000 * tera / ms, 100000 * tera / ms / best, best
            else if (ms > 0 && giga >= 1) printf "; %.0f GB/s, %.0f %% of %d", 1000 * giga / ms, 100000 * giga / ms / best, best}')" "" -
    done <"$work/kinds"
}

# speed NAME MEGATRON_MS GOAL_MS GOAL_GIB STEPS SAMPLES LENGTH WORDS...: one run; the first step does not count. SPEED_ONLY, a word of names,
# runs these alone.
speed() {
    local name=$1 theirs=$2 goal=$3 gib=$4 steps=$5 samples=$6 length=$7 ms least predicted arena by_kind log=$work/log
    shift 7
    case $name in *"${SPEED_ONLY:-}"*) ;; *) return ;; esac
    # shellcheck disable=SC2046
    set -- "$@" "${common[@]}" $(batch "$samples" "$length")
    "$moefold" price "$@" --json >"$work/price" 2>"$work/err"
    predicted=$(figure step_s <"$work/price")
    arena=$(figure arena_bytes <"$work/price" | awk '{printf "%.1f", $1 / 1073741824}')
    case "$*" in *cuda_graph_impl*) by_kind=() ;; *) by_kind=(--predict) ;; esac # operations of a graph have no times of their own
    timeout 120 "$moefold" train "$@" moefold.device=cuda train.train_iters="$steps" logger.log_interval=1 "${by_kind[@]}" --metrics "$work/m" \
        >"$log" 2>&1 || tail -3 "$log"
    ms=$(each elapsed_ms <"$work/m" | tail -n +2 | median)
    least=$(each elapsed_ms <"$work/m" | tail -n +2 | sort -g | head -1)
    say_if "$name: ms (least); Megatron's median; goal" "$(printf '%.1f (%.1f)' "$ms" "${least:-nan}")" "${theirs:-}; ${goal:-}" \
        holds "$ms <= ${goal:-1e9}"
    say_if "$name: arena, GiB; goal" "$arena" "$gib" holds "${arena:-1e9} <= ${gib:-1e9}"
    say "$name: model TFLOP/s" "$(each tflops_per_gpu <"$work/m" | tail -n +2 | median | xargs printf '%.0f')" "" -
    say_if "$name: predicted ms, and its error" "$(awk "BEGIN {printf \"%.1f, %+.1f %%\", 1000 * $predicted, 100 * (1000 * $predicted / $ms - 1)}")" \
        "within 10 %" holds "1000 * $predicted <= 1.1 * $ms && 1000 * $predicted >= 0.9 * $ms"
    [ ${#by_kind[@]} -eq 0 ] || roofline "$name" "$@"
    say "$name: host" "$(grep -m1 '^host' "$log")" "" -
    rm -f "$work/m"
}

# same_work NAME MODEL WORDS...: that nothing is left out: three steps of a small model of the same make on the GPU and on the CPU, both in the
# row's precision: loss and gradient norm.
same_work() {
    local name=$1 device far
    shift
    case $name in *"${SPEED_ONLY:-}"*) ;; *) return ;; esac
    for device in cuda cpu; do
        "$moefold" train "$@" cluster.gpu=H200 cluster.n_gpus=1 model.seq_length=256 train.micro_batch_size=2 train.global_batch_size=2 \
            moefold.mock_data=true moefold.target=moefold moefold.device=$device train.train_iters=3 logger.log_interval=1 --metrics "$work/$device" >"$work/log" 2>&1 ||
            tail -3 "$work/log"
        { each 'lm loss' <"$work/$device"; each grad_norm <"$work/$device"; } >"$work/$device.txt"
        rm -f "$work/$device"
    done
    far=$(apart "$work/cuda.txt" "$work/cpu.txt")
    say_if "$name, a small model: loss and gradient norm beside the CPU's" "$(percent "$far")" "1 %" holds "$far <= 0.01"
}

fp8=mixed_precision=bf16_with_fp8_subchannel_scaling_mixed
graph=model.cuda_graph_impl=full_iteration
small_qwen=(tiny model.hidden_size=256 model.num_attention_heads=4 model.num_query_groups=2 model.kv_channels=64 model.moe_ffn_hidden_size=128)
small_deepseek=("${deepseek[@]}" model.num_moe_experts=8 model.moe_router_topk=2 model.hidden_size=256 model.ffn_hidden_size=512 model.moe_ffn_hidden_size=128
    model.moe_shared_expert_intermediate_size=128 model.num_attention_heads=4 model.num_query_groups=4 model.q_lora_rank=64 model.kv_lora_rank=64
    model.vocab_size=1024)

# What a step is made of, alone, with pauses: experts' products with their counts on the GPU, and AdamW. Megatron's own reach 539 TFLOP/s in
# its step, CUTLASS 728, 607, 647 and 541, 648, 617.
rate() { # NAME LEAST UNIT: of the file of times
    local seen
    seen=$(awk -F' *[|] *' -v name="$1" '$2 == name {print $5 + 0}' "$dir/speed-rows.md")
    say_if "$1: $3; goal" "${seen:-nan}" "$2" holds "${seen:-nan} >= $2"
}
rates() {
    "$rows_time" experts AdamW >"$dir/speed-rows.md" 2>&1
    rate "experts N1536 K2048" 720 TFLOP/s
    rate "experts N1536 K2048, data gradient" 680 TFLOP/s
    rate "experts N1536 K2048, weight gradient" 680 TFLOP/s
    rate "experts N2048 K768" 640 TFLOP/s
    rate "experts N2048 K768, data gradient" 660 TFLOP/s
    rate "experts N2048 K768, weight gradient" 640 TFLOP/s
    rate "AdamW, 3 * 10^9 parameters" 3780 GB/s
}

small() {
    same_work "Qwen3" "${small_qwen[@]}"
    same_work "Qwen3, one graph" "${small_qwen[@]}" $graph
    same_work "Qwen3, FP8 blockwise" "${small_qwen[@]}" $fp8
    same_work "DeepSeek-V3" "${small_deepseek[@]}"
    same_work "DeepSeek-V3, FP8 blockwise" "${small_deepseek[@]}" $fp8
}

times() {
    speed "Qwen3-30B-A3B shape, 4 layers, 8x4096" 260 212 33 14 8 4096 "${qwen[@]}"
    speed "DeepSeek-V3 widths, 4x4096" 518 465 50 8 4 4096 "${deepseek[@]}"
    speed "Qwen3, 1x4096" 91 33 "" 30 1 4096 "${qwen[@]}"
    speed "Qwen3, 1x4096, one graph" 91 33 "" 30 1 4096 "${qwen[@]}" $graph
    speed "Qwen3, 1x32768" 437 400 33 7 1 32768 "${qwen[@]}"
    speed "Qwen3, 8x4096, FP8 blockwise" 305 200 "" 14 8 4096 "${qwen[@]}" $fp8
    speed "DeepSeek-V3 widths, 4x4096, FP8 blockwise" 460 410 "" 8 4 4096 "${deepseek[@]}" $fp8
    speed "Qwen3, 1x65536" 1317 1240 52 4 1 65536 "${qwen[@]}" model.max_position_embeddings=65536
    speed "DeepSeek-V3 widths, 1x32768" 1824 1730 70 3 1 32768 "${deepseek[@]}"
    speed "Qwen3, 1x131072" 5603 4400 "" 3 1 131072 "${qwen[@]}" model.max_position_embeddings=131072
    speed "Qwen3, 8x4096, deterministic" "" "" "" 14 8 4096 "${qwen[@]}" model.deterministic_mode=true
}

# Not run unless asked for (it takes two minutes): one full training step of 524,288 tokens, AdamW included, on one GPU. Megatron runs out
# of memory at half of that.
longest() {
    local words=("${qwen[@]}" cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.mock_data=true model.moe_router_force_load_balancing=true
        model.seq_length=524288 model.max_position_embeddings=524288 train.micro_batch_size=1 train.global_batch_size=1 model.recompute_granularity=full
        model.recompute_method=uniform model.recompute_num_layers=1 moefold.sequence_chunks=8) predicted ms
    predicted=$("$moefold" price "${words[@]}" --json 2>"$work/err" | figure step_s)
    timeout 200 "$moefold" train "${words[@]}" moefold.device=cuda train.train_iters=1 logger.log_interval=1 --metrics "$work/m" >"$work/log" 2>&1 ||
        tail -3 "$work/log"
    ms=$(each elapsed_ms <"$work/m" | median)
    say_if "Qwen3, 1x524288 with AdamW: ms of a step; lm loss" "$ms; $(each 'lm loss' <"$work/m")" "one step" holds "$ms > 0"
    say_if "the same: predicted ms" "$(awk "BEGIN {print 1000 * $predicted}")" "within 10 %" \
        holds "1000 * $predicted <= 1.1 * $ms && 1000 * $predicted >= 0.9 * $ms"
}

for section in ${SPEED_SECTIONS:-small times rates}; do "$section"; done
