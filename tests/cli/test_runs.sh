#!/usr/bin/env bash
# Runs that leave a trace and a folder: `train --trace`, `train --run`. From the repository's root.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

checked() { python3 tests/predict/check_trace.py "$@"; }
small=(tiny cluster.gpu=cpu mbs=1 gbs=2 seq=64 logger.log_interval=1)
ranks=(tiny cluster.gpu=cpu tp=2 pp=2 ep=4 etp=1 mbs=1 gbs=8 seq=64)

# ---- traces
expect eight_ranks_are_traced 0 'trace .*of 8 ranks in steps 3 to 4, [1-9]' \
    "$moefold" train "${ranks[@]}" train.train_iters=4 --ranks 8 --trace "$work/eight.json.gz"
expect one_file_of_all_ranks 0 '"send": ([0-9]+), "receive": \1' checked "$work/eight.json.gz" --measured
expect streams_of_all_ranks 0 '"rank 7, pipeline stage 1"' zcat "$work/eight.json.gz"
expect operations_are_whole 0 'every operation is there' python3 - "$work/eight.json.gz" <<'PY'
import gzip, json, sys
d = json.load(gzip.open(sys.argv[1]))
ops = [e for e in d["traceEvents"] if e["ph"] == "X" and e["args"]["what"] == "operation"]
head = d["otherData"]
assert head["source"] == "measured" and head["steps"] == 2 and head["first_step"] == 3
keys = lambda name: [e for e in ops if e["name"] == name]
assert all("layer" in e["args"] and "microbatch" in e["args"] and e["args"]["bytes"] > 0 for e in keys("qkv"))
# 2 steps, 8 ranks; each does 4 microbatches in its 2 layers, in one direction
forward = [e for e in keys("experts.fc1") if e["args"]["phase"] == "forward"]
assert len(forward) == 2 * 8 * 4 * 2 or len(forward) == 2 * 8 * 4 * 1, len(forward)
assert {e["pid"] for e in ops} == set(range(8))
assert any(e["cat"] == "EP communication" for e in ops) and any(e["cat"] == "optimizer" for e in ops)
print("every operation is there")
PY
expect steps_can_be_named 0 'in steps 2 to 3,' "$moefold" train "${small[@]}" train.train_iters=5 --trace "$work/named.json" \
    --trace-steps 2-3
expect one_step_can_be_named 0 'in steps 5 to 5,' "$moefold" train "${small[@]}" train.train_iters=5 --trace "$work/one.json" \
    --trace-steps 5
expect an_interval_ends_it 0 'in steps 3 to 4,' "$moefold" train "${small[@]}" train.train_iters=50 train.exit_interval=4 \
    --trace "$work/interval.json"
expect late_devices_are_traced 0 'trace ' env MOEFOLD_DEVICE=deferred:3 "$moefold_test" train "${small[@]}" train.train_iters=3 \
    --trace "$work/late.json"
