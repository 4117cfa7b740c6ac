#!/usr/bin/env bash
# instructions.sh [BEFORE] - instructions that commands take (callgrind counts them, so a busy machine does not matter): a
# plan, a check, a check of every rank, a price and a step of training on a CPU. BEFORE: another program (make oracle), whose
# counts stand beside.
set -eu
now=$(readlink -f "${MOEFOLD:-./moefold}") before=${1:-}
command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed: skipped"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OPENBLAS_CORETYPE=Haswell

count() { # PROGRAM WORD...
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$@" >"$work/said" 2>"$work/log" ||
        [ $? -lt 2 ] || { cat "$work/log" >&2; exit 1; }
    awk '/^summary:|^totals:/ { print $2; exit }' "$work/out"
}
row() { # NAME WORD...
    local name=$1 a b
    shift
    a=$(count "$now" "$@")
    if [ -n "$before" ]; then
        b=$(count "$before" "$@")
        awk -v n="$name" -v a="$a" -v b="$b" 'BEGIN { printf "%-28s %10.1f M %10.1f M  %.3f\n", n, b / 1e6, a / 1e6, a / b }'
    else
        awk -v n="$name" -v a="$a" 'BEGIN { printf "%-28s %10.1f M\n", n, a / 1e6 }'
    fi
}
steps() {
    row "$1 of tiny on a CPU" train tiny cluster.gpu=cpu cluster.n_gpus=1 gbs=2 seq=64 moefold.moe_buffer_factor=4 \
        train.train_iters="${1%% *}"
}
[ -z "$before" ] || printf '%-28s %12s %12s  %s\n' "instructions" before now ratio
row "check" check deepseek-v3 ep=64 pp=8 --gpus 256xH100
row "check of every rank" check recipes/dsv3-128k-h100.yaml --all-ranks
row "price" price recipes/dsv3-128k-h100.yaml
row "plan" plan qwen3-30b-a3b --gpus 16xH100 --seq 4096 --seconds 2000
steps "1 step"
steps "9 steps"
