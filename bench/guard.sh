#!/usr/bin/env bash
# guard.sh A B - is program B as fast as program A? A step of training on 1 and on 4 ranks, three plans, check and check --all-ranks,
# each measured with both programs in turn (A B, then B A, and so on: ROUNDS (9) pairs), so that a busy minute hits both.
#
# Printed are medians of either program and the median of the pairs' ratios B/A, of the clock and of the CPU time (user and
# system; of ranks that wait for one another it includes the waiting). WORD as third argument: only the lines that have it in their name.
set -eu
a=${1:-} b=${2:-} only=${3:-}
rounds=${ROUNDS:-9}
if [ -z "$b" ]; then
    echo "two programs are compared: bench/guard.sh A B; nothing to do"
    exit 0
fi
a=$(readlink -f "$a") b=$(readlink -f "$b")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive

median() { sort -g "$1" | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

# Runs a program once; prints the milliseconds that count and the CPU's.
wall() { # PROGRAM TIMES WORDS...
    local program=$1 times=$2 i
    shift 2
    TIMEFORMAT='%R %U %S'
    { time for ((i = 0; i < times; i++)); do "$program" "$@" >/dev/null 2>&1 || true; done; } 2>&1 |
        awk -v n="$times" '{print $1 * 1000 / n, ($2 + $3) * 1000 / n}'
}
step() { # PROGRAM TIMES WORDS...: the median of its steps but the first two; CPU of the whole run
    local program=$1
    shift 2
    TIMEFORMAT='%U %S'
    { time "$program" "$@" >"$work/out" 2>"$work/err"; } 2>"$work/cpu" || {
        cat "$work/err" >&2
        return 1
    }
    sed -nE 's/.*elapsed time per iteration \(ms\): ([0-9.]+).*/\1/p' "$work/out" | tail -n +3 >"$work/steps"
    echo "$(median "$work/steps") $(awk '{print ($1 + $2) * 1000}' "$work/cpu")"
}

line() { # NAME KIND TIMES WORDS...
    local name=$1 kind=$2 round first last
    shift 2
    [[ $name == *"$only"* ]] || return 0
    rm -f "$work"/pairs "$work"/a.* "$work"/b.*
    "$kind" "$a" "$@" >/dev/null # files are in memory after it
    "$kind" "$b" "$@" >/dev/null
    for ((round = 0; round < rounds; round++)); do
        if ((round % 2)); then
            last=$("$kind" "$b" "$@") && first=$("$kind" "$a" "$@")
        else
            first=$("$kind" "$a" "$@") && last=$("$kind" "$b" "$@")
        fi
        echo "$first $last" >>"$work/pairs"
    done
    awk '{print $1}' "$work/pairs" >"$work/a.wall"
    awk '{print $3}' "$work/pairs" >"$work/b.wall"
    awk '{print $3 / $1}' "$work/pairs" >"$work/a.ratio"
    awk '{print ($2 > 0 ? $4 / $2 : 1)}' "$work/pairs" >"$work/b.ratio"
    printf '%-34s %10.2f %10.2f %8.3f %8.3f\n' "$name" "$(median "$work/a.wall")" "$(median "$work/b.wall")" \
        "$(median "$work/a.ratio")" "$(median "$work/b.ratio")"
}

train=(train tiny cluster.gpu=cpu seq=256 gbs=8 mbs=1 train.train_iters=12 optimizer.lr=3e-3 moefold.moe_buffer_factor=4)
big=(deepseek-v3 cluster.n_gpus=1024 model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=8
    model.expert_model_parallel_size=64 'model.pipeline_model_parallel_layout=Et|(tt|)*30mL' model.mtp_num_layers=1
    train.global_batch_size=16384)

echo "A $a"
echo "B $b"
printf '%-34s %10s %10s %8s %8s\n' "medians of $rounds pairs" 'A, ms' 'B, ms' 'B/A' 'CPU B/A'
line "training step, 1 rank" step 1 "${train[@]}" --threads 1
if command -v mpirun >/dev/null; then
    line "training step, 4 ranks EP 4" step 1 "${train[@]}" --ranks 4 --threads 1 ep=4
    line "training step, 4 ranks TP 2 PP 2" step 1 "${train[@]}" --ranks 4 --threads 1 tp=2 pp=2 ep=2 etp=1
fi
line "plan qwen3-235b, 256 GB200" wall 1 plan qwen3-235b-a22b --gpus 256xGB200 --seq 4096
line "plan gpt-oss-120b, 64 H100" wall 1 plan gpt-oss-120b --gpus 64xH100 --seq 8192
line "plan llama-3-70b, 64 H100" wall 1 plan llama-3-70b --gpus 64xH100 --seq 8192
line "check, 1,024 GPUs" wall 20 check "${big[@]}"
line "check --all-ranks, 1,024 GPUs" wall 1 check "${big[@]}" --all-ranks
