#!/usr/bin/env bash
# Checkpoints as a person meets them: what a run must not destroy, and what it must not accept.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3)
train() { "$moefold" train "${small[@]}" "$@"; }

# ---- a diverged run keeps its good checkpoints
ck=$work/diverged
train train.train_iters=4 checkpoint.save_interval=1 "checkpoint.save=$ck" checkpoint.most_recent_k=2 >/dev/null 2>&1
sum=$(cat "$ck"/iter_0000004/*.safetensors | cksum)
mad=("checkpoint.save=$ck" "checkpoint.load=$ck" checkpoint.save_interval=1 checkpoint.most_recent_k=2 optimizer.lr=1e30 optimizer.clip_grad=0.0)
train train.train_iters=400 "${mad[@]}" --json >"$work/out" 2>"$work/err"
check diverged_run_exits_3 [ $? = 3 ]
check diverged_run_says_why grep -qE '10 steps in a row were skipped.*moefold.skip_limit=10' "$work/err"
check diverged_run_says_what_is_not_saved grep -qE 'no checkpoint of step [0-9]+ in .*skipped' "$work/err"
check diverged_run_keeps_the_good_one [ "$(cat "$ck"/iter_0000004/*.safetensors | cksum)" = "$sum" ]
check skipped_steps_have_no_loss grep -qE '"lm loss":null.*"skipped_iterations":1' "$work/out"
check skipped_steps_have_no_zero_loss bash -c "! grep -q '\"lm loss\":0[.,}]' '$work/out'"
check no_checkpoint_while_skipping [ "$(cat "$ck/latest_checkpointed_iteration.txt")" -le 5 ]
before=$(ls "$ck")
train train.train_iters=400 "${mad[@]}" moefold.skip_limit=3 >"$work/out" 2>"$work/err"
check limit_of_skips_is_a_knob grep -q '3 steps in a row were skipped' "$work/err"
check a_second_run_destroys_nothing [ "$(ls "$ck")" = "$before" ]
check lines_of_skipped_steps_have_no_loss bash -c "! grep -E 'skipped iterations: +1' '$work/out' | grep -q 'lm loss'"
expect the_end_of_a_diverged_run_is_no_success 3 'its end is not saved' "$moefold" train "${small[@]}" train.train_iters=8 "${mad[@]}"
expect a_run_without_checkpoints_may_end_skipping 0 'done after 3 steps' "$moefold" train "${small[@]}" train.train_iters=3 optimizer.lr=1e30 optimizer.clip_grad=0.0
nan=(train.train_iters=3 optimizer.lr=1e30 optimizer.clip_grad=0.0 moefold.on_nan=stop)
expect checks_of_nan_are_read 0 'done after 3 steps' "$moefold" train "${small[@]}" "${nan[@]}" rerun_state_machine.check_for_nan_in_loss=false ddp.check_for_nan_in_grad=false
expect nan_stops_with_the_checks 3 'moefold.on_nan=stop' "$moefold" train "${small[@]}" "${nan[@]}"
exit $failed
