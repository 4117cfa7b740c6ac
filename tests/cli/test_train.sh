#!/usr/bin/env bash
# Training as a person meets it: lines, resuming, signals, NaN, data files, weights in and out.
# Mostly waits.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3)
# What must not depend on when or how often a run was stopped: everything but the clock.
lines() { grep -E 'iteration +[0-9]+/' | sed -E 's/^ \[[^]]*\]//; s/elapsed time[^|]*\|//; s/throughput[^|]*\|//'; }

# ---- the line is Megatron's
"$moefold" train "${small[@]}" train.train_iters=12 >"$work/whole" 2>"$work/err"
check twelve_lines [ "$(lines <"$work/whole" | wc -l)" = 12 ]
check line_format grep -qE '^ \[[0-9-]{10} [0-9:]{8}\] iteration +12/ +12 \| consumed samples: +24 \| elapsed time per iteration \(ms\): [0-9.]+ \| throughput per GPU \(TFLOP/s/GPU\): [0-9.]+ \| learning rate: [0-9.E+-]+ \| global batch size: +2 \| lm loss: [0-9.]+E[+-][0-9]+ \| load_balancing_loss: [0-9.E+-]+ \| loss scale: 1\.0 \| grad norm: [0-9.]+ \| number of skipped iterations: +0 \| number of nan iterations: +0 \|$' "$work/whole"
first=$(lines <"$work/whole" | head -1 | sed -E 's/.*lm loss: ([^ ]*).*/\1/')
last=$(lines <"$work/whole" | tail -1 | sed -E 's/.*lm loss: ([^ ]*).*/\1/')
check loss_falls awk "BEGIN { exit !($last < $first) }"
check says_which_kernels grep -q 'kernels' "$work/err"

# ---- the same numbers again, with other threads, and after a stop
for n in 1 3; do # by name: on one core the share of a rank would be 1, too
    "$moefold" train "${small[@]}" train.train_iters=12 --threads $n 2>/dev/null >"$work/again"
    check "threads_change_nothing_$n" cmp -s <(lines <"$work/whole") <(lines <"$work/again")
done
run=("${small[@]}" train.train_iters=12 "checkpoint.save=$work/ck" "checkpoint.load=$work/ck")
"$moefold" train "${run[@]}" train.exit_interval=5 >"$work/part" 2>/dev/null
"$moefold" train "${run[@]}" train.exit_interval=1000 >>"$work/part" 2>/dev/null
check resume_is_exact cmp -s <(lines <"$work/whole") <(lines <"$work/part")
check names_the_latest [ "$(cat "$work/ck/latest_checkpointed_iteration.txt")" = 12 ]
"$moefold" train "${small[@]}" train.train_iters=12 model.recompute_granularity=full model.recompute_method=uniform \
    model.recompute_num_layers=2 2>/dev/null >"$work/again"
check recompute_changes_nothing cmp -s <(lines <"$work/whole") <(lines <"$work/again")

# ---- signals: a checkpoint, then leave
"$moefold" train "${small[@]}" train.train_iters=100000 "checkpoint.save=$work/sig" >"$work/sig.out" 2>&1 &
pid=$!
for _ in $(seq 100); do
    grep -q 'iteration  *3/' "$work/sig.out" && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
check sigterm_leaves_in_order [ $? = 4 ]
check sigterm_leaves_a_checkpoint [ -s "$work/sig/latest_checkpointed_iteration.txt" ]

# ---- kill -9 while saving: what the text file names always loads
for i in 1 2 3 4 5; do
    "$moefold" train "${small[@]}" train.train_iters=100000 checkpoint.save_interval=1 "checkpoint.save=$work/kill" \
        "checkpoint.load=$work/kill" checkpoint.most_recent_k=2 >/dev/null 2>&1 &
    pid=$!
    # not before something was saved in it, however busy the machine is
    before=$(cat "$work/kill/latest_checkpointed_iteration.txt" 2>/dev/null)
    for _ in $(seq 600); do
        [ "$(cat "$work/kill/latest_checkpointed_iteration.txt" 2>/dev/null)" = "$before" ] || break
        sleep 0.1
    done
    sleep "0.0$((RANDOM % 10))"
    kill -9 $pid
    wait $pid 2>/dev/null
