#!/usr/bin/env bash
# logger.tensorboard_dir: what a run's lines say, in TensorBoard's event files. From the repository's root.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

events() { python3 tests/train/read_events.py "$@"; }
small=(tiny cluster.gpu=cpu mbs=1 gbs=2 seq=64 train.train_iters=4 validation.eval_interval=2 validation.eval_iters=1)
board=$work/a/deep/folder
expect run_with_event_files 0 'done after 4 steps' "$moefold" train "${small[@]}" logger.tensorboard_dir="$board" \
    logger.log_interval=1 checkpoint.save="$work/save" --metrics "$work/metrics.jsonl"
events "$board" >"$work/events" || bad events_can_be_read "$(head -1 "$work/events")"
same() { # the scalars are the metrics' numbers, to the float
    python3 - "$work/metrics.jsonl" "$work/events" <<'PY'
import json, struct, sys
single = lambda x: f"{struct.unpack('f', struct.pack('f', x))[0]:.7g}"
got = {}
for line in open(sys.argv[2]):
    tag, step, value = line.rsplit(" ", 2)
    got[tag, int(step)] = value.strip()
wanted = {}
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event"] == "iteration":
        n = e["iteration"]
        wanted.update({(k, n): v for k, v in e["losses"].items()})
        wanted.update({("learning-rate", n): e["learning_rate"], ("grad-norm", n): e["grad_norm"],
                       ("batch-size", n): e["global_batch_size"], ("iteration-time", n): e["elapsed_ms"] / 1000})
    if e["event"] == "validation":
        wanted.update({(k + " validation", e["iteration"]): v for k, v in e["losses"].items()})
        wanted.update({(k + " validation ppl", e["iteration"]): v for k, v in e["perplexities"].items()})
assert len(wanted) >= 4 * 5 + 2 * 2, wanted
for key, v in wanted.items():
    a, b = float(got[key]), float(single(v))
    assert a == b or abs(a - b) <= 1e-6 * abs(b), (key, got[key], v)
PY
}
check scalars_are_the_metrics same
expect a_resumed_run_adds_a_file 0 'done after 2 steps' "$moefold" train "${small[@]}" train.train_iters=6 \
    logger.tensorboard_dir="$board" checkpoint.load="$work/save" logger.log_interval=1 scheduler.override_opt_param_scheduler=true
check two_files_of_one_run [ "$(ls "$board" | wc -l)" = 2 ]
events "$board" >"$work/events"
check both_are_read grep -q '^lm loss 6 ' "$work/events"

# The reader notices a flipped bit.
file=$(ls "$board"/* | head -1)
python3 - "$file" <<'PY'
import sys
d = bytearray(open(sys.argv[1], "rb").read())
d[len(d) // 2] ^= 4
open(sys.argv[1], "wb").write(d)
PY
expect a_flipped_bit_is_noticed 1 'checksum' events "$board"
rm "$file"

out=$(events "$board" --tensorboard 2>/dev/null)
case $? in
77) echo "ok tensorboards_own_reader # skip TensorBoard is not installed" ;;
0) check tensorboards_own_reader [ "$(grep -c '^lm loss [0-9]' <<<"$out")" = 2 ] ;;
*) bad tensorboards_own_reader "$out" ;;
esac

touch "$work/file"
expect a_file_is_no_folder 2 'logger.tensorboard_dir=.*file.*repair' "$moefold" train "${small[@]}" \
    logger.tensorboard_dir="$work/file"
expect no_folder_below_a_file 2 'logger.tensorboard_dir=.*repair' "$moefold" train "${small[@]}" \
    logger.tensorboard_dir="$work/file/x"
exit $failed
