#!/usr/bin/env bash
# Files that end or fill up while a run reads or writes them, and the events that a run writes.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3)
wait_for() { # PATTERN FILE
    for _ in $(seq 600); do
        grep -qE "$1" "$2" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}

# ---- a data file that becomes shorter while it is mapped
for ranks in 1 2; do
    also=()
    [ $ranks = 1 ] || also=(--ranks $ranks)
    [ $ranks = 1 ] || command -v mpirun >/dev/null || continue
    cp tests/data/megatron-data/a-i32.{bin,idx} "$work"
    "$moefold" train "${small[@]}" train.train_iters=1000000 "dataset.data_path=[$work/a-i32]" "dataset.split='1'" \
        "${also[@]}" >"$work/out" 2>"$work/err" &
    pid=$!
    wait_for 'iteration +3/' "$work/out"
    : >"$work/a-i32.bin"
    wait $pid
    check "a_shorter_data_file_ends_the_run, $ranks" [ $? = 3 ]
    check "a_shorter_data_file_is_named, $ranks" grep -q "$work/a-i32.bin: had [0-9]* bytes when it was opened and has been shortened to 0; " "$work/err"
done

# ---- files over the limit of the shell
limited() { (ulimit -f "$1" && shift && "$@"); }
expect a_checkpoint_over_the_limit 3 "$work/ck/.*: cannot be written: File too large" limited 100 "$moefold" train \
    "${small[@]}" train.train_iters=2 "checkpoint.save=$work/ck"
check it_leaves_nothing_half [ -z "$(find "$work/ck" -name '*.safetensors')" ]
expect a_metrics_file_over_the_limit 3 "$work/m: cannot write metrics: File too large" limited 1 "$moefold" train "${small[@]}" \
    train.train_iters=20 --metrics "$work/m"

# ---- a full standard output
if [ -w /dev/full ]; then
    full() { "$moefold" "$@" >/dev/full; }
    expect full_output_of_train 3 'standard output could not be written' full train "${small[@]}" train.train_iters=2
    expect full_output_of_price 3 'standard output could not be written' full price tiny --gpus 8xH100 --json
    expect full_output_of_plan 3 'standard output could not be written' full plan tiny --gpus 2xH100 --seq 512 --seconds 1
    expect full_output_of_launch 3 'standard output could not be written: No space' full launch "${small[@]}" train.train_iters=2 --slurm
fi
echo whole >"$work/job.sh"
expect a_script_over_the_limit 3 "$work/job.sh: cannot be written: File too large" limited 0 "$moefold" launch "${small[@]}" \
    train.train_iters=2 --slurm --out "$work/job.sh"
check a_script_is_replaced_whole_or_not [ "$(cat "$work/job.sh")" = whole ]

# ---- events: all that docs/JSON.md names, on the standard output and in the file
for async in false true; do
    "$moefold" train "${small[@]}" train.train_iters=4 checkpoint.save_interval=2 "checkpoint.save=$work/events-$async" \
        checkpoint.async_save=$async validation.eval_interval=3 validation.eval_iters=1 \
        --json --metrics "$work/metrics" >"$work/out" 2>"$work/err"
    check "run_with_events, $async" [ $? = 0 ]
    python3 - "$work/out" "$work/events-$async" <<'END'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
of = lambda kind: [e for e in events if e["event"] == kind]
assert [e["iteration"] for e in of("iteration")] == [1, 2, 3, 4], events
assert [(e["iteration"], e["folder"]) for e in of("checkpoint")] == [(2, sys.argv[2]), (4, sys.argv[2])], events
assert [e["iteration"] for e in of("validation")] == [3], events
assert of("validation")[0]["losses"]["lm loss"] > 0 and of("validation")[0]["perplexities"]["lm loss"] > 1, events
assert [e["iteration"] for e in of("start")] == [0] and len(events) == 8, events
END
    check "events_are_written, $async" [ $? = 0 ]
    check "events_are_in_the_file, $async" cmp -s "$work/out" "$work/metrics"
done
exit $failed
