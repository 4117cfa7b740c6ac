#!/usr/bin/env bash
# Where a model does not fit, `plan` for our own runs puts as small a share of the optimizer on the host as fits, with copies
# beside the update; where the host updates slowly, state is moved to the GPU instead. `check` names both repairs. From the
# repository's root.
. tests/cli/saying.sh
job=(qwen3-30b-a3b cluster.n_gpus=1 moefold.target=moefold moefold.device=cuda model.seq_length=4096 train.micro_batch_size=1
    train.global_batch_size=1 mixed_precision=bf16_mixed)
host() { # ELEMENTS A SECOND: a machine whose host updates so many, and whose memory is not said
    sed "s/^  adam: .*/  adam: $1/; /^  memory: /d" hardware/h200-measured.yaml >"$work/adam$1.yaml"
    echo cluster.gpu="$work/adam$1.yaml"
}
planned() { # EXPRESSION WORDS...: over the first row `b`, and its recipe as text `r`
    local expression=$1
    shift
    "$moefold" plan --everything "${job[@]}" "$@" --json --out "$work/plan.yaml" >"$work/plan.json" 2>/dev/null || return 1
    python3 - "$work/plan.json" "$work/plan.yaml" "$expression" <<'P'
import json, sys
b, r = json.load(open(sys.argv[1]))['best'][0], open(sys.argv[2]).read()
sys.exit(not eval(sys.argv[3]))
P
}
fast=$(host 1e11) slow=$(host 1e9)

check what_fits_stays planned 'b["offload"] == 0 and "offload" not in r' "$fast" model.num_layers=8
check as_small_a_share_as_fits planned 'b["offload"] == 0.25 and "overlap_cpu_optimizer_d2h_h2d: true" in r' "$fast" model.num_layers=14
check more_where_more_is_needed planned 'b["offload"] == 0.75 and "optimizer_cpu_offload: true" in r' "$fast" model.num_layers=20
check moved_where_the_host_is_slow planned 'b["offload"] == 1 and "offload_optimizer_states: true" in r and "cpu_offload: true" not in r' \
    "$slow" model.num_layers=20
check a_share_that_is_pinned_stays planned 'b["offload"] == 1 and "optimizer_cpu_offload: true" in r and "states: true" not in r' \
    "$slow" model.num_layers=20 --pin optimizer.optimizer_cpu_offload=true --pin optimizer.optimizer_offload_fraction=1
check moved_that_is_pinned_stays planned '"offload_optimizer_states: true" in r and b["step_s"] > 1' "$fast" model.num_layers=20 \
    --pin optimizer.offload_optimizer_states=true
check pinned_away planned '"states: true" not in r and b["offload"] == 0.75' "$slow" model.num_layers=20 \
    --pin optimizer.offload_optimizer_states=false
check megatron_moves_nothing planned '"states: true" not in r' "$slow" moefold.target=megatron moefold.device=null model.num_layers=20

# What was planned is what is priced, and fits.
"$moefold" plan --everything "${job[@]}" "$slow" model.num_layers=20 --out "$work/moved.yaml" >"$work/out" 2>&1
expect moved_fits 0 'fits' "$moefold" check --everything "$work/moved.yaml"
check what_the_host_holds_is_said grep -q "On the host: at most 121.86 GiB for all GPUs of a node; host.memory of the hardware description is not set" "$work/out"
check moved_is_said grep -q 'optimizer state on the host, moved to the GPU for updates' "$work/out"
expect check_names_the_repair 1 \
    'repair:  optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true$' \
    "$moefold" check --everything "${job[@]}" "$fast" model.num_layers=20
expect one_gpu_is_one_gpu 0 "all GPUs of a node, at most  *13.92 GiB" "$moefold" price --everything "${job[@]}" "$fast" model.num_layers=1 \
    optimizer.offload_optimizer_states=true

# ---- with all of the optimizer on the host Megatron's GPUs keep none of it: the bound on the state must not keep a part
for words in 'gpt-oss-120b --gpus 8xH200' 'qwen3-235b-a22b --gpus 16xH200' 'mixtral-8x22b --gpus 16xH100'; do
    # shellcheck disable=SC2086
    "$moefold" plan --everything $words --seq 4096 --out "$work/tight.yaml" >"$work/out" 2>&1
    check "something_fits_${words%% *}" [ $? = 0 ]
    expect "and_check_agrees_${words%% *}" 0 'fits' "$moefold" check --everything "$work/tight.yaml"
done

exit $failed
