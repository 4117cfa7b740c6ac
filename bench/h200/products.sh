# Algorithms of cuBLASLt: what tuning gains for the shapes of the speed part, and that a run that goes on has those it kept.
shape() { echo "train.micro_batch_size=$1 train.global_batch_size=$1 model.seq_length=$2 cluster.gpu=H200 cluster.n_gpus=1"; }
tuned=$dir/h200-cublaslt.txt
rm -f "$tuned"

tune() { # NAME WORDS...
    local name=$1 code
    shift
    timeout 100 "$moefold" bench --device cuda --out "$tuned" "$@" >"$work/table" 2>"$work/err"
    code=$?
    say_if "$name: tuned" "$(head -1 "$work/table" | sed 's/.*: \([0-9]* shapes\)/\1/')" "a file" [ $code -eq 0 ]
    sed 's/^/    /' "$work/table"
    [ $code -eq 0 ] || tail -2 "$work/err"
}
# A run with other algorithms than the heuristic's first (MOEFOLD_CUBLASLT: the place in its list), cut in two. The second half is
# told nothing: it has to find them in the run's folder. Without that file it takes the first, and other bits show that it matters:
# of many tokens and few weights sums are cut in several ways (at 2,048 tokens all algorithms gave the same bits).
same=(tiny cluster.gpu=H200 cluster.n_gpus=1 moefold.device=cuda model.deterministic_mode=true moefold.cublaslt=none model.hidden_size=256
    model.seq_length=2048 train.micro_batch_size=8 train.global_batch_size=8 logger.log_interval=1 checkpoint.save_interval=4
    scheduler.lr_decay_style=constant)
bits() { sed -n 's/.*"lm loss":\([-0-9.e+]*\).*"grad_norm":\([-0-9.e+]*\).*/\1 \2/p' "$1"; }
run() { timeout 60 "$moefold" train "${same[@]}" "$@" >"$work/log" 2>&1 || tail -2 "$work/log"; }
whose() { grep '"event":"products"' "$1" | grep -oE '"(shapes|kept|tuned|first|other)":[0-9]+' | tr -d '"' | paste -sd' '; }

run train.train_iters=8 --metrics "$work/first"
for place in 7 5 3 2 1; do
    rm -rf "$work/whole" "$work/c0"
    MOEFOLD_CUBLASLT=$place run train.train_iters=8 --metrics "$work/whole"
    [ "$(bits "$work/whole")" != "$(bits "$work/first")" ] && break
done
MOEFOLD_CUBLASLT=$place run train.train_iters=4 checkpoint.save="$work/c0" --metrics "$work/half"
cp -r "$work/c0" "$work/c1"
rm "$work/c1/cublaslt.txt"
run train.train_iters=8 checkpoint.load="$work/c0" --metrics "$work/resumed"
run train.train_iters=8 checkpoint.load="$work/c1" --metrics "$work/forgot"
bits "$work/whole" | tail -4 >"$work/a"
bits "$work/resumed" >"$work/b"
bits "$work/forgot" >"$work/c"
say "the first half, its algorithms" "place $((place + 1)) of the heuristic's list: $(whose "$work/half")" "" -
say_if "the second half: its algorithms" "$(whose "$work/resumed")" "all kept, some not the first" \
    grep -qE '"shapes":([0-9]+),"kept":\1,.*"other":[1-9]' "$work/resumed"
say_if "its losses and gradient norms beside the run that was left alone" "$(cmp -s "$work/a" "$work/b" && echo the same bits || echo others)" \
    "the same" bash -c "[ -s $work/a ] && cmp -s $work/a $work/b"
say_if "without its file: algorithms, bits" "$(whose "$work/forgot"); $(cmp -s "$work/a" "$work/c" && echo the same || echo others)" \
    "the first, others" bash -c "grep -q '\"kept\":0' $work/forgot && [ -s $work/c ] && ! cmp -s $work/a $work/c"

# shellcheck disable=SC2046
tune "Qwen3-30B-A3B shape, 8x4096" qwen3-30b-a3b model.num_layers=4 $(shape 8 4096)
# shellcheck disable=SC2046
tune "DeepSeek-V3 widths, 4x4096" deepseek-v3 model.num_layers=3 'model.moe_layer_freq=[0,1,1]' model.num_moe_experts=32 \
    model.mtp_num_layers=0 model.moe_router_num_groups=null model.moe_router_group_topk=null $(shape 4 4096)
