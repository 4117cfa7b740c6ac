# The reference cases on the GPU: FP32 within the CPU's tolerances, BF16 beside the CPU's BF16.
one_gpu=(moefold.device=cuda cluster.n_gpus=1 model.deterministic_mode=true)

# Two cases have losses of the router and a capacity, which their config.json cannot say (golden.json, `router`).
options_of() {
    case $1 in
    qwen3-moe-router) echo model.moe_router_load_balancing_type=aux_loss model.moe_aux_loss_coeff=0.5 model.moe_z_loss_coeff=0.05 \
        model.moe_expert_capacity_factor=0.75 model.moe_token_drop_policy=position ;;
    deepseek-v3-router) echo train.micro_batch_size=2 model.moe_router_load_balancing_type=seq_aux_loss model.moe_aux_loss_coeff=0.5 \
        model.moe_z_loss_coeff=0.02 model.moe_expert_capacity_factor=0.75 model.moe_token_drop_policy=probs ;;
    esac
}

for folder in "$golden"/*-tiny; do
    name=$(basename "$folder" -tiny)
    # shellcheck disable=SC2046
    "$moefold" parity "$folder" "${one_gpu[@]}" $(options_of "$name") --json >"$work/gpu" 2>"$work/err"
    code=$?
    errors=$(for key in loss logits grad curve; do figure "${key}_rel_err\(_max\)\?" <"$work/gpu"; done | paste -sd' ')
    # shellcheck disable=SC2086
    say_if "$name, FP32: loss, logits, gradients, curve" "$(printf '%.0e ' $errors)" "the CPU's tolerances" [ $code -eq 0 ]
    [ $code -le 1 ] || tail -2 "$work/err"
done

# curve FILE: the losses of `parity --json`, one a line
curve() { sed -n 's/.*"curve":\[\([^]]*\)\].*/\1/p' "$1" | tr ',' '\n'; }

for name in qwen3-moe deepseek-v3 gpt-oss mixtral mtp qwen3-next; do
    "$moefold" parity "$golden/$name-tiny" cluster.gpu=H200 "${one_gpu[@]}" --json >"$work/gpu" 2>"$work/err"
    "$moefold" parity "$golden/$name-tiny" cluster.gpu=H200 cluster.n_gpus=1 moefold.device=cpu --json >"$work/cpu" 2>>"$work/err"
    curve "$work/gpu" >"$work/a"
    curve "$work/cpu" >"$work/b"
    far=$(apart "$work/a" "$work/b")
    say_if "$name, BF16: the curve beside the CPU's BF16" "$(percent "$far")" "1 %" holds "$far <= 0.01"
done
