#!/usr/bin/env bash
# FP8 in our own programs: `check`, `price` and `plan` name the same bytes, the arena of the fullest rank, in each scaling, and `check`
# says of our own copies of weights what is true of them. From the repository's root.
. tests/cli/saying.sh
. tests/cli/layout_words.sh
own=(qwen3-30b-a3b model.num_layers=4 cluster.gpu=H200 cluster.n_gpus=8 moefold.target=moefold train.global_batch_size=32)

# same_bytes WORDS...: of the arena, of what is beside it, and of its regions.
same_bytes() {
    # shellcheck disable=SC2046
    "$moefold" check --everything "${own[@]}" $(words "$@") --json >"$work/check" 2>/dev/null
    # shellcheck disable=SC2046
    "$moefold" price "${own[@]}" $(words "$@") --json >"$work/price" 2>/dev/null
    python3 - "$work/check" "$work/price" <<'PY'
import json, sys
check, price = (json.load(open(f)) for f in sys.argv[1:])
m = price["memory"]
assert check["peak_bytes"] == price["peak_bytes"] > 0
assert check["memory"]["arena_bytes"] == m["arena_bytes"] > 0
regions = sum(m[k] for k in ("weights", "gradients", "optimizer", "saved", "copies", "boundary", "step", "temporaries"))
assert regions == m["arena_bytes"], (regions, m["arena_bytes"])
assert m["copies"] > 0
PY
}
for form in fp8:blockwise fp8:tensorwise; do
    check "$form, EP 4: check and price name the same bytes" same_bytes "$form" EP4
    check "$form, TP 2, PP 2, EP 2: the same" same_bytes "$form" TP2 PP2 EP2 ETP1
    check "$form, fused casts: the same" same_bytes "$form" EP8 'moefold.fusion=[act_quant,permute_quant,norm_quant]'
done
planned() {
    "$moefold" plan --everything qwen3-30b-a3b --gpus 8xH200 --seq 4096 moefold.target=moefold model.num_layers=4 train.global_batch_size=32 \
        mixed_precision=bf16_with_fp8_subchannel_scaling_mixed --json >"$work/plan" 2>/dev/null
    python3 -c 'import json, sys; open(sys.argv[2], "w").write(json.load(open(sys.argv[1]))["recipe"])' "$work/plan" "$work/recipe.yaml"
    "$moefold" check --everything "$work/recipe.yaml" --json >"$work/check" 2>/dev/null
    python3 - "$work/plan" "$work/check" <<'PY'
import json, sys
plan, check = (json.load(open(f)) for f in sys.argv[1:])
assert plan["best"][0]["peak_bytes"] == check["peak_bytes"] > 0, (plan["best"][0]["peak_bytes"], check["peak_bytes"])
PY
}
check "what plan says of its best is what check says of its recipe" planned
one="tiny cluster.gpu=H200 cluster.n_gpus=1 mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"
# shellcheck disable=SC2086
expect "our own copies are counted with the peak" 0 "low-precision copies of weights are counted in the peak" "$moefold" check --everything $one moefold.target=moefold
# shellcheck disable=SC2086
expect "they have a row of their own there" 0 "low-precision copies of weights +[0-9.]+ MiB" "$moefold" check --everything $one moefold.target=moefold
# shellcheck disable=SC2086
without "nothing is said of Transformer Engine" "Transformer Engine" "$moefold" check --everything $one moefold.target=moefold
# shellcheck disable=SC2086
expect "Megatron's are named as before" 0 "copies cached by Transformer Engine" "$moefold" check --everything $one moefold.target=megatron
exit $failed
