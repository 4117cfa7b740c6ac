#!/usr/bin/env bash
# Every command that can take more than two seconds says on a terminal what it is at and how long it will take, and nothing
# in a pipe. The first line is drawn at once here (MOEFOLD_WAITING_SECONDS). From the repository's root.
. tests/cli/saying.sh
moefold=$moefold_test
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive MOEFOLD_WAITING_SECONDS=0 TERM=xterm

if ! command -v script >/dev/null; then
    echo "ok on_a_terminal # skip there is no script(1)"
    exit 0
fi
drawn() { # NAME PATTERN WORDS...
    local name=$1 pattern=$2 words
    shift 2
    words=$(printf '%q ' "$moefold" "$@")
    script -qec "$words" /dev/null </dev/null >"$work/terminal" 2>&1
    if tr '\r' '\n' <"$work/terminal" | grep -qE -- "$pattern"; then
        ok "${name}_on_a_terminal"
    else
        bad "${name}_on_a_terminal" "no '$pattern' in: $(tr '\r' '\n' <"$work/terminal" | head -4)"
    fi
    # what is drawn is taken away again: behind the last line of it stands a return and an erasure
    if python3 - "$work/terminal" "$pattern" <<'PY'
import re, sys
text = open(sys.argv[1], encoding="utf-8", errors="replace", newline="").read()
last = [m.end() for m in re.finditer(sys.argv[2], text)][-1]
assert "\r\x1b[K" in text[last:], repr(text[last:last + 80])
PY
    then ok "${name}_leaves_nothing"; else bad "${name}_leaves_nothing"; fi
    "$moefold" "$@" >"$work/pipe" 2>&1
    if grep -qE 'so far|'$'\033' "$work/pipe"; then bad "${name}_in_a_pipe" "$(grep -m1 -E 'so far' "$work/pipe")"; else ok "${name}_in_a_pipe"; fi
}
small=(tiny cluster.gpu=cpu cluster.n_gpus=8 tp=2 pp=2 ep=2 etp=1 mbs=1 gbs=8 seq=256)
drawn plan 'moefold plan: searching layouts, [0-9]+ s so far, at most [0-9]+ s left' plan qwen3-30b-a3b --gpus 16xH100 --seq 4K
drawn check 'moefold check: rules, programs of ranks, messages, [0-9]+ s so far' check recipes/dsv3-128k-h100.yaml --all-ranks
drawn price 'moefold price: simulating the step, [0-9]+ s so far, about [0-9]+ s left' price recipes/dsv3-128k-h100.yaml
drawn report 'moefold report: simulating the step, [0-9]+ s so far, about [0-9]+ s left' report "${small[@]}" --brief -o "$work/x.html"
drawn diff 'moefold diff: pricing both, [0-9]+ s so far, at most [0-9]+ s left' diff recipes/dsv3-128k-h100.yaml recipes/dsv3-128k-h100-tp.yaml
"$moefold" price recipes/dsv3-128k-h100.yaml --trace "$work/t.json.gz" >/dev/null
drawn trace 'moefold trace: reading both, [0-9]+ s so far' trace "$work/t.json.gz" "$work/t.json.gz"
drawn train 'moefold train: program, weights, data, [0-9]+ s so far' train tiny cluster.gpu=cpu mbs=1 gbs=2 seq=64 train.train_iters=2 --threads 1
check steps_have_a_bar grep -q 'ETA' "$work/terminal"
drawn parity 'moefold parity: steps of the case, [0-9]+ s so far' parity tests/data/golden/qwen3-moe-tiny
profile=$(ls tests/data/profile/*.json.gz 2>/dev/null | head -1)
[ -z "$profile" ] || drawn profile 'moefold profile: reading, [0-9]+ s so far' profile qwen3-30b-a3b model.num_layers=4 --gpus 1xH200 \
    seq=4K gbs=8 mbs=8 "$profile" --without optimizer
"$moefold" train tiny cluster.gpu=cpu mbs=1 gbs=2 seq=64 train.train_iters=1 checkpoint.save="$work/save" --threads 1 >/dev/null 2>&1
words=$(printf '%q ' "$moefold" tune tiny cluster.gpu=cpu mbs=1 gbs=2 seq=64 --steps 2 --minutes 1 --threads 1 --dir "$work/tuned" --pin mbs=1)
timeout 40 script -qec "$words" /dev/null </dev/null >"$work/terminal" 2>&1
check tune_on_a_terminal grep -qE 'moefold tune: the best again, and the trial, [0-9]+ s so far, about [0-9]+ s left' "$work/terminal"
words=$(printf '%q ' "$moefold" convert "$work/save" "$work/hf")
script -qec "$words" /dev/null </dev/null >"$work/terminal" 2>&1
check convert_on_a_terminal grep -qE 'moefold convert: (reading|writing) weights' "$work/terminal"
exit $failed
