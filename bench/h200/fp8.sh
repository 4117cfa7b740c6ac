# FP8: rows of quantised products beside the CPU's, their times, and curves of 200 steps beside BF16's.
#
# Curves want a calm run: with batches of 1,024 tokens and no warm-up two runs of the same BF16 program whose sums have another order end
# 12 % apart. With 4,096 tokens and warm-up FP32 and BF16 stay within 0.3 % in the mean.
small=(tiny model.num_layers=6 model.hidden_size=512 model.num_attention_heads=8 model.num_query_groups=4 model.kv_channels=64
    model.num_moe_experts=16 model.moe_router_topk=4 model.moe_ffn_hidden_size=512 model.vocab_size=32000 model.qk_layernorm=true
    cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.mock_data=true model.seq_length=256 logger.log_interval=1
    scheduler.lr_decay_iters=200)
calm=(train.micro_batch_size=16 train.global_batch_size=16 scheduler.lr_warmup_iters=40 optimizer.lr=1e-4 optimizer.min_lr=1e-5)
few=(train.micro_batch_size=2 train.global_batch_size=4)
forms=(blockwise bf16_with_fp8_subchannel_scaling_mixed tensorwise bf16_with_fp8_current_scaling_mixed)

"$rows" --quantised >"$dir/fp8-rows.txt" 2>&1
code=$?
say_if "quantised rows beside the CPU's" "$(tail -1 "$dir/fp8-rows.txt")" "0 wrong" [ $code = 0 ]
"$rows" --time NOTHING >"$dir/fp8-times.txt" 2>&1
while IFS=$'\t' read -r what row ms rate; do
    say "$what: $row" "$ms, $rate" "" -
done < <(sed -n 's/^| \(Q.*\) |$/\1/p' "$dir/fp8-times.txt" | sed 's/ | /\t/g')

# curve NAME DEVICE STEPS WORDS...: losses of a run, a line each.
curve() {
    local name=$1 device=$2 steps=$3
    shift 3
    rm -f "$work/m"
    timeout 120 "$moefold" train "${small[@]}" moefold.device="$device" train.train_iters="$steps" "$@" --metrics "$work/m" >"$work/log" 2>&1 ||
        tail -2 "$work/log"
    each 'lm loss' <"$work/m" >"$work/$name"
}

# mean_apart A B: the mean of the relative differences; nan where a column is shorter.
mean_apart() {
    paste "$1" "$2" | awk 'NF != 2 {print "nan"; short = 1; exit} {d = ($1 - $2) / $2; sum += d < 0 ? -d : d} END {if (!short) print NR ? sum / NR : "nan"}'
}

curve bf16 cuda 200 "${calm[@]}"
for ((i = 0; i < ${#forms[@]}; i += 2)); do
    fp8=(mixed_precision="${forms[i + 1]}" mixed_precision.fp8_param_gather=false)
    curve gpu cuda 200 "${calm[@]}" "${fp8[@]}"
    far=$(mean_apart "$work/gpu" "$work/bf16")
    say_if "113 M parameters, 200 steps, ${forms[i]}: beside BF16, mean (largest)" "$(percent "$far") ($(percent "$(apart "$work/gpu" "$work/bf16")"))" \
        "1 %" holds "$far <= 0.01"
    curve first cuda 10 "${few[@]}" "${fp8[@]}"
    curve cpu cpu 10 "${few[@]}" "${fp8[@]}"
    far=$(apart "$work/first" "$work/cpu")
    say_if "the same, 10 steps beside the CPU" "$(percent "$far")" "1 %" holds "$far <= 0.01"
done
