# Training on the GPU: a model of a billion parameters learns, 113 M parameters follow the CPU, a killed run goes on.
billion=(qwen3-30b-a3b model.num_layers=4 model.num_moe_experts=40 model.vocab_size=32000 cluster.gpu=H200 cluster.n_gpus=1
    moefold.target=moefold moefold.mock_data=true train.micro_batch_size=8 train.global_batch_size=8 model.seq_length=2048)
small=(tiny model.num_layers=6 model.hidden_size=512 model.num_attention_heads=8 model.num_query_groups=4 model.kv_channels=64
    model.num_moe_experts=16 model.moe_router_topk=4 model.moe_ffn_hidden_size=512 model.vocab_size=32000 model.qk_layernorm=true
    cluster.n_gpus=1 model.seq_length=256 train.micro_batch_size=2 train.global_batch_size=4 train.train_iters=20)

losses() { each 'lm loss' <"$1"; }

"$moefold" train "${billion[@]}" moefold.device=cuda train.train_iters=200 logger.log_interval=1 --metrics "$work/m" >"$dir/billion.txt" 2>&1
first=$(losses "$work/m" | head -1) last=$(losses "$work/m" | tail -1)
say_if "962 M parameters, 200 steps: lm loss" "$(printf '%.2f to %.2f' "$first" "$last")" "falls" holds "${last:-9} < 0.5 * ${first:-0}"
say "the same: median ms a step" "$(each elapsed_ms <"$work/m" | median | xargs printf '%.1f')" "" -

for precision in cpu H200; do
    "$moefold" train "${small[@]}" cluster.gpu=$precision moefold.device=cuda --metrics "$work/gpu" >"$work/log" 2>&1 || tail -2 "$work/log"
    "$moefold" train "${small[@]}" cluster.gpu=$precision moefold.device=cpu --metrics "$work/cpu" >"$work/log" 2>&1 || tail -2 "$work/log"
    losses "$work/gpu" >"$work/a"
    losses "$work/cpu" >"$work/b"
    far=$(apart "$work/a" "$work/b")
    if [ $precision = cpu ]; then name=FP32 most=0.001; else name=BF16 most=0.01; fi
    say_if "113 M parameters, 20 steps, $name: beside the CPU" "$(percent "$far")" "$(percent $most)" holds "$far <= $most"
    rm -f "$work/gpu" "$work/cpu"
done

# A run that is killed behind a checkpoint and goes on has the losses of one that was left alone.
same=(tiny cluster.gpu=H200 cluster.n_gpus=1 moefold.device=cuda model.deterministic_mode=true train.train_iters=400 logger.log_interval=1)
"$moefold" train "${same[@]}" --metrics "$work/whole" >"$work/log" 2>&1
"$moefold" train "${same[@]}" checkpoint.save="$work/kept" checkpoint.save_interval=50 >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ -e "$work/kept/latest_checkpointed_iteration.txt" ] && break
    sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null
"$moefold" train "${same[@]}" checkpoint.load="$work/kept" --metrics "$work/resumed" >"$work/log" 2>&1 || tail -2 "$work/log"
losses "$work/resumed" >"$work/a"
n=$(wc -l <"$work/a")
losses "$work/whole" | tail -n "$n" >"$work/b"
say_if "kill -9 and resume, deterministic: the last $n losses" "$(cmp -s "$work/a" "$work/b" && echo the same bits || echo others)" "the same" \
    bash -c "[ $n -ge 1 ] && [ $n -lt 400 ] && cmp -s $work/a $work/b"
