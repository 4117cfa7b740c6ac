#!/usr/bin/env bash
# Optimizer state that lies on the host and is moved to the device to be updated (optimizer.offload_optimizer_states): the same
# losses, norms and checkpoints to the bit as without, on one rank and on several; every planned byte is used; priced.
. tests/cli/saying.sh

export OMP_NUM_THREADS=1
common=(cluster.gpu=H200 moefold.device=cpu moefold.target=moefold model.seq_length=32 train.global_batch_size=4
    train.micro_batch_size=1 moefold.mock_data=true optimizer.clip_grad=0.5)
moved=(optimizer.offload_optimizer_states=true)
aware=(optimizer.use_precision_aware_optimizer=true optimizer.store_param_remainders=false
    optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=bf16)

# curve FILE WORDS...: losses and norms of a run, with all their digits.
curve() {
    local to=$1
    shift
    "$moefold" train "$@" "${common[@]}" --metrics "$work/metrics" >"$work/log" 2>&1 || cat "$work/log"
    grep '"event":"iteration"' "$work/metrics" | grep -o '"\(lm loss\|grad_norm\)":[^,}]*' >"$to"
    rm -f "$work/metrics"
}

# same NAME LINES WORDS...: the curve is that of the run without, and has so many lines.
same() {
    local name=$1 lines=$2
    shift 2
    curve "$work/x" "$@"
    [ "$(wc -l <"$work/x")" -eq "$lines" ] || { bad "$name" "$(wc -l <"$work/x") lines: $(tail -2 "$work/log")"; return; }
    check "$name" cmp -s <(tail -n "$lines" "$work/base") "$work/x"
}

# pair NAME WORDS...: four steps without and with.
pair() {
    local name=$1
    shift
    curve "$work/base" "$@" train.train_iters=4
    same "$name" 8 "$@" train.train_iters=4 "${moved[@]}"
}

qwen=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=1)
pair one_rank "${qwen[@]}"
MOEFOLD_DEVICE=deferred:5 moefold=$moefold_test same late_device 8 "${qwen[@]}" train.train_iters=4 "${moved[@]}"
drawn=(tiny model.num_layers=2 cluster.n_gpus=1 model.vocab_size=512)
pair drawn_weights "${drawn[@]}"
same drawn_weights_in_part_on_the_host 8 "${drawn[@]}" train.train_iters=4 "${aware[@]:0:2}" optimizer.optimizer_cpu_offload=true \
    optimizer.optimizer_offload_fraction=0.37
pair latent tests/data/golden/deepseek-v3-tiny cluster.n_gpus=1
pair narrow_moments "${qwen[@]}" "${aware[@]}"
pair wide_weights "${qwen[@]}" model.bf16=false
pair not_sharded "${qwen[@]}" ddp.use_distributed_optimizer=false ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false
two=(tests/data/golden/qwen3-moe-tiny cluster.n_gpus=2 model.expert_model_parallel_size=2)
pair two_ranks "${two[@]}" --ranks 2
pair overlapped "${two[@]}" ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true --ranks 2
MOEFOLD_DEVICE=peers moefold=$moefold_test same by_themselves 8 "${two[@]}" ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true \
    train.train_iters=4 "${moved[@]}" --ranks 2 --as-threads
pair stages tests/data/golden/qwen3-moe-tiny cluster.n_gpus=2 model.pipeline_model_parallel_size=2 --ranks 2

# A step that is skipped writes nothing, and state comes back as it went.
skips=("${qwen[@]}" train.train_iters=4 optimizer.grad_norm_skip_threshold=2.8)
curve "$work/base" "${skips[@]}"
same skipped_steps "$(wc -l <"$work/base")" "${skips[@]}" "${moved[@]}"
check some_are_skipped grep -qE 'number of skipped iterations: +[1-9]' "$work/log"

# ---- a checkpoint knows nothing of where the state was
run() { "$moefold" train "${qwen[@]}" "${common[@]}" train.train_iters=4 "$@" >"$work/log" 2>&1 || cat "$work/log"; }
run checkpoint.save="$work/plain" checkpoint.save_interval=2
run checkpoint.save="$work/moved" checkpoint.save_interval=2 "${moved[@]}"
for i in 2 4; do
    files=$(cd "$work/plain/iter_000000$i" && find . -name '*.safetensors' | sort)
    [ -n "$files" ]
    check "checkpoint_${i}_has_files" test $? = 0
    for f in $files; do
        check "checkpoint_${i}_$f" cmp -s "$work/plain/iter_000000$i/$f" "$work/moved/iter_000000$i/$f"
    done
