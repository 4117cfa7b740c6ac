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
check diverged_run_says_what_is_not_saved grep -qE 'step [0-9]+ is not saved in .*skipped' "$work/err"
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

# ---- checkpoints of other programs are left alone
theirs=$work/theirs
mkdir -p "$theirs/iter_0000001" && echo '{"sharded_backend": "torch_dist"}' >"$theirs/iter_0000001/metadata.json"
echo weights >"$theirs/iter_0000001/__0_0.distcp"
echo 1 >"$theirs/latest_checkpointed_iteration.txt"
before=$(cd "$theirs" && find . -type f -exec cksum {} + | sort)
expect foreign_checkpoints_are_not_joined 2 'iter_0000001: is not a checkpoint of moefold.*checkpoint.save' "$moefold" train "${small[@]}" train.train_iters=3 checkpoint.save_interval=1 checkpoint.most_recent_k=1 "checkpoint.save=$theirs"
check foreign_checkpoints_stay [ "$(cd "$theirs" && find . -type f -exec cksum {} + | sort)" = "$before" ]

# ---- what is loaded, and from where, is said
expect a_wrong_load_folder_is_refused 2 'checkpoint.load=.*/nowhere: is not there' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/nowhere"
mkdir "$work/empty"
expect an_empty_load_folder_is_refused 2 'checkpoint.load=.*/empty: holds no checkpoint' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/empty"
without what_is_refused_is_not_near 'nearest name is' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/empty"
expect a_checkpoint_itself 2 "this is a checkpoint itself: checkpoint.load=$ck with" "$moefold" train "${small[@]}" train.train_iters=9 "checkpoint.load=$ck/iter_0000004"
expect another_save_folder_does_not_help 2 'holds no checkpoint' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/empty" "checkpoint.save=$work/elsewhere"
expect the_save_folder_may_be_empty 0 'yet; starting at step 0' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/empty/" "checkpoint.save=$work/empty"
expect the_iteration_that_is_loaded_is_said 0 'loaded checkpoint from .*at iteration 2' "$moefold" train "${small[@]}" train.train_iters=3 "checkpoint.load=$work/empty" "checkpoint.save=$work/empty"
expect the_save_folder_may_be_missing 0 'yet; starting at step 0' "$moefold" train "${small[@]}" train.train_iters=1 "checkpoint.load=$work/new" "checkpoint.save=$work/new/"
expect a_missing_step_is_refused 2 'iter_0000077: is not there; the latest of .* is of step [0-9]+$' "$moefold" train "${small[@]}" train.train_iters=2 "checkpoint.load=$work/new" checkpoint.ckpt_step=77
expect finetuning_says_what_it_starts_from 0 'weights of iteration 1 loaded' "$moefold" train "${small[@]}" train.train_iters=1 "checkpoint.load=$work/new" checkpoint.finetune=true

# ---- a folder that cannot be written to is refused before the first step
echo file >"$work/file"
expect a_save_folder_under_a_file_is_refused 3 'checkpoint.save=.*is a file' "$moefold" train "${small[@]}" train.train_iters=100000 "checkpoint.save=$work/file/ck"
expect a_save_folder_that_cannot_be_made_is_refused 3 'checkpoint.save=/proc/nowhere' "$moefold" train "${small[@]}" train.train_iters=100000 checkpoint.save=/proc/nowhere
without nothing_is_trained_before 'iteration +1/' "$moefold" train "${small[@]}" train.train_iters=20 checkpoint.save=/proc/nowhere
cat >"$work/full.c" <<'EOF'
#include <string.h>
#include <sys/statvfs.h>
int statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    memset(out, 0, sizeof *out);
    out->f_frsize = 4096;
    out->f_blocks = 1000000;
    out->f_bavail = 1000;
    return 0;
}
EOF
cc -shared -fPIC -o "$work/full.so" "$work/full.c"
expect a_disk_without_space_is_refused 3 'checkpoint.save=.*are free, but a checkpoint needs' env "LD_PRELOAD=$work/full.so" "$moefold" train "${small[@]}" train.train_iters=20 "checkpoint.save=$work/space"