done
at=$(cat "$work/kill/latest_checkpointed_iteration.txt")
check killed_runs_had_saved [ "${at:-0}" -gt 0 ]
expect killed_runs_resume 0 'done after 1 steps' "$moefold" train "${small[@]}" "train.train_iters=$((at + 1))" "checkpoint.load=$work/kill"

# ---- a damaged checkpoint is named
mkdir "$work/bad" && cp -r "$work/ck/." "$work/bad"
file=$(ls "$work"/bad/iter_0000012/weights-*.safetensors)
printf 'X' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 100)) conv=notrunc status=none
expect damaged_checkpoint_is_refused 2 "bad/iter_0000012/weights-.*: tensor '.*' has a wrong checksum" "$moefold" train "${small[@]}" train.train_iters=13 "checkpoint.load=$work/bad"

# ---- NaN
expect nan_is_skipped 0 'number of skipped iterations: +1' "$moefold" train "${small[@]}" train.train_iters=3 optimizer.lr=1e30 optimizer.clip_grad=0.0
expect nan_stops_where_asked 3 'moefold.on_nan=stop' "$moefold" train "${small[@]}" train.train_iters=3 optimizer.lr=1e30 optimizer.clip_grad=0.0 moefold.on_nan=stop

# ---- data files, JSON, refusals
expect trains_on_files 0 'done after 3 steps' "$moefold" train "${small[@]}" train.train_iters=3 "dataset.data_path=[tests/data/megatron-data/a-i32]" "dataset.split='1'"
expect missing_data_are_named 2 'nowhere' "$moefold" train "${small[@]}" train.train_iters=3 "dataset.data_path=[nowhere]"
expect json_lines 0 '"lm loss":' "$moefold" train "${small[@]}" train.train_iters=2 --json
expect a_length_is_needed 1 'train.train_iters' "$moefold" train "${small[@]}"
expect gpus_are_not_here 3 'cluster.gpu=cpu' env CUDA_VISIBLE_DEVICES= "$moefold" train tiny cluster.gpu=H100 cluster.n_gpus=2 train.train_iters=2
expect broken_recipes_are_refused 1 'repair' "$moefold" train "${small[@]}" train.train_iters=2 model.moe_router_topk=9
expect fp16_on_cpus_is_refused 1 'mixed_precision=bf16_mixed' "$moefold" train "${small[@]}" train.train_iters=2 mixed_precision=fp16_mixed

# ---- several ranks: the loss of one, whatever the layout
five=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=4 optimizer.lr=3e-3 train.train_iters=5)
last_loss() { lines | tail -1 | sed -E 's/.*lm loss: ([^ ]*).*/\1/'; }
near() { awk "BEGIN { d = $1 - $2; exit !(\"$1\" != \"\" && d < 1e-4 * $2 && -d < 1e-4 * $2) }"; }
tp=model.tensor_model_parallel_size cp=model.context_parallel_size pp=model.pipeline_model_parallel_size ep=model.expert_model_parallel_size
one=$("$moefold" train "${five[@]}" 2>/dev/null | last_loss)
for layout in "2" "2 $tp=2" "2 $cp=2" "2 $pp=2" "2 $ep=2" "4 $tp=2 $ep=4 model.expert_tensor_parallel_size=1" "4 $pp=2 $cp=2"; do
    # shellcheck disable=SC2086
    got=$("$moefold" train "${five[@]}" --ranks $layout 2>"$work/err" | last_loss)
    check "ranks_agree: $layout" near "$got" "$one"
done
check says_what_messages_cost grep -qE '^  stages +[0-9.]+ +[0-9.]+$' "$work/err"
expect parity_on_ranks 0 'agrees' "$moefold" parity tests/data/golden/qwen3-moe-tiny --ranks 4 $tp=2 $pp=2
expect ranks_must_be_started 1 'start with --ranks 2' "$moefold" train "${five[@]}" cluster.n_gpus=2
expect ranks_are_checked_first 1 'repair' "$moefold" train "${five[@]}" --ranks 2 model.moe_router_topk=9

# ---- a checkpoint of one layout, written beside the steps, goes on in another
"$moefold" train "${five[@]}" --ranks 4 $tp=2 $ep=2 model.expert_tensor_parallel_size=1 train.exit_interval=3 checkpoint.save_interval=1 \
    checkpoint.async_save=true "checkpoint.save=$work/lay" >"$work/part" 2>&1
