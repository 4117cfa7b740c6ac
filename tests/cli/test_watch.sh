#!/usr/bin/env bash
# Ranks that are long at something: saving slowly ends no job, being stuck does, and is named for what it is.
# Mostly waits.
. tests/cli/saying.sh
if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null; then
    echo "ok ranks # skip: Open MPI is not installed"
    exit 0
fi
two=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=4 train.train_iters=2 --ranks 2)
# Messages may take 6 s; MPI's start is under it too, and the machine may be busy.
timed() { # SLOW HOST_SECONDS WORDS...
    MOEFOLD_TIMEOUT_SECONDS=6 MOEFOLD_SLOW=$1 MOEFOLD_HOST_TIMEOUT_SECONDS=$2 "$moefold_test" train "${two[@]}" "${@:3}"
}

expect a_save_slower_than_the_timeout_ends_no_job 0 'done after 2 steps' timed save:1:9 60 "checkpoint.save=$work/slow"
check it_was_saved [ "$(cat "$work/slow/latest_checkpointed_iteration.txt")" = 2 ]
expect a_load_slower_than_the_timeout_ends_no_job 0 'done after 1 steps' timed load:0:9 60 "checkpoint.load=$work/slow" train.train_iters=3
expect a_stuck_save_is_named 3 'rank 1 of 2: has been saving a checkpoint for [0-9]+ s \(moefold.host_timeout_minutes is the limit\); the job ends' \
    timed save:1:300 2 "checkpoint.save=$work/stuck"
check a_stuck_save_leaves_no_checkpoint [ ! -e "$work/stuck/latest_checkpointed_iteration.txt" ]
expect stuck_data_are_named 3 'rank 1 of 2: has been reading data for 5 s \(dist.distributed_timeout_minutes is the limit\); the job ends' \
    timed read:1:300 60

exit $failed