done
curve "$work/base" "${qwen[@]}" train.train_iters=4
rm -rf "$work"/*/iter_0000004
echo 2 >"$work/moved/latest_checkpointed_iteration.txt"
echo 2 >"$work/plain/latest_checkpointed_iteration.txt"
same resumed_without 4 "${qwen[@]}" train.train_iters=4 checkpoint.load="$work/moved"
same resumed_with 4 "${qwen[@]}" train.train_iters=4 checkpoint.load="$work/plain" "${moved[@]}"
same resumed_on_the_host 4 "${qwen[@]}" train.train_iters=4 checkpoint.load="$work/moved" \
    "${aware[@]:0:2}" optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction=0.5

# ---- memory
touched() { "$moefold" train "$@" train.train_iters=2 "${common[@]}" "${moved[@]}" model.moe_router_force_load_balancing=true --touched; }
expect planned_is_used 0 'buffers +([0-9,]+) of +\1$' touched "${qwen[@]}"
expect planned_on_the_host_is_used 0 'pinned on the host +([0-9,]+) of +\1$' touched "${qwen[@]}"
expect planned_is_used_narrow 0 'buffers +([0-9,]+) of +\1$' touched "${qwen[@]}" "${aware[@]}"

# ---- price: everything moves once each way; more of it is exposed than hidden, as nothing else runs meanwhile
price=(qwen3-30b-a3b cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold model.num_layers=4 train.global_batch_size=4
    train.micro_batch_size=1 model.seq_length=4096)
"$moefold" price "${price[@]}" --json >"$work/off.json" 2>"$work/log"
"$moefold" price "${price[@]}" "${moved[@]}" --json >"$work/on.json" 2>>"$work/log"
python3 - "$work" <<'P'
import json, sys
off, on = (json.load(open(sys.argv[1] + "/" + n)) for n in ("off.json", "on.json"))
state = off["memory"]["optimizer"]
places = on["memory"]["optimizer"]
copies = on["time"]["state copies"]
assert "state copies" not in off["time"]
assert places == 3 * (1 << 22) * 12 and state > 20e9, (places, state)
assert copies["bytes"] == 2 * state, (copies, state)
assert 0 < copies["exposed"] < copies["seconds"], copies
assert on["memory"]["host"]["state"] == state, on["memory"]["host"]
assert off["peak_bytes"] - on["peak_bytes"] == state - places
slower = on["step_s"] - off["step_s"]
assert abs(slower - copies["exposed"]) < 0.02 * slower, (slower, copies)
assert abs(on["parts"]["host copies"] - copies["exposed"]) < 1e-9
P
check priced test $? = 0
expect wall_is_the_link 0 'exposed communication \(offload copies ' "$moefold" price --everything "${price[@]}" "${moved[@]}"

# ---- measured: every copy of a step is in the trace, with its bytes, as the price has them
"$moefold" train "${qwen[@]}" "${common[@]}" "${moved[@]}" train.train_iters=4 --run "$work/run" >"$work/log" 2>&1
python3 - "$work/run" <<'P'
import gzip, json, sys
run = json.load(open(sys.argv[1] + "/summary.json"))
parts = {k: {p["name"]: p for p in run[k]["parts"]} for k in ("predicted", "measured")}
for k in parts:
    copies = parts[k]["host copies"]
    assert copies["seconds"] + copies["hidden"] > 0, (k, copies)
copied = run["predicted"]["state_copies_bytes"] / (2 * 12)  # FP32 masters and moments of its weights, padded
assert 264896 <= copied <= 1.01 * 264896, copied
trace = json.load(gzip.open(sys.argv[1] + "/trace.json.gz"))
events = [e for e in trace["traceEvents"] if e.get("cat") != "wait" and e.get("ph") == "X"]
state = [e for e in events if "moments" in e["name"] or "masters" in e["name"]]
steps = run["measured"]["steps"]
assert len(state) % (6 * steps) == 0 and len(state) >= 12 * steps, len(state)
P
check measured test $? = 0

# ---- no two streams touch the same memory without an order: of two ranks, and of many pieces
expect no_race 0 'no race between streams' "$moefold" check --everything "${two[@]}" "${common[@]}" "${moved[@]}" --all-ranks
"$moefold" check --everything "${price[@]}" "${moved[@]}" model.num_layers=1 --all-ranks --json >"$work/audit.json"
python3 -c 'import json, sys; a = json.load(open(sys.argv[1]))["audit"]; assert a["ok"] and a["replayed"] == 1, a' "$work/audit.json"
check no_race_of_many_pieces test $? = 0

# ---- refused: both ways at once; more than the host has
expect one_way_only 1 'optimizer.offload_optimizer_states=true moves it to the GPU' "$moefold" check --everything "${price[@]}" "${moved[@]}" \
    optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true
exit $failed
