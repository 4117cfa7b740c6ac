#!/usr/bin/env bash
# Activations on the host in programs as a GPU runs them (model.fine_grained_activation_offloading with moefold.target=moefold):
# the same losses and norms to the bit on and off, in BF16 and FP8, and every planned byte is used.
. tests/cli/saying.sh

export OMP_NUM_THREADS=1
common=(cluster.gpu=H200 moefold.device=cpu moefold.target=moefold model.seq_length=32 train.global_batch_size=4 cluster.n_gpus=1
    train.micro_batch_size=1 moefold.mock_data=true)
on=(model.fine_grained_activation_offloading=true model.min_offloaded_tensor_size=0)
fp8=(mixed_precision=bf16_with_fp8_subchannel_scaling_mixed)

curve() { # FILE WORDS...
    local to=$1
    shift
    "$moefold" train "$@" "${common[@]}" train.train_iters=3 --metrics "$work/metrics" >"$work/log" 2>&1 || cat "$work/log"
    grep '"event":"iteration"' "$work/metrics" | grep -o '"\(lm loss\|grad_norm\)":[^,}]*' >"$to"
    rm -f "$work/metrics"
}
same() { # NAME WORDS...: as $work/base
    local name=$1
    shift
    curve "$work/x" "$@"
    [ "$(wc -l <"$work/x")" = 6 ] || { bad "$name" "$(tail -2 "$work/log")"; return; }
    check "$name" cmp -s "$work/base" "$work/x"
}

for model in qwen3-moe deepseek-v3 mixtral; do
    modules='model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act,qkv_linear,mlp_norm]'
    [ $model = deepseek-v3 ] && modules=${modules/\[/[attn_norm,}
    folder=tests/data/golden/$model-tiny
    curve "$work/base" "$folder"
    same "${model}_bf16" "$folder" "${on[@]}" "$modules"
    MOEFOLD_DEVICE=deferred:4 moefold=$moefold_test same "${model}_late_device" "$folder" "${on[@]}" "$modules"
    same "${model}_with_moved_state" "$folder" "${on[@]}" "$modules" optimizer.offload_optimizer_states=true
    curve "$work/base" "$folder" "${fp8[@]}"
    same "${model}_fp8" "$folder" "${fp8[@]}" "${on[@]}" "$modules"
    for words in bf16_mixed "${fp8[0]#*=}"; do
        "$moefold" train "$folder" "${common[@]}" "${on[@]}" "$modules" mixed_precision="$words" train.train_iters=1 \
            model.moe_router_force_load_balancing=true --touched >"$work/touched" 2>&1
        check "${model}_${words}_planned_is_used" test $? = 0
        expect "${model}_${words}_host_is_used" 0 'pinned on the host +([1-9][0-9,]+) of +\1$' cat "$work/touched"
    done
done
exit $failed
