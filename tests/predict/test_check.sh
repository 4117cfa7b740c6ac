#!/usr/bin/env bash
# `moefold check --all-ranks` and `show --rank R --ops` as people and programs meet them. From the repository's root.
. tests/cli/saying.sh

# has NAME PATTERN RECIPE...: the pattern is in the JSON of `check --all-ranks`.
has() {
    local name=$1 pattern=$2
    shift 2
    if "$moefold" check --everything "$@" --all-ranks --json | grep -qE -- "$pattern"; then
        echo "ok $name"
    else
        echo "not ok $name (no '$pattern' in the JSON)"
        failed=1
    fi
}

dsv3=recipes/dsv3-128k-h100.yaml
uneven=(recipes/dsv3-4k-h100.yaml train.global_batch_size=320)
small=(tiny cluster.gpu=cpu cluster.n_gpus=8 model.tensor_model_parallel_size=2 model.expert_model_parallel_size=4
    train.global_batch_size=8)

expect all_agree 0 'all ranks agree: 256 ranks' "$moefold" check --everything "$dsv3" --all-ranks
expect fullest_rank 0 'Fullest +rank [0-9]+ .* bytes' "$moefold" check --everything "$dsv3" --all-ranks
expect links 0 'etp-ep .* [0-9.]+ [KMGTP]iB' "$moefold" check --everything "$dsv3" --all-ranks
expect not_asked_for 0 'valid' "$moefold" check --everything "$dsv3"
expect one_rank 0 'Sends +in a step' "$moefold" check --everything "${small[@]}" --rank 5
expect one_rank_is_there 2 'ranks are 0 to 7' "$moefold" check --everything "${small[@]}" --rank 8
for overlap in true false; do # what the last rank sends waits for the rest of its group
    expect "groups_larger_than_pp_$overlap" 0 'all ranks agree: 3 ranks' "$moefold" check --everything tiny cluster.gpu=cpu pp=3 vpp=2 \
        model.num_layers=6 seq=64 gbs=24 mbs=1 cluster.n_gpus=3 model.microbatch_group_size_per_vp_stage=8 \
        comm_overlap.overlap_p2p_comm=$overlap --all-ranks
done
expect deadlock 1 'deadlock .*rank 0 waits for RECV' "$moefold" check --everything "${uneven[@]}" --all-ranks
expect no_program 1 'no program can be built: heads-divide-by-tp' "$moefold" check --everything deepseek-v3 --all-ranks \
    model.tensor_model_parallel_size=3 cluster.n_gpus=3

has json_keys '"audit":\{"ranks":256,"ok":true,"rank":[0-9]+,"bytes":[0-9]+,' "$dsv3"
has json_links '"links":\{"all":\{"node":[0-9.e+]+,"domain":[0-9.e+]+,"across":[0-9.e+]+\}' "$dsv3"
has json_with_broken_rule '"ok":false,.*"audit":\{"ranks":256,"ok":true' "$dsv3" model.moe_flex_dispatcher_backend=deepep \
    optimizer.use_precision_aware_optimizer=false moefold.system=megatron-lm
has json_fault '"faults":\[\{"kind":"deadlock","rank":[0-9]+,"peer":[0-9]+,"operation":"[^"]+","message":' "${uneven[@]}"
has json_null '"audit":null,"audit_why_not":"' deepseek-v3 model.tensor_model_parallel_size=3 cluster.n_gpus=3

expect ops_of_a_rank 0 'Operations of rank 5' "$moefold" show "${small[@]}" --rank 5 --ops
expect ops_name_groups 0 'ALL_GATHER .* over tp \(2\), [0-9]+ B' "$moefold" show "${small[@]}" --ops
expect ops_name_waits 0 'WAIT .* event [0-9]+' "$moefold" show "${small[@]}" --ops
expect memory_of_a_rank 0 'Arena of rank 7' "$moefold" show "${small[@]}" --rank 7 --memory
expect schedule_of_a_rank 0 'pipeline rank 3: PP 8' "$moefold" show "$dsv3" --rank 100 --schedule
exit $failed
