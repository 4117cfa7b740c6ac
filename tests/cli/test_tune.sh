#!/usr/bin/env bash
# `moefold tune`: on an invented machine, where trials take no time, and once on this one. From the repository's root.
. tests/cli/saying.sh
export MOEFOLD=$moefold OMP_WAIT_POLICY=passive CACHE=$work/cache
mkdir "$CACHE"
invented() { MOEFOLD_TUNE_PROGRAM=$PWD/tests/measure/machine.py "$moefold_test" tune "$@"; }
wide() { COLUMNS=400 "$@"; } # a sentence is one line there
job=(tiny cluster.gpu=cpu seq=64 gbs=16)
full=(model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1)

# ---- on what: as `train` decides it
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/nvidia0 ] && [ ! -e /dev/dxg ]; then
    expect without_a_gpu_it_is_for_cpus 0 '^tiny, 64 tokens, 1 process of cpu, global batch 16$' invented tiny seq=64 gbs=16 mbs=1 --dir "$work/here"
fi

# ---- bad starts, against all combinations
judged() { # NAME WORDS...
    invented "${@:2}" --dir "$work/$1" --json >"$work/$1.json"
    expect "$1_is_near_the_best" 0 'ratio' python3 tests/measure/judge.py "$work/$1.json" "${@:2}"
}
expect the_wall_and_the_reason_are_said 0 'because it is expected to take .* less than trial 0; (compute|memory) is the wall of trial 0' wide invented "${job[@]}" mbs=1 --dir "$work/microbatch"
expect what_is_expected_to_be_slower_is_uncertain 0 'uncertain, and worth measuring: [0-9.]+ s a step .*expected, [0-9.]+ s measured of trial' \
    cat "$work/microbatch/trials.jsonl"
judged microbatch "${job[@]}" mbs=1 # what its folder says
expect what_it_gained 0 '^GAINED +[0-9.]+ % of the first' invented "${job[@]}" mbs=1 --dir "$work/microbatch"
judged recompute "${job[@]}" mbs=4 "${full[@]}"
judged dispatcher "${job[@]}" cluster.n_gpus=2 ep=2 mbs=2 model.moe_token_dispatcher_type=allgather
judged limited "${job[@]}" mbs=1 moefold.memory_limit=33000000
BUSY=1 judged busy "${job[@]}" mbs=1
FAIL='"crash" if k["train.micro_batch_size"] == 16 else None' \
    expect a_crash_is_a_result 0 'crashed after .* signal 11' wide invented "${job[@]}" mbs=1 --dir "$work/crashed"
expect the_evidence_is_there_where_asked_for 0 'measured .*half of the steps within' invented "${job[@]}" mbs=1 --dir "$work/told" --minutes 1 --everything
check no_line_is_wider_than_the_window [ -z "$(COLUMNS=80 invented "${job[@]}" mbs=1 --dir "$work/told" | awk 'length > 80 && !/tmp/')" ]
expect and_is_in_the_folder 0 '"end":"crashed"' cat "$work/crashed/trials.jsonl"
FAIL='"crash" if k["train.micro_batch_size"] == 16 else None' judged crashed "${job[@]}" mbs=1
FAIL='"memory" if k["train.micro_batch_size"] >= 8 else None' \
    expect lack_of_memory_is_a_result 0 'no memory after .*cannot allocate' wide invented "${job[@]}" mbs=1 --dir "$work/memory"
check what_needs_more_is_not_tried test "$(grep -c '"end":"no memory"' "$work/memory/trials.jsonl")" -le 3
expect the_limit_is_kept 0 'under' python3 - "$work/limited.json" <<'PY'
import json, sys
a = json.load(open(sys.argv[1]))
assert all(t["peak_bytes"] <= 33000000 for t in a["trials"]), [t["peak_bytes"] for t in a["trials"]]
print("under")
PY

# ---- the fastest in turn: one time that was too good is found out, and what ran in turn is not run again
lucky='0.975 if k["model.recompute_modules"] == ["moe_act"] else 1.0'
LUCK=$lucky judged lucky "${job[@]}" mbs=8
expect a_lucky_trial_ran_again 0 '"rounds":[35]' cat "$work/lucky/trials.jsonl"
LUCK=$lucky without settled_once '^CONFIRM' invented "${job[@]}" mbs=8 --dir "$work/lucky"
expect the_fastest_run_in_turn 0 'CONFIRM +the fastest [23] trials.*' invented "${job[@]}" mbs=4 --dir "$work/turn"

# ---- the folder: resumed as if it had not been interrupted; another recipe's is refused
cp -r "$work/microbatch" "$work/resumed"
{ head -2 "$work/microbatch/trials.jsonl"; head -3 "$work/microbatch/trials.jsonl" | tail -1 | head -c 50; } >"$work/resumed/trials.jsonl"
invented "${job[@]}" mbs=1 --dir "$work/resumed" --json >/dev/null
same() { diff <(grep -o '"change":"[^"]*"' "$1/trials.jsonl") <(grep -o '"change":"[^"]*"' "$2/trials.jsonl") >/dev/null; }
check resumed_with_a_cut_line same "$work/microbatch" "$work/resumed"
expect another_recipe 2 'holds trials of another recipe' invented "${job[@]}" mbs=2 --dir "$work/microbatch"
echo '{"trial": "x"}' >>"$work/resumed/trials.jsonl"
expect a_strange_line 2 'trials.jsonl:[0-9]+: not a line of .moefold tune.' invented "${job[@]}" mbs=1 --dir "$work/resumed"
sed -i '$d' "$work/resumed/trials.jsonl"
echo '{"trial":1,"from":0,"change":"nonsense=1","reason":"","end":"measured","step_s":0.001}' >>"$work/resumed/trials.jsonl"
expect a_change_that_is_none 2 'trials.jsonl:[0-9]+: not a line of .moefold tune.' invented "${job[@]}" mbs=1 --dir "$work/resumed"
invented "${job[@]}" --pin mbs=1 --dir "$work/pinned" --json >"$work/pinned.json"
without pinned_knobs_stay 'micro_batch_size=' cat "$work/pinned/trials.jsonl"
invented "${job[@]}" mbs=2 "${full[@]}" --pin all --dir "$work/all" --json >/dev/null
without all_that_is_set_is_pinned 'micro_batch_size=|recompute_granularity=' cat "$work/all/trials.jsonl"
expect measured_rates_are_a_machine 0 '^Time' "$moefold" price --everything "${job[@]}" mbs=4 "cluster.gpu=$work/microbatch/hardware.yaml"
expect the_best_is_a_recipe 0 'VALID|valid' "$moefold" check --everything "$work/microbatch/best.yaml"

