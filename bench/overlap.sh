#!/usr/bin/env bash
# What overlaps hide: exposed communication and time of a step with each of them off and on, over an emulated link
# (moefold.comm_delay), on 2 ranks of this machine (one line: 4). Turn by turn, off, on, off, on; medians.
#
# Exposed is the time in which a rank waits for messages, summed over the streams of a step, of each stream the rank with most:
# waiting for a partner that is late counts like waiting for the link. A hidden message still costs the core that moves it.
set -eu
moefold=${MOEFOLD:-./moefold}
turns=${TURNS:-3}
steps=${STEPS:-6}
only=${1:-} # a word of a line's name: that line alone
if ! command -v mpirun >/dev/null; then
    echo "mpirun (Open MPI) is not installed: nothing to measure"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tp=model.tensor_model_parallel_size pp=model.pipeline_model_parallel_size ep=model.expert_model_parallel_size
etp=model.expert_tensor_parallel_size vpp=model.virtual_pipeline_model_parallel_size
alltoall=model.moe_token_dispatcher_type=alltoall
ep_overlap=comm_overlap.overlap_moe_expert_parallel_comm=true
model=(tiny cluster.gpu=cpu model.hidden_size=256 model.seq_length=512 "train.train_iters=$steps"
    moefold.moe_buffer_factor=2.0 logger.timing_log_level=1)

median() { sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

# One run. Adds to FILE.step and FILE.exposed the ms of each of its steps but the first.
once() {
    local to=$1
    shift
    if ! "$moefold" train "${model[@]}" "$@" >"$work/out" 2>"$work/err"; then
        grep -v '^moefold: OMP_NUM_THREADS' "$work/err" >&2
        return 1
    fi
    sed -nE 's/.*elapsed time per iteration \(ms\): ([0-9.]+).*/\1/p' "$work/out" | tail -n +2 >>"$to.step"
    awk '/^messages of a step/ {n++} $1 ~ /^(layers|stages|replicas)$/ {sum[n] += $3}
         END {for (i = 2; i < n; i++) print sum[i] + 0}' "$work/err" >>"$to.exposed"
}

# NAME LINK OFF ON OVERRIDES...
compare() {
    local name=$1 link=$2 off=$3 on=$4 turn
    shift 4
    [[ $name == *"$only"* ]] || return 0
    rm -f "$work"/o*.step "$work"/o*.exposed
    for ((turn = 0; turn < turns; turn++)); do
        # shellcheck disable=SC2086
        once "$work/off" "$@" "moefold.comm_delay=$link" $off
        # shellcheck disable=SC2086
        once "$work/on" "$@" "moefold.comm_delay=$link" $on
    done
    local e0 e1 s0 s1
    e0=$(median <"$work/off.exposed") e1=$(median <"$work/on.exposed")
    s0=$(median <"$work/off.step") s1=$(median <"$work/on.step")
    printf '%-38s %-13s %8.1f %8.1f  %8.1f %8.1f %7.2f\n' "$name" "$link" "$e0" "$e1" "$s0" "$s1" \
        "$(awk "BEGIN {print $s1 / $s0}")"
}

echo "medians of $turns runs of $steps steps, ms; the first step of each is left out"
printf '%-38s %-13s %8s %8s  %8s %8s %7s\n' '' '' exposed exposed step step step
printf '%-38s %-13s %8s %8s  %8s %8s %7s\n' overlap 'each link' off on off on on/off

one=train.micro_batch_size=1
moe=(--ranks 2 $ep=2 $alltoall $one train.global_batch_size=16)
delayed="$ep_overlap comm_overlap.delay_wgrad_compute=true"
compare "dispatch and combine (EP2)" 50us+500MB/s "" "$ep_overlap" "${moe[@]}"
compare "the same, weight gradients delayed" 50us+500MB/s "" "$delayed" "${moe[@]}"
compare "shared expert (EP2)" 50us+500MB/s "" model.moe_shared_expert_overlap=true "${moe[@]}" \
    model.moe_shared_expert_intermediate_size=256

replicas=(--ranks 2 train.micro_batch_size=4 train.global_batch_size=8 ddp.bucket_size=100000)
reduce=ddp.overlap_grad_reduce gather=ddp.overlap_param_gather
compare "gradient reduce (DP2)" 50us+100MB/s "$reduce=false $gather=false" "$reduce=true $gather=false" "${replicas[@]}"
compare "gradient reduce, parameter gather" 50us+100MB/s "$reduce=false $gather=false" "$reduce=true $gather=true" \
    "${replicas[@]}"

compare "stage to stage (PP4 VPP2, 4 ranks)" 50us+100MB/s \
    "comm_overlap.overlap_p2p_comm=false comm_overlap.batch_p2p_comm=true" \
    "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false" \
    --ranks 4 $pp=4 $vpp=2 model.num_layers=8 $one train.global_batch_size=8
compare "products in chunks (TP2)" 50us+2GB/s comm_overlap.tp_comm_overlap=false comm_overlap.tp_comm_overlap=true \
    --ranks 2 $tp=2 $etp=2 model.hidden_size=512 train.micro_batch_size=2 train.global_batch_size=4
