#!/usr/bin/env bash
# `moefold diff` on runs of this machine: PAIRS (10) pairs of runs of one recipe must be noise, and each of five planted
# differences must be named, four knobs and one operation that is delayed. From the repository's root.
set -eu
moefold=$(readlink -f "${MOEFOLD:-./moefold}")
moefold_test=${MOEFOLD_TEST:-$(dirname "$moefold")/moefold-test} # delays an operation
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
train() { # FOLDER WORDS...
    "$moefold" train tiny cluster.gpu=cpu seq=64 train.train_iters=12 --threads 1 --run "$work/$1" "${@:2}" >/dev/null 2>"$work/log" ||
        { tail -1 "$work/log"; exit 1; }
}
noise=0 pairs=${PAIRS:-10}
for ((i = 1; i <= pairs; i++)); do
    rm -rf "$work/a" "$work/b"
    train a mbs=1 gbs=4
    train b mbs=1 gbs=4
    "$moefold" diff "$work/a" "$work/b" >"$work/said" && noise=$((noise + 1)) || true
    grep -E "noise|B's step|steps differ" "$work/said" | head -2
done
echo "runs of one recipe: $noise of $pairs pairs are noise"
planted() { # WHAT PATTERN WORDS...
    rm -rf "$work/c"
    train c mbs=1 gbs=4 "${@:3}"
    code=0
    "$moefold" diff "$work/a" "$work/c" >"$work/said" || code=$?
    if grep -qE "$2" "$work/said" && [ $code = 1 ]; then echo "$1: named"; else echo "$1: MISSED (exit $code)"; grep -E "noise|B's step" "$work/said" | head -3; fi
}
planted batch 'train.global_batch_size +4 -> 32' gbs=32
planted sequence 'model.seq_length +64 -> 512' seq=512
planted microbatch 'train.micro_batch_size +1 -> 4' mbs=4
planted recompute 'model.recompute_granularity +null -> full' model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1
MOEFOLD_SLOW_OP=experts.fc1:20 moefold=$moefold_test planted "slower operation" 'experts\.fc1'
