#!/usr/bin/env bash
# `moefold diff` of runs: five planted differences are named, two runs of one recipe are noise. From the repository's root.
# Mostly waits.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

train() { # FOLDER WORDS...
    local folder=$1
    shift
    "$moefold" train tiny cluster.gpu=cpu seq=64 train.train_iters=12 --threads 1 --run "$work/$folder" "$@" >/dev/null 2>"$work/log" ||
        bad "train_$folder" "$(tail -1 "$work/log")"
}
diff_() { "$moefold" diff "$@"; }
train a mbs=1 gbs=4

# Knobs: each is named, with what it was and is; a step of four times the work is beyond any noise of a shared machine.
train batch mbs=1 gbs=32
expect a_larger_batch_is_named 1 'train.global_batch_size +4 -> 32' diff_ "$work/a" "$work/batch"
expect and_its_time_is_measured 1 "B's step is [0-9.]+ % longer than A's, its planned" diff_ "$work/a" "$work/batch"
train longer mbs=1 gbs=4 seq=512
expect longer_sequences_are_named 1 'model.seq_length +64 -> 512' diff_ "$work/a" "$work/longer"
train micro mbs=4 gbs=4
expect a_larger_microbatch_is_named 1 'train.micro_batch_size +1 -> 4' diff_ "$work/a" "$work/micro"
expect and_its_memory 1 'planned memory [0-9.]+ % larger' diff_ "$work/a" "$work/micro"
train recompute mbs=1 gbs=4 model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1
expect recompute_is_named 1 'model.recompute_granularity +null -> full' diff_ "$work/a" "$work/recompute"
# An operation: no knob differs, and it is the first of those that do.
# (What other programs take from the runs is noise, and on a busy machine there may be nothing else: it is left out here.)
cp -r "$work/a" "$work/quiet"
MOEFOLD_SLOW_OP=experts.fc1:20 moefold=$moefold_test train slow mbs=1 gbs=4
quiet() { # FOLDER: steps as long as its median, and no delay
    python3 - "$work/$1/summary.json" <<'PY'
import json, statistics, sys
s = json.load(open(sys.argv[1]))
m = statistics.median(s["step_seconds"])
s["step_seconds"], s["delay_s"] = [m * (1 + 0.01 * (i % 3)) for i in range(9)], 0
json.dump(s, open(sys.argv[1], "w"))
PY
}
quiet slow && quiet quiet
expect no_knob_differs 1 'no knob differs' diff_ "$work/quiet" "$work/slow"
first() { diff_ "$work/quiet" "$work/slow" --json | python3 -c '
import json, sys
m = json.load(sys.stdin)["measured"]
rows = m["operations"]
assert rows and rows[0]["name"] == "experts.fc1", rows[:3]
fc1 = sum(r["difference_s"] for r in rows if r["name"] == "experts.fc1")
assert not m["noise"] and fc1 > 0.02 * 4 * 3, fc1 # 4 microbatches of 3 layers, at least one phase
'; }
check the_slower_operation_is_named first
expect and_its_kind 1 'expert GEMM \(grouped\) \+' diff_ "$work/quiet" "$work/slow"

# The same run with the noise of a machine: steps that vary by some percent, in another order.
noisy() { # FOLDER SEED: a copy of a whose steps vary
    cp -r "$work/a" "$work/$1"
    python3 - "$work/a/summary.json" "$work/$1/summary.json" "$2" <<'PY'
import json, random, sys
random.seed(int(sys.argv[3]))
s = json.load(open(sys.argv[1]))
s["step_seconds"] = [0.1 * random.uniform(0.97, 1.03) for _ in range(30)]
s["delay_s"] = 0
json.dump(s, open(sys.argv[2], "w"))
PY
}
noisy one 1 && noisy two 2
expect noise_is_called_noise 0 'differ by [0-9.]+ %: noise$' diff_ "$work/one" "$work/two"
expect noise_is_no_difference 0 'they do not differ' diff_ "$work/one" "$work/two" --tolerance 0
# What other programs had of the core of one rank is left out step by step: neither does it look like a difference, nor does it
# hide one.
disturbed() { # FOLDER SLOWER: a copy of `one` whose steps are longer by that factor, and by what others had
    cp -r "$work/one" "$work/$1"
    python3 - "$work/$1/summary.json" "$2" <<'PY'
import json, random, statistics, sys
random.seed(5)
s, slower = json.load(open(sys.argv[1])), float(sys.argv[2])
d = [0.1 * random.uniform(0.2, 4) for _ in s["step_seconds"]]
s["step_seconds"] = [slower * x + y for x, y in zip(s["step_seconds"], d)]
s["delay_seconds"], s["delay_s"] = d, statistics.mean(d)
json.dump(s, open(sys.argv[1], "w"))
PY
}
disturbed busy 1 && disturbed busy_slower 1.2
expect what_others_took_is_no_difference 0 'may differ by [0-9]\.[0-9] %; they differ by 0.0 %: noise$' diff_ "$work/one" "$work/busy"
expect what_others_took_is_said 0 'other programs had the cores of B for .* of a step, which is left out' diff_ "$work/one" "$work/busy"
expect what_others_took_hides_nothing 1 "B's step is 20.0 % longer than A's, its planned" diff_ "$work/one" "$work/busy_slower"
expect real_runs_of_one_recipe 0 'no knob differs' diff_ "$work/a" "$work/a"

# ---- a run beside a recipe; builds that derive otherwise; what cannot be compared
expect a_run_beside_its_recipe 0 'A was measured at' diff_ "$work/a" "$work/a/recipe.yaml"
sed -i 's/"moefold.moe_buffer_factor": "[^"]*"/"moefold.moe_buffer_factor": "9.9"/' "$work/two/summary.json"
expect another_build_is_seen 0 'moefold.moe_buffer_factor .*-> 9.9 \(derived differently' diff_ "$work/one" "$work/two" --why
rm "$work/two/summary.json"
expect a_run_that_has_not_ended_is_read 0 'STEP +measured' diff_ "$work/one" "$work/two" --tolerance 100000
rm "$work/two/trace.json.gz"
expect a_run_without_a_trace_is_read 0 'STEP +measured' diff_ "$work/one" "$work/two" --tolerance 100000
rm "$work/two/metrics.jsonl"
expect a_run_without_metrics_is_refused 2 'two: a run.s folder without metrics.jsonl: .*repair' diff_ "$work/one" "$work/two"
"$moefold" train tests/data/golden/qwen3-moe-tiny cluster.gpu=cpu seq=64 mbs=1 gbs=4 train.train_iters=6 --threads 1 \
    --run "$work/other" >/dev/null 2>&1
expect different_models_are_refused 2 'different models|of one model' diff_ "$work/a" "$work/other"
head -c 2000 "$work/a/trace.json.gz" >"$work/one/trace.json.gz"
expect a_cut_trace_is_refused 2 'one/trace.json.gz: .*cut short.*repair' diff_ "$work/a" "$work/one"
echo '{"moefold": "run", "version": 2}' >"$work/recompute/summary.json"
expect another_version_is_refused 2 'recompute/summary.json: version is not 1.*repair' diff_ "$work/a" "$work/recompute"
echo '{"event": "iteration"}' >"$work/recompute/metrics.jsonl"
expect a_broken_line_is_refused 2 'metrics.jsonl:1: an iteration without its number; repair' diff_ "$work/a" "$work/recompute"
cp -r "$work/a" "$work/cut" && truncate -s 100 "$work/cut/summary.json"
expect a_cut_summary_is_refused 2 'cut/summary.json:.*cut short, or not JSON; repair: remove it' diff_ "$work/a" "$work/cut"
cp -r "$work/a" "$work/no.jsonl" && rm "$work/no.jsonl/summary.json"
expect a_run_without_a_summary_is_measured_alike 0 "B's step is 0.0 % longer than A's" diff_ "$work/a" "$work/no.jsonl"
expect metrics_alone_are_refused 2 'metrics of a run \(name its folder\)' diff_ "$work/a" "$work/a/metrics.jsonl"

# ---- what other programs measured
profiles=(tests/data/profile/megatron-1x4k.json.gz tests/data/profile/megatron-8x4k.json.gz)
expect profiles_are_compared 1 '10.7 ms +90.3 ms +.79.6 ms .*LM head and loss$' diff_ "${profiles[@]}"
expect the_same_profile_does_not_differ 0 'they do not differ' diff_ "${profiles[0]}" "${profiles[0]}"
expect profiles_as_json 1 '"parts":.*"differ":true' diff_ "${profiles[@]}" --json
sed 's/elapsed time per iteration (ms): 2/elapsed time per iteration (ms): 3/' tests/data/profile/megatron.log >"$work/slower.log"
expect logs_are_compared 1 "B's step is [0-9.]+ % longer.*they differ" diff_ tests/data/profile/megatron.log "$work/slower.log"
expect a_log_knows_its_noise 0 'differ by 0.0 %: noise' diff_ tests/data/profile/megatron.log tests/data/profile/megatron.log
echo 'make: *** [all] Error 1' >"$work/other.log"
expect a_log_of_another_program_is_refused 2 'other.log' diff_ tests/data/profile/megatron.log "$work/other.log"
expect our_trace_is_no_profile 2 'trace' diff_ "$work/a/trace.json.gz" "$work/batch/trace.json.gz"
exit $failed
