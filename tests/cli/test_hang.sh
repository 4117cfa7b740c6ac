#!/usr/bin/env bash
# An operation that faults or never ends on a device is named: operation, layer, microbatch. Late devices read what GPUs read.
# Mostly waits.
. tests/cli/saying.sh
export MOEFOLD_DEVICE=deferred:1 OMP_NUM_THREADS=1
job=(tests/data/golden/qwen3-moe-tiny cluster.gpu=cpu cluster.n_gpus=1 model.seq_length=64 train.train_iters=3 train.global_batch_size=4 train.micro_batch_size=1)
run() { # FAULT WORDS...
    MOEFOLD_FAULT=$1 MOEFOLD_TIMEOUT_SECONDS=2 timeout 60 "$moefold_test" train "${job[@]}" "${@:2}"
}
place='stream compute: [a-z0-9. _]+ \([A-Z0-9_]+\) of layer [0-9]+, microbatch [0-3], (forward|backward|weight gradient|recompute), is not finished'

expect a_fault_names_its_operation 3 "rank 0 of 1: $place \(operation 150\); the job ends" run trap:150
expect a_hang_names_its_operation 3 "rank 0 of 1: no operation has ended on the device for [0-9]+ s: $place \(operation 150\); the job ends" run hang:150
expect what_is_no_layer_is_named 3 'stream compute: global counts \(ZERO\) of begin, is not finished \(operation 5\)' run trap:5
expect a_fault_that_is_never_met_changes_nothing 0 'done after 3 steps' run hang:100000000
expect what_is_no_fault_is_refused 3 'MOEFOLD_FAULT=hang in the environment is not trap:N, hang:N, crash:N or leave:N' run hang
# Work of the host that takes longer than the timeout is no hang of the device.
MOEFOLD_SLOW=save:0:5 expect a_slow_save_is_no_hang 0 'done after 3 steps' run hang:100000000 "checkpoint.save=$work/slow"

# A step that finds a routed buffer too small, where the device counts, is run again: nothing else changes.
losses() { grep -o '"lm loss":[0-9.]*' "$1"; }
unset MOEFOLD_DEVICE
for device in cpu deferred:2; do
    MOEFOLD_DEVICE=$device run hang:100000000 --json >"$work/whole" 2>/dev/null
    MOEFOLD_DEVICE=$device run overflow:2 --json >"$work/again" 2>"$work/said"
    check an_overflow_runs_again_on_$device grep -q 'step 2: rank 0, layer 0: 2 rows do not fit into a routed buffer of 1;.*and the step runs again' "$work/said"
    check and_changes_nothing_on_$device [ "$(losses "$work/whole" | wc -l)" = 3 -a "$(losses "$work/whole")" = "$(losses "$work/again")" ]
done
exit $failed
