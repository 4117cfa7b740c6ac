#!/usr/bin/env bash
# What programs read of a run (docs/JSON.md): order and keys, of resumed runs and of ranks; who cannot write is told why.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2)
four=("${small[@]}" train.train_iters=4 validation.eval_interval=2 validation.eval_iters=1 checkpoint.save_interval=2)

# ---- every event, in its order, with its keys
cat >"$work/events.py" <<'P'
import json, sys
keys = {"start": ["iteration", "train_iters", "data", "random_weights", "weights", "schedule", "batch", "layout",
                  "checkpoints", "saves"],
        "iteration": ["time", "iteration", "train_iters", "consumed_samples", "skipped_samples", "elapsed_ms",
                      "learning_rate", "global_batch_size", "losses", "loss_scale", "grad_norm",
                      "skipped_iterations", "nan_iterations", "tflops_per_gpu", "tokens_per_second"],
        "validation": ["iteration", "losses", "perplexities"], "checkpoint": ["iteration", "folder"]}
for line in open(sys.argv[1]):
    e = json.loads(line)
    missing = [k for k in keys[e["event"]] if k not in e]
    assert not missing, (line, missing)
    if e["event"] == "validation":
        assert e["losses"]["lm loss"] > 0 and e["perplexities"]["lm loss"] > 1, line
    if e["event"] == "checkpoint":
        assert e["folder"] == sys.argv[2], line
    print(e["event"][0], e["iteration"], sep="", end=" ")
P
events() { python3 "$work/events.py" "$@"; }
both() { # NAME WANTED WORDS...: what --json and --metrics have
    local name=$1 wanted=$2
    shift 2
    rm -rf "$work/ck"
    "$moefold" train "${four[@]}" "checkpoint.save=$work/ck" --json --metrics "$work/metrics" "$@" >"$work/json" 2>"$work/err"
    check "${name}_ends_well" [ $? = 0 ]
    check "${name}_json" [ "$(events "$work/json" "$work/ck")" = "$wanted" ]
    check "${name}_metrics" cmp -s "$work/json" "$work/metrics"
}
both events 's0 i1 i2 v2 c2 i3 i4 v4 c4 '
"$moefold" train "${four[@]}" train.train_iters=6 "checkpoint.save=$work/ck" "checkpoint.load=$work/ck" --metrics "$work/metrics" >/dev/null 2>&1
check a_resumed_run_adds_its_events [ "$(events "$work/metrics" "$work/ck")" = 's0 i1 i2 v2 c2 i3 i4 v4 c4 s4 i5 i6 v6 c6 ' ]
if command -v mpirun >/dev/null && command -v mpicc >/dev/null; then
    both events_of_ranks 's0 i1 i2 v2 c2 i3 i4 v4 c4 ' --ranks 2
fi

# ---- files that cannot be written: a message and 3, not a signal
expect full_metrics_end_the_run 3 '/dev/full: cannot write metrics: No space left' "$moefold" train "${small[@]}" train.train_iters=2 --metrics /dev/full
limited() { (ulimit -f "$1" && shift && "$@"); } # blocks of 1 KiB
limit='File too large: .*ulimit -f'
expect a_limit_on_checkpoints_is_named 3 "ck2/iter_.*: cannot be written: $limit" limited 8 "$moefold" train "${small[@]}" train.train_iters=1 "checkpoint.save=$work/ck2"
check a_limit_leaves_no_checkpoint [ ! -e "$work/ck2/latest_checkpointed_iteration.txt" ]
expect a_limit_on_metrics_is_named 3 "metrics2: cannot write metrics: $limit" limited 1 "$moefold" train "${small[@]}" train.train_iters=20 --metrics "$work/metrics2"
{ limited 1 "$moefold" train "${small[@]}" train.train_iters=20 --json >"$work/out"; } 2>&1 | cat >"$work/err" # no limit on that
check a_limit_on_the_output_is_3 [ "${PIPESTATUS[0]}" = 3 ]
check a_limit_on_the_output_is_named grep -qE "standard output could not be written: $limit" "$work/err"

# ---- data that are too short from the start
cp tests/data/megatron-data/a-i32.idx "$work"
head -c 1000 tests/data/megatron-data/a-i32.bin >"$work/a-i32.bin"
expect short_data_are_refused 2 "a-i32.bin: has 1000 bytes, but the .idx puts sequence .*copy or write it again" \
    "$moefold" train "${small[@]}" train.train_iters=2 "dataset.data_path=[$work/a-i32]" "dataset.split='1'"

exit $failed