# ---- a cluster elsewhere
far=(recipes/qwen3-30b-4k-h100.yaml --dir "$work/far")
expect nothing_is_out 2 'no trial of .* is waiting for a log' "$moefold" tune "${far[@]}" --tell tests/data/profile/megatron.log
expect the_start_is_written 0 'TRIAL 0 .*no change' "$moefold" tune "${far[@]}" --next
expect as_megatron_takes_it 0 'torchrun .*pretrain_gpt.py' cat "$work/far/000/job.sh"
expect so_many_steps_as_count 0 '^--train-iters 20' cat "$work/far/000/job.sh"
expect with_a_log_to_tell 0 '^#SBATCH --output=log$' cat "$work/far/000/job.sh"
expect as_a_batch_script 0 '^#SBATCH --nodes=2' cat "$work/far/000/job.sh"
check that_bash_takes bash -n "$work/far/000/job.sh"
expect only_one_is_out 0 'TRIAL 0 ' "$moefold" tune "${far[@]}" --next
expect other_logs_are_refused 2 'iteration line' "$moefold" tune "${far[@]}" --tell README.md
expect its_log_is_taken 0 'measured 21.1 s' "$moefold" tune "${far[@]}" --tell tests/data/profile/megatron.log
expect the_next_one_has_a_reason 0 'because it is (expected|uncertain).*; communication is the wall of trial 0' wide "$moefold" tune "${far[@]}" --next
printf 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n' >"$work/oom.log"
expect no_memory_there 0 'no memory' "$moefold" tune "${far[@]}" --tell "$work/oom.log"
expect what_megatron_cannot_run_is_no_trial 1 'trial 0 .no change. is not written.*repair' \
    "$moefold" tune recipes/qwen3-30b-4k-h100.yaml model.cross_entropy_fusion_impl=te --dir "$work/refused" --next
check and_leaves_no_file_of_it [ ! -e "$work/refused/000" ]
expect both_at_once 2 'one after the other' "$moefold" tune "${far[@]}" --next --tell x

# ---- one at a time in a folder
for i in 1 2 3 4; do "$moefold" tune recipes/qwen3-30b-4k-h100.yaml --dir "$work/four" --next >"$work/four.$i" 2>&1 & done
wait
check four_at_once_write_one_trial [ "$(wc -l <"$work/four/trials.jsonl")" = 1 ]
for i in 1 2 3 4; do # one after another, or refused
    check "none_of_four_says_something_else_$i" grep -qE 'TRIAL 0|--dir .*another job (saves|is at work) there' "$work/four.$i"
done
printf '#!/bin/sh\ntouch "%s/runs"\nwhile [ ! -e "%s/go" ]; do sleep 0.1; done\nexec "%s" "$@"\n' "$work" "$work" "$PWD/tests/measure/machine.py" >"$work/slow"
chmod +x "$work/slow"
MOEFOLD_TUNE_PROGRAM=$work/slow "$moefold_test" tune "${job[@]}" mbs=2 "${full[@]}" --pin all --dir "$work/held" >/dev/null 2>&1 &
pid=$!
for _ in $(seq 300); do
    [ -e "$work/runs" ] && break
    sleep 0.1
done
expect a_second_tuning_is_refused 3 "--dir .*/held: .*process $pid on" invented "${job[@]}" mbs=2 "${full[@]}" --pin all --dir "$work/held"
touch "$work/go"
wait $pid
check the_first_ends_well [ $? = 0 ]
expect and_another_may_go_on 0 '^BEST +trial' invented "${job[@]}" mbs=2 "${full[@]}" --pin all --dir "$work/held"

# ---- switches in the environment are named where they are wrong
MOEFOLD_TUNE_PROGRAM=/nowhere expect no_such_program 2 'MOEFOLD_TUNE_PROGRAM=/nowhere .*unset it' "$moefold_test" tune "${job[@]}" --dir "$work/none"

# ---- this machine
expect a_real_one 0 '^BEST +trial' "$moefold" tune tiny cluster.gpu=cpu seq=32 gbs=4 mbs=1 --threads 1 --steps 4 \
    --pin model.recompute_granularity=null --dir "$work/real"
check trials_are_run_folders test -s "$work/real/000/run/summary.json" -a -s "$work/real/000/run/trace.json.gz"
expect a_limit_of_the_process 0 'no memory|measured' "$moefold" tune tiny cluster.gpu=cpu seq=32 gbs=4 mbs=1 --threads 1 \
    --steps 2 --pin mbs=1 --pin model.recompute_granularity=null moefold.memory_limit=30000000 --dir "$work/small"
exit $failed
