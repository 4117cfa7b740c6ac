#!/usr/bin/env bash
# `--ranks N --as-threads`: ranks as threads of one process give the losses of one rank, with messages that comm moves and with
# those that ranks move by themselves, as on GPUs.
. tests/cli/saying.sh

small=(tiny cluster.gpu=cpu model.num_layers=2 model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=4 train.train_iters=4
    logger.log_interval=1 moefold.moe_buffer_factor=64 --threads 1)
losses() { grep -o '"lm loss":[0-9.]*' "$1" | sed 's/.*://'; }
run() { # FILE WORDS...
    local to=$1
    shift
    "$moefold" train "${small[@]}" --metrics "$to" "$@" >"$to.out" 2>"$to.err"
}
near() { # FILE FILE: four losses each, within 1e-5
    [ "$(losses "$1" | wc -l)" = 4 ] && paste <(losses "$1") <(losses "$2") |
        awk 'NF != 2 {bad = 1} {d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $2) bad = 1} END {exit bad}'
}

run "$work/one" cluster.n_gpus=1
run "$work/two" --ranks 2 --as-threads model.expert_model_parallel_size=2
check threads_give_the_losses_of_one_rank near "$work/two" "$work/one"
for device in peers peers:staged; do
    MOEFOLD_DEVICE=$device moefold=$moefold_test run "$work/$device" --ranks 2 --as-threads model.expert_model_parallel_size=2
    check "${device/:/_}_gives_the_same_bits" cmp -s <(losses "$work/two") <(losses "$work/$device")
done
check the_transport_is_said grep -q '^transport: threads of one process' "$work/peers.err"
check the_staged_one_too grep -q '^transport: shared memory' "$work/peers:staged.err"
check comm_says_none bash -c "! grep -q '^transport' '$work/two.err'"
MOEFOLD_FAULT=overflow:2 MOEFOLD_DEVICE=peers moefold=$moefold_test run "$work/again" --ranks 2 --as-threads model.expert_model_parallel_size=2
check memory_that_moved_is_met_again cmp -s <(losses "$work/two") <(losses "$work/again")
check the_step_was_run_again grep -qi 'again' "$work/again.err"

expect a_number_of_ranks_is_needed 2 'as-threads is for --ranks N' "$moefold" train "${small[@]}" --as-threads
# One rank is slow to come to its work: the others say which operation they wait in, and the job ends.
expect a_rank_that_does_not_come 3 'rank [01] of 2: .*(no answer for|has been)' env MOEFOLD_SLOW=read:1:30 MOEFOLD_TIMEOUT_SECONDS=2 \
    MOEFOLD_DEVICE=peers timeout 25 "$moefold_test" train "${small[@]}" --ranks 2 --as-threads

# Told to stop, all ranks save together and leave.
"$moefold" train "${small[@]}" train.train_iters=1000000 checkpoint.save="$work/kept" --ranks 2 --as-threads >"$work/long" 2>&1 &
pid=$!
for _ in $(seq 300); do
    grep -q 'iteration *3/' "$work/long" && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
check told_to_stop_they_leave_with_4 [ $? = 4 ]
check and_have_saved [ -s "$work/kept/latest_checkpointed_iteration.txt" ]
exit $failed