check async_saves_are_whole [ "$(cat "$work/lay/latest_checkpointed_iteration.txt")" = 3 ]
got=$("$moefold" train "${five[@]}" --ranks 4 $pp=2 $cp=2 "checkpoint.load=$work/lay" 2>/dev/null | last_loss)
check another_layout_resumes near "$got" "$one"

# ---- routed buffers that are too small
expect overflow_runs_again 0 'rank [01], layer [0-9]+: [0-9]+ rows do not fit into a routed buffer of' "$moefold" train "${five[@]}" --ranks 2 $ep=2 moefold.moe_buffer_factor=1.0 \
    --run "$work/grown"
planned_is_kept() {
    "$moefold" price "$work/grown/recipe.yaml" --json | python3 -c '
import json, sys
p, s = json.load(sys.stdin), json.load(open(sys.argv[1]))
m = s["memory"]
assert p["peak_bytes"] == m["planned_bytes"] == s["predicted"]["peak_bytes"] < m["allocated_bytes"] == sum(m["regions"].values()), (p["peak_bytes"], m)
' "$work/grown/summary.json"
}
check what_was_planned_is_told_from_buffers_that_grew planned_is_kept
expect overflow_stops_where_asked 3 'moefold.on_overflow=stop' "$moefold" train "${five[@]}" --ranks 2 $ep=2 moefold.moe_buffer_factor=1.0 moefold.on_overflow=stop

# ---- faults: ranks that differ, a rank that dies
job=(mpirun --oversubscribe)
[ "$(id -u)" = 0 ] && job+=(--allow-run-as-root)
rank=("$moefold" train "${five[@]}" cluster.n_gpus=2 cluster.gpus_per_node=2)
expect different_recipes_are_refused 2 "recipe: rank 1 differs from rank 0 .*lr: 0.002" "${job[@]}" -n 1 "${rank[@]}" optimizer.lr=1e-3 : -n 1 "${rank[@]}" optimizer.lr=2e-3
expect different_layouts_are_refused 2 "recipe: rank 1 differs from rank 0 .*tensor_model" "${job[@]}" -n 1 "${rank[@]}" $tp=2 : -n 1 "${rank[@]}" $cp=2
MOEFOLD_TIMEOUT_SECONDS=20 "$moefold" train "${five[@]}" train.train_iters=100000 --ranks 2 >"$work/dies.out" 2>"$work/dies" &
pid=$!
for _ in $(seq 100); do
    grep -q 'iteration  *3/' "$work/dies.out" && break
    sleep 0.1
done
victim=$(pgrep -P "$(pgrep -P $pid mpirun)" | tail -1)
kill -9 "$victim"
wait $pid
check a_dead_rank_ends_the_job [ $? = 3 ]
check others_say_where_they_were grep -qE 'rank [01] of 2: .*(group|training step)' "$work/dies"

# ---- weights in and out
expect convert_to_ours 0 '' "$moefold" convert tests/data/golden/qwen3-moe-tiny "$work/ours"
expect convert_back 0 '' "$moefold" convert "$work/ours" "$work/hf"
expect weights_are_the_same 0 'agrees|"ok":true' bash -c "cp tests/data/golden/qwen3-moe-tiny/golden.* '$work/hf' && '$moefold' parity '$work/hf'"
expect parity_says_no 1 'DOES NOT AGREE' bash -c "mkdir '$work/wrong' && cp tests/data/golden/qwen3-moe-tiny/* '$work/wrong' && sed -i 's/\"loss\": 5\.0/\"loss\": 5.1/' '$work/wrong/golden.json' && '$moefold' parity '$work/wrong'"
expect samples_of_less_than_a_step 1 'train.train_samples=3 is less than a step, which has train.global_batch_size=4; repair: train.train_samples=4' \
    "$moefold" train tiny cluster.gpu=cpu seq=32 gbs=4 train.train_samples=3
expect threads_have_their_own_range 2 '--threads 0: a whole number from 1 to 1024 is needed$' "$moefold" train tiny cluster.gpu=cpu --threads 0
exit $failed
