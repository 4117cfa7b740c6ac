#!/usr/bin/env bash
# `moefold eval`: the loss of transformers over the tokens of files, whatever the layout; what it refuses.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
golden=tests/data/golden

# Each row of a reference case as a file of one document: its tokens, and the label of the last one.
cat >"$work/rows.py" <<'EOF'
import json, struct, sys
case, to = sys.argv[1:]
data = open(f"{case}/golden.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
def rows(name):
    (b, s), (at, end) = head[name]["shape"], head[name]["data_offsets"]
    v = struct.unpack(f"<{b * s}i", data[8 + n + at:8 + n + end])
    return [v[i * s:(i + 1) * s] for i in range(b)]
for i, (ids, labels) in enumerate(zip(rows("input_ids"), rows("labels"))):
    tokens = ids + labels[-1:]
    open(f"{to}{i}.bin", "wb").write(struct.pack(f"<{len(tokens)}i", *tokens))
    open(f"{to}{i}.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, len(tokens), 0, 0, 1))
EOF
loss() { # NAME: the loss in what the last command printed
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$work/out"
}
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) > 2e-6 * abs(b))' "$1" "$2"; }
evaluate() { "$moefold" eval "$@" cluster.gpu=cpu --json >"$work/out" 2>"$work/err"; }

for case in qwen3-moe-tiny deepseek-v3-tiny; do
    right=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$golden/$case/golden.json")
    python3 "$work/rows.py" "$golden/$case" "$work/$case-"
    rows=(seq=128 --data "$work/$case-0" --data "$work/$case-1.bin")
    for layout in "" "--ranks 2 --as-threads tp=2" "--ranks 2 --as-threads pp=2" "--ranks 4 --as-threads cp=2 ep=2"; do
        # shellcheck disable=SC2086 # words
        evaluate "$golden/$case" "${rows[@]}" $layout || cat "$work/err"
        check "${case}_as_transformers${layout:+ $layout}" near "$(loss)" "$right"
    done
done
check perplexity_is_its_exponential python3 -c 'import json, math, sys
o = json.load(open(sys.argv[1]))
assert abs(math.exp(o["loss"]) - o["perplexity"]) < 1e-6 * o["perplexity"] and o["tokens"] == 256 and o["samples"] == 2, o' "$work/out"

# ---- every token counts once, however samples and batches are cut
case=qwen3-moe-tiny
all=(--data "$work/$case-0" --data "$work/$case-1")
evaluate "$golden/$case" "${all[@]}" seq=48 && check a_rest_is_evaluated grep -q '"samples":6,"tokens":256' "$work/out"
right=$(loss)
evaluate "$golden/$case" "${all[@]}" seq=48 mbs=4 --ranks 2 --as-threads
check the_batch_changes_nothing near "$(loss)" "$right"

# ---- checkpoints: a folder, one iteration, what a recipe saves
"$moefold" convert "$golden/$case" "$work/ck" >/dev/null 2>&1
for name in "$work/ck" "$work/ck/" "$work/ck/iter_0000000"; do
    evaluate "$name" "${all[@]}" seq=48
    check "a_checkpoint_is_evaluated ${name#"$work"}" near "$(loss)" "$right"
done
evaluate "$golden/$case" "checkpoint.save=$work/ck" "${all[@]}" seq=48
check what_a_recipe_saves_is_evaluated near "$(loss)" "$right"
before=$(find "$work/ck" -type f -exec cksum {} + | sort)
expect in_words 0 '^Loss +[0-9.]+ a token, perplexity [0-9.]+$' "$moefold" eval "$work/ck" "${all[@]}" cluster.gpu=cpu
check nothing_is_written [ "$(find "$work/ck" -type f -exec cksum {} + | sort)" = "$before" ]

# ---- what is refused
expect weights_are_needed 2 'tiny: names no weights; repair' "$moefold" eval tiny cluster.gpu=cpu seq=32 validation.eval_iters=1
expect another_model_is_refused 2 'another model: model.rotary_base' "$moefold" eval "$work/ck" "${all[@]}" cluster.gpu=cpu model.rotary_base=77
expect files_must_be_there 2 'nowhere' "$moefold" eval "$work/ck" --data "$work/nowhere" cluster.gpu=cpu
expect a_split_must_leave_something 2 "dataset.split=1,0,0 leaves nothing for validation; repair: .*--data FILE" "$moefold" eval "$work/ck" \
    "dataset.data_path=[$work/$case-0]" dataset.split=1,0,0 cluster.gpu=cpu
expect a_run_needs_what_it_validates_with 2 'dataset.split=1,0,0 leaves nothing for validation; repair: .*eval_interval=null' \
    "$moefold" train "$golden/$case" cluster.gpu=cpu seq=48 gbs=2 train.train_iters=2 validation.eval_interval=1 "dataset.data_path=[$work/$case-0]" \
    dataset.split=1,0,0
expect separate_files_need_one_to_validate 2 'none for validation; repair: dataset.valid_data_path=FILE, or validation.eval_interval=null' \
    "$moefold" train "$golden/$case" cluster.gpu=cpu seq=48 gbs=2 train.train_iters=2 validation.eval_interval=1 "dataset.train_data_path=[$work/$case-0]"
evaluate "$golden/$case" seq=48 "dataset.train_data_path=[$work/$case-0]" "dataset.valid_data_path=[$work/$case-0,$work/$case-1]"
check files_for_validation_are_taken near "$(loss)" "$right"
exit $failed