# ---- a save that fails later is reported and made again; some in a row end the run
wait_for() { # PATTERN FILE
    for _ in $(seq 200); do
        grep -qE "$1" "$2" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
fails() { # NAME STEPS OVERRIDES...
    ck=$work/$1
    : >"$work/out" && : >"$work/err" # what an earlier run said is not this one's
    "$moefold" train "${small[@]}" "train.train_iters=$2" checkpoint.save_interval=5 "checkpoint.save=$ck" "${@:3}" >"$work/out" 2>"$work/err" &
    pid=$!
    wait_for 'successfully saved checkpoint from iteration +5 ' "$work/out"
    mv "$ck" "$ck.away"
    until echo file 2>/dev/null >"$ck"; do rm -rf "$ck"; done # the run may have made the folder again
}
fails away 100000 moefold.save_limit=100000
check a_failed_save_is_reported wait_for 'checkpoint of step [0-9]+ was not saved .*is a file' "$work/err"
rm "$ck" && mv "$ck.away" "$ck"
: >"$work/out.now"
tail -n 0 -f "$work/out" >"$work/out.now" 2>/dev/null &
tail=$!
check a_failed_save_is_made_again wait_for 'successfully saved' "$work/out.now"
kill $tail
kill -TERM $pid
wait $pid
check a_failed_save_does_not_end_the_run [ $? = 4 ]
for async in false true; do
    fails "gone-$async" 100000 moefold.save_limit=2 checkpoint.async_save=$async
    wait $pid
    check "some_failed_saves_end_the_run, async $async" [ $? = 3 ]
    check "and_say_which_knob, async $async" grep -q '2 saves in a row failed; moefold.save_limit=2' "$work/err"
    check "what_was_saved_is_whole, async $async" [ -s "$ck.away/iter_0000005/metadata.json" ]
done
fails last 100000 moefold.save_limit=100000
wait_for 'was not saved' "$work/err"
kill -TERM $pid
sleep 2
rm "$ck" && mv "$ck.away" "$ck"
wait $pid
check the_last_save_is_made_again [ $? = 4 ]
check the_last_save_is_there [ -d "$ck/iter_$(printf %07d "$(cat "$ck/latest_checkpointed_iteration.txt")")" ]

# ---- a checkpoint of another shape or recipe
ck=$work/shape
train train.train_iters=2 "checkpoint.save=$ck" model.vocab_size=1024 >/dev/null 2>&1
load=(train.train_iters=3 "checkpoint.load=$ck")
expect the_same_recipe_resumes 0 'done after 1 steps' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024
without the_same_recipe_has_changed_nothing 'changed since.*(model|optimizer|rng)\.' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024
expect a_smaller_vocabulary_is_refused 2 'another model.*model.vocab_size was 1024 there and is 512' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=512
expect a_smaller_vocabulary_is_refused_for_weights_too 2 'another model.*model.vocab_size was 1024 there and is 512' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=512 checkpoint.finetune=true
expect another_rotary_base_is_refused 2 'another model: model.rotary_base was .*repair: model.rotary_base=' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024 model.rotary_base=77777
expect weights_may_start_with_another_rotary_base 0 'changed since iteration 2 .*model.rotary_base' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024 model.rotary_base=77777 checkpoint.finetune=true
expect other_routing_of_the_same_shape_is_refused 2 'another model: model.moe_router_topk was' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024 model.moe_router_topk=3
expect what_else_changed_is_named 0 'changed since iteration 2 .*optimizer.lr 0.003 -> 0.002.*rng.seed 1234 -> 77' "$moefold" train "${small[@]}" "${load[@]}" model.vocab_size=1024 rng.seed=77 optimizer.lr=2e-3

# ---- two jobs in one folder: the second is refused, with the name of the first
ck=$work/shared
"$moefold" train "${small[@]}" train.train_iters=100000 checkpoint.save_interval=3 checkpoint.most_recent_k=200 "checkpoint.save=$ck" >"$work/out" 2>"$work/err" &
pid=$!
wait_for 'successfully saved' "$work/out"
expect a_second_job_is_refused 3 "checkpoint.save=.*another job saves there \(process $pid on $(hostname), since" "$moefold" train "${small[@]}" train.train_iters=3 checkpoint.save_interval=1 "checkpoint.save=$ck"
expect a_second_job_may_read 0 'done after' "$moefold" train "${small[@]}" train.train_iters=3 "checkpoint.load=$ck" checkpoint.finetune=true
kill -9 $pid
wait $pid 2>/dev/null
expect a_killed_job_leaves_no_lock 0 'loaded checkpoint' "$moefold" train "${small[@]}" train.train_iters=3 "checkpoint.save=$ck" "checkpoint.load=$ck"

# ---- whose schedule a resumed run follows
sched=(train.train_iters=4 scheduler.lr_decay_style=linear optimizer.min_lr=0)
train "${sched[@]}" checkpoint.save_interval=2 "checkpoint.save=$work/rates" --json 2>/dev/null | grep -o '"learning_rate":[^,]*' >"$work/rates.whole"
resumed_rates() { train "${sched[@]}" "checkpoint.load=$work/rates" checkpoint.ckpt_step=2 optimizer.lr=1e-3 "$@" --json 2>/dev/null | grep -o '"learning_rate":[^,]*'; }
check the_schedule_of_the_checkpoint_is_taken [ "$(resumed_rates scheduler.use_checkpoint_opt_param_scheduler=true)" = "$(tail -2 "$work/rates.whole")" ]
check else_the_schedule_is_the_recipes [ "$(resumed_rates)" != "$(tail -2 "$work/rates.whole")" ]
check the_schedules_have_rates [ "$(wc -l <"$work/rates.whole")" = 4 ]

# ---- a job that is started again goes on where its folder ends; another job is refused there
ck=$work/again
again() { "$moefold" train "${small[@]}" checkpoint.save_interval=5 "checkpoint.save=$ck" "$@"; }
again train.train_iters=8 --metrics "$work/again.jsonl" >/dev/null 2>&1
expect a_complete_job_does_nothing 0 'holds iteration 8 of this job: resuming there; no step is left to do' again train.train_iters=8
rm -r "$ck/iter_0000008" && echo 5 >"$ck/latest_checkpointed_iteration.txt" # as if it had been killed in step 9
expect the_same_job_is_resumed 0 'loaded checkpoint from .* at iteration 5$' again train.train_iters=10 --metrics "$work/again.jsonl"
iterations() { grep -o '"event":"iteration".*"iteration":[0-9]*' "$1" | grep -o '[0-9]*$' | xargs; }
check metrics_repeat_no_step [ "$(iterations "$work/again.jsonl")" = "1 2 3 4 5 6 7 8 9 10" ]
check metrics_name_no_checkpoint_twice [ "$(grep -c '"event":"checkpoint"' "$work/again.jsonl")" = 2 ]
expect another_layout_is_the_same_job 0 'at iteration 10$' again train.train_iters=11 tp=2 --ranks 2 --as-threads
for other in optimizer.lr=1e-3 rng.seed=7 dataset.split=90,5,5 scheduler.lr_warmup_iters=1 model.moe_aux_loss_coeff=0.5 train.global_batch_size=4; do
    expect "another_job_is_refused ${other%=*}" 2 "holds iteration 11 of another job: ${other%=*} was .* here; repair: checkpoint.save=ANOTHER_FOLDER .* or ${other%=*}=.* or checkpoint.load=$ck " again train.train_iters=12 "$other"
done
expect another_model_is_refused 2 'of another job: model.rotary_base was 10000.0 there' again train.train_iters=12 model.rotary_base=77
check a_refused_job_changes_nothing [ "$(cat "$ck/latest_checkpointed_iteration.txt")" = 11 ]
expect the_second_word_goes_on 0 'changed since iteration 11 .*optimizer.lr' again train.train_iters=12 optimizer.lr=1e-3 "checkpoint.load=$ck"
expect weights_do_not_start_in_their_own_folder 2 'finetune=true starts at step 0, but .* holds iteration' again train.train_iters=2 "checkpoint.load=$ck" checkpoint.finetune=true
first=$ck ck=$work/moved
expect a_job_may_move 0 'loaded checkpoint from .*/again .* at iteration 12' again train.train_iters=13 "checkpoint.load=$first"
expect and_goes_on_where_it_moved 0 'loaded checkpoint from .*/moved .* at iteration 13' again train.train_iters=14 "checkpoint.load=$first" checkpoint.ckpt_step=12
ck=$work/tuned
expect weights_start_a_job 0 'weights of iteration 12 loaded' again train.train_iters=2 "checkpoint.load=$first" checkpoint.finetune=true
expect and_it_goes_on_from_its_own 0 'loaded checkpoint from .*/tuned .* at iteration 2' again train.train_iters=3 "checkpoint.load=$first" checkpoint.finetune=true
ck=$work/grown
MOEFOLD_FAULT=overflow:2 moefold=$moefold_test again train.train_iters=3 >/dev/null 2>&1
expect a_found_buffer_factor_is_kept 0 'moe_buffer_factor 1.5 becomes 4.5, as before iteration 3' again train.train_iters=4
expect unless_it_shall_not_grow 0 'done after 1 steps' again train.train_iters=5 moefold.on_overflow=stop
without a_found_factor_is_no_change 'changed since.*moe_buffer_factor' again train.train_iters=6
run=$work/run
again train.train_iters=6 --run "$run" >/dev/null 2>&1
expect a_run_without_its_checkpoint_stays 2 'the folder belongs to another run' again train.train_iters=6 --run "$run" "checkpoint.save=$work/nothing"
rm "$run/summary.json" # as if it had been killed before its first checkpoint
expect a_run_that_was_killed_early_begins_anew 0 'done after 6 steps' again train.train_iters=6 --run "$run" "checkpoint.save=$work/nothing"
check and_so_do_its_metrics [ "$(iterations "$run/metrics.jsonl")" = "1 2 3 4 5 6" ]

# ---- the checkpoint with the smallest validation loss stays; a learning rate that grows makes later ones worse
ck=$work/best
best=(checkpoint.most_recent_k=1 validation.eval_interval=2 validation.eval_iters=2 scheduler.lr_warmup_iters=12 scheduler.lr_decay_iters=13
    optimizer.lr=3 optimizer.clip_grad=0.0 moefold.keep_best=true)
again train.train_iters=6 "${best[@]}" >"$work/out" 2>/dev/null
again train.train_iters=10 "${best[@]}" >>"$work/out" 2>/dev/null # it knows the best one of the part before
lowest=$(sed -nE 's/.*validation loss at iteration ([0-9]+) \| lm loss value: ([^ ]*) .*/\2 \1/p' "$work/out" | sort -g | head -1 | cut -d' ' -f2)
check the_best_one_is_not_the_last [ "${lowest:-10}" -lt 10 ]
check the_best_one_is_named [ "$(cat "$ck/best_checkpointed_iteration.txt")" = "$lowest" ]
check the_best_one_and_the_last_stay [ "$(cd "$ck" && echo iter_*)" = "$(printf 'iter_%07d iter_0000010' "$lowest")" ]
expect the_best_one_loads 0 "at iteration $lowest\$" "$moefold" train "${small[@]}" train.train_iters=10 "checkpoint.load=$ck" "checkpoint.ckpt_step=$lowest" train.exit_interval=1
expect the_best_one_needs_validation 1 'error +best-needs-validation' "$moefold" check --everything "${small[@]}" moefold.keep_best=true "checkpoint.save=$ck"
exit $failed
