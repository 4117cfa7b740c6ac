#!/usr/bin/env bash
# Activation offload as a person meets it: shown, priced, refused by the knob's name, and run over MPI with the same losses. From the repository's root.
set -u
export COLUMNS=1000 # so that no line that is looked for is wrapped
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

result() { # NAME: of the command before it
    if [ $? = 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
shows() { # NAME PATTERN COMMAND...
    local name=$1 pattern=$2
    shift 2
    "$@" 2>&1 | grep -qE -- "$pattern"
    result "$name"
}

on=(model.fine_grained_activation_offloading=true 'model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act,qkv_linear,mlp_norm]')
gpu=(qwen3-30b-a3b cluster.n_gpus=16 model.expert_model_parallel_size=8 model.moe_token_dispatcher_type=alltoall train.global_batch_size=64)

# ---- shown
shows price_shows_copies 'offload copies, exposed +[0-9.]+ s' "$moefold" price --everything "${gpu[@]}" "${on[@]}"
shows price_shows_the_host 'on the host: offloaded activations +[0-9.]+ GiB' "$moefold" price --everything "${gpu[@]}" "${on[@]}"
shows memory_shows_the_host 'On the host, outside the arena: [0-9.]+ GiB' "$moefold" show "${gpu[@]}" "${on[@]}" --memory
shows check_shows_the_host 'host +[0-9.]+ GiB .*activations on the host' "$moefold" check --everything "${gpu[@]}" "${on[@]}" --all-ranks
shows operations_show_copies 'copy +COPY_OUT +expert_fc1 .*experts.x -> experts.x' "$moefold" show "${gpu[@]}" "${on[@]}" --ops
"$moefold" price --everything "${gpu[@]}" "${on[@]}" --json | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["memory"]["on_host"] > 0 and o["time"]["host copies"] > 0 and "host copies" in o["time"]["exposed"]'
result json_has_both
! "$moefold" price --everything "${gpu[@]}" | grep -qE 'offload copies|on the host'
result nothing_without_it

# ---- refused
shows fraction_is_refused 'activation_offload_fraction=0.5: ' "$moefold" check --everything "${gpu[@]}" "${on[@]}" model.activation_offload_fraction=0.5
shows delta_is_refused 'delta_offload_bytes_across_pp_ranks=4096: ' "$moefold" check --everything "${gpu[@]}" "${on[@]}" \
    model.pipeline_model_parallel_size=2 model.delta_offload_bytes_across_pp_ranks=4096

# ---- run
train() { # FILE WORDS...
    local file=$1
    shift
    timeout 120 "$moefold" train tiny cluster.gpu=cpu cluster.n_gpus=4 model.pipeline_model_parallel_size=2 \
        model.virtual_pipeline_model_parallel_size=2 model.expert_model_parallel_size=2 \
        model.moe_token_dispatcher_type=alltoall comm_overlap.overlap_moe_expert_parallel_comm=true \
        train.global_batch_size=8 train.micro_batch_size=1 train.train_iters=3 model.num_layers=4 \
        model.seq_length=64 model.min_offloaded_tensor_size=0 "$@" --ranks 4 2>&1 |
        grep -oE 'lm loss: [^|]*|grad norm: [^|]*' >"$file"
}
train "$work/off"
train "$work/on" "${on[@]}"
[ "$(wc -l <"$work/off")" = 6 ] && cmp -s "$work/off" "$work/on"
result ranks_train_the_same

exit $failed