expect late_traces_are_valid 0 '"streams"' checked "$work/late.json" --measured
same() { # the same losses with and without
    "$moefold" train "${small[@]}" train.train_iters=5 "$@" 2>/dev/null | grep -o 'lm loss: [^|]*grad norm: [^|]*'
}
check a_trace_changes_no_loss [ "$(same)" = "$(same --trace "$work/named.json")" ]
"$moefold" price "${ranks[@]}" cluster.n_gpus=8 --whole-step --trace "$work/predicted.json.gz" >/dev/null
expect predicted_beside_measured 0 'B        .*: measured' "$moefold" trace "$work/predicted.json.gz" "$work/eight.json.gz"
# but what is packed for replicas, which differs between ranks of a stage, of which a price plays the first
common() { "$moefold" trace "$work/predicted.json.gz" "$work/eight.json.gz" --top 500 --json | python3 -c '
import json, sys
rows = [r for r in json.load(sys.stdin)["rows"] if r["what"] == "operation" and r["kind"] != "optimizer" and r["name"] not in ("pack", "unpack")]
both = [r for r in rows if r["times"][0] and r["times"][1]]
assert len(both) > 60, len(both)
off = [r for r in both if abs(r["times"][0] - r["times"][1]) > 1e-9]
assert not off, off[:3]'; }
check each_operation_runs_as_often_as_predicted common
for bad in 0 3-2 a 2-x 7-9- 1-100000; do
    expect "steps_are_judged_$bad" 2 "trace-steps $bad.*repair" "$moefold" train "${small[@]}" train.train_iters=5 \
        --trace "$work/x.json" --trace-steps "$bad"
done
expect steps_are_of_the_run 2 'trace-steps 6-7: this run does steps 1 to 5; repair' "$moefold" train "${small[@]}" \
    train.train_iters=5 --trace "$work/x.json" --trace-steps 6-7
expect steps_need_a_file 2 'trace-steps 2: .*repair: --trace FILE' "$moefold" train "${small[@]}" train.train_iters=5 \
    --trace-steps 2
expect a_folder_is_no_trace 2 'is a folder; repair' "$moefold" train "${small[@]}" train.train_iters=5 --trace "$work"

# ---- what is not there
expect a_missing_trace_has_a_repair 2 'nowhere.json: No such file.*; repair: name a file that `price --trace`' "$moefold" trace \
    "$work/nowhere.json" "$work/named.json"
expect an_unknown_revision_has_a_repair 2 'git does not know it.*; repair: name a revision that' "$moefold" show nosuchrev:recipes/a.yaml
expect a_rank_out_of_range_has_a_repair 2 'rank 99: ranks are 0 to 7 .cluster.n_gpus=8.; repair: --rank 0' "$moefold" price \
    "${ranks[@]}" cluster.n_gpus=8 --trace "$work/x.json" --rank 99
head -c 3000 "$work/eight.json.gz" >"$work/cut.json.gz"
expect a_cut_trace_has_a_repair 2 'cut.json.gz: .*cut short.*; repair: write it again' "$moefold" trace "$work/cut.json.gz" \
    "$work/named.json"
head -c 3000 "$work/named.json" >"$work/cut.json"
expect a_cut_text_has_a_repair 2 'cut.json:.*repair: it is cut short or not JSON' "$moefold" trace "$work/named.json" "$work/cut.json"
echo '{"traceEvents": []}' >"$work/other.json"
expect a_trace_of_others_is_refused 2 'other.json: not a trace of moefold.*repair' "$moefold" trace "$work/named.json" "$work/other.json"

# ---- folders
run=$work/runs/a
expect a_run_has_a_folder 0 'done after 6 steps' "$moefold" train "${small[@]}" train.train_iters=6 --run "$run" \
    checkpoint.save="$work/save"
for core in $(seq "$(nproc)"); do timeout 60 sh -c 'while :; do :; done' & done
expect predicted_and_measured_meet 0 '^a step took [0-9.]+ m?s .median., [0-9.]+ m?s were predicted: no comparison, because other programs had [0-9.]+ of [0-9]+ cores' \
    "$moefold" train "${small[@]}" train.train_iters=12 --run "$work/runs/busy"
kill $(jobs -p)
wait 2>/dev/null
check all_files_are_there [ "$(ls "$run" | tr '\n' ' ')" = 'metrics.jsonl recipe.yaml routing.json summary.json trace.json.gz ' ]
expect its_recipe_can_be_used 0 '^STEP' "$moefold" price "$run/recipe.yaml"
expect its_loads_can_be_used 0 '^STEP' "$moefold" price "$run/recipe.yaml" --routing "$run/routing.json"
expect its_trace_is_valid 0 '"streams"' checked "$run/trace.json.gz" --measured
expect its_summary_is_whole 0 'as it should be' python3 - "$run" <<'PY'
import json, sys
s = json.load(open(sys.argv[1] + "/summary.json"))
lines = [json.loads(l) for l in open(sys.argv[1] + "/metrics.jsonl")]
steps = [l for l in lines if l["event"] == "iteration"]
assert s["outcome"] == "finished" and s["iterations"] == len(steps) == 6 and s["iteration"] == 6
assert len(s["step_seconds"]) == 5 and s["last_loss"] and abs(s["last_loss"] - steps[-1]["losses"]["lm loss"]) < 1e-6
assert s["memory"]["planned_bytes"] == sum(s["memory"]["regions"].values()) or s["memory"]["planned_bytes"] > 0
assert s["memory"]["resident_bytes"] > 0 and s["knobs"]["train.train_iters"] == "6"
for side in ("predicted", "measured"):
    assert abs(sum(p["seconds"] for p in s[side]["parts"]) / s[side]["step_s"] - 1) < 1e-6, side
print("as it should be")
PY
expect another_runs_folder_is_refused 2 "run $run: the folder belongs to another run .*recipe.yaml\); repair" "$moefold" train \
    "${small[@]}" train.train_iters=6 --run "$run"
expect the_same_run_goes_on 0 'done after 2 steps' "$moefold" train "${small[@]}" train.train_iters=8 --run "$run" \
    checkpoint.load="$work/save" checkpoint.save="$work/save" scheduler.override_opt_param_scheduler=true
check metrics_go_on [ "$(grep -c '"event":"iteration"' "$run/metrics.jsonl")" = 8 ]
expect another_recipe_is_refused 2 'optimizer.lr=unset there, 0.01 here; repair' "$moefold" train "${small[@]}" \
    train.train_iters=9 --run "$run" checkpoint.load="$work/save" scheduler.override_opt_param_scheduler=true optimizer.lr=0.01
mkdir "$work/full" && touch "$work/full/thesis.doc"
expect a_folder_of_others_is_refused 2 'is not empty and holds no run.*repair' "$moefold" train "${small[@]}" \
    train.train_iters=6 --run "$work/full"
check and_left_alone [ "$(ls "$work/full")" = thesis.doc ]
expect a_file_is_no_folder 2 "run $work/full/thesis.doc: .*is a file; repair" "$moefold" train "${small[@]}" \
    train.train_iters=6 --run "$work/full/thesis.doc"
expect two_metrics_are_refused 2 'metrics x.jsonl: --run .* writes .*repair' "$moefold" train "${small[@]}" \
    train.train_iters=6 --run "$work/new" --metrics x.jsonl
expect a_failed_run_says_so 3 'stopped because moefold.on_nan=stop' "$moefold" train "${small[@]}" train.train_iters=6 \
    --run "$work/nan" optimizer.lr=1e30 optimizer.clip_grad=0 moefold.on_nan=stop
expect in_its_summary 0 '"outcome": "failed"' cat "$work/nan/summary.json"
exit $failed
