#!/usr/bin/env bash
# A run that is told to stop while its steps are skipped: nothing is saved over what is good, and that is said.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3)
mad=(train.train_iters=100000 checkpoint.save_interval=1 checkpoint.most_recent_k=2 optimizer.lr=1e30 optimizer.clip_grad=0.0 moefold.skip_limit=0)
pid=
trap '[ -z "$pid" ] || kill -KILL $pid 2>/dev/null; rm -rf "$work"' EXIT
wait_for() { # PATTERN FILE
    for _ in $(seq 1200); do
        grep -qE "$1" "$2" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
sums() { (cd "$1" && find iter_* latest* -type f -exec cksum {} + | sort); }
ck=$work/ck
"$moefold" train "${small[@]}" train.train_iters=4 checkpoint.save_interval=1 checkpoint.most_recent_k=2 "checkpoint.save=$ck" >/dev/null 2>&1
stop() { # NAME SIGNAL WORDS...: is told to stop once it skips
    "$moefold" train "${small[@]}" "${mad[@]}" "${@:3}" >"$work/out" 2>"$work/err" &
    pid=$!
    wait_for 'number of skipped iterations: +1 ' "$work/out" || bad "$1: skips" "$(tail -3 "$work/err")"
    wait_for 'step [0-9]+ is not saved in' "$work/err"
    before=
    until now=$(sums "$ck" 2>&1) && [ "$now" = "$before" ]; do # the save before the first skip may not have ended
        before=$now
        sleep 0.5
    done
    kill -"$2" $pid
    wait $pid
    check "$1: exits with 3" [ $? = 3 ]
    pid=
    check "$1: nothing is saved and nothing removed" [ "$(sums "$ck")" = "$before" ]
    check "$1: says that its end is not saved" grep -qE 'was told to stop at step [0-9]+ with [0-9]+ skipped steps in a row, so its end is not saved in checkpoint.save=' "$work/err" || tail -3 "$work/err"
    latest=$(cat "$ck/latest_checkpointed_iteration.txt")
    check "$1: names the last good checkpoint" grep -qE "the last checkpoint before them is iteration $latest of $ck \(checkpoint.ckpt_step=[0-9]+: the one before it\)" "$work/err"
}
stop one_rank TERM "checkpoint.save=$ck" "checkpoint.load=$ck"
stop beside_the_steps USR1 "checkpoint.save=$ck" "checkpoint.load=$ck" checkpoint.async_save=true
if command -v mpirun >/dev/null; then
    stop two_ranks TERM "checkpoint.save=$ck" "checkpoint.load=$ck" --ranks 2
else
    echo "ok two_ranks # skip mpirun (Open MPI) is not installed"
fi
step=$(sed -nE 's/.*checkpoint.ckpt_step=([0-9]+): the one before.*/\1/p' "$work/err")
expect the_step_that_was_named_resumes 0 "done after 1 steps: lm loss [0-9]" "$moefold" train "${small[@]}" "train.train_iters=$((step + 1))" "checkpoint.load=$ck" "checkpoint.ckpt_step=$step"
expect a_limit_of_skips_names_it_too 3 'stopped by moefold.skip_limit=2; .*the last checkpoint before them is iteration [0-9]+ of' "$moefold" train "${small[@]}" "${mad[@]}" moefold.skip_limit=2 "checkpoint.load=$ck" "checkpoint.save=$ck"
expect without_a_checkpoint_that_is_said 3 'there is no checkpoint in .*/none to go back to' "$moefold" train "${small[@]}" train.train_iters=2 checkpoint.save_interval=100 optimizer.lr=1e30 optimizer.clip_grad=0.0 "checkpoint.save=$work/none"
# without checkpoint.save nothing was to be kept: that is a stop like any other
"$moefold" train "${small[@]}" "${mad[@]}" >"$work/out" 2>"$work/err" &
pid=$!
wait_for 'number of skipped iterations: +1 ' "$work/out"
kill -TERM $pid
wait $pid
check without_a_folder_a_stop_is_fine [ $? = 4 ]
pid=
exit $failed
