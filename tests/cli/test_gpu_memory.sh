#!/usr/bin/env bash
# Memory as runs report it: bytes that steps touch beside those planned, and what lies beside the arena on a device.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1
job=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=1 model.seq_length=64 train.train_iters=3 train.global_batch_size=4 train.micro_batch_size=1)
even=model.moe_router_force_load_balancing=true
beside() { MOEFOLD_DEVICE=deferred:1,grows=$1 "$moefold_test" train "${job[@]}" cluster.gpu=cpu "${@:2}"; }

for device in cpu deferred:3; do
    export MOEFOLD_DEVICE=$device
    expect touched_is_planned_on_$device 0 'outside of them +0 of +0' "$moefold_test" train "${job[@]}" cluster.gpu=cpu $even --touched
    "$moefold_test" train "${job[@]}" cluster.gpu=H200 moefold.device=cpu $even --touched --json >"$work/json" 2>/dev/null
    check the_gpu_program_touches_what_is_planned_on_$device \
        grep -qE '"planned_bytes":([0-9]+),"touched_bytes":\1,.*"outside_bytes":0,"right":true' "$work/json"
    unset MOEFOLD_DEVICE
done
expect what_lies_beside_is_a_line 0 'after 1 iterations\) memory outside the arena on deferred: 512.00 MiB' beside 0
expect it_does_not_grow 0 'memory outside the arena on deferred at the end: 512.00 MiB, no more than after the first step' beside 0
expect growth_is_said 0 'at the end: 514.00 MiB, 1.00 MiB more than after the first step' beside 1048576
beside 1048576 --json >"$work/json" 2>/dev/null
check growth_is_in_json [ "$(grep -c '"event":"memory"' "$work/json")" = 2 -a "$(grep -c '"grown_bytes":1048576' "$work/json")" = 1 ]
without cpus_know_nothing_of_it 'memory outside' "$moefold" train "${job[@]}" cluster.gpu=cpu
exit $failed
