#!/usr/bin/env bash
# Sizes at the edge end soon: seconds of processor time, so that a busy machine changes nothing. From the repository's root.
set -u
moefold=${MOEFOLD:-./moefold}
case $moefold in *asan*) scale=8 ;; *) scale=1 ;; esac
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0

# within NAME SECONDS CODES WORDS...: ends with one of the exit codes; the processor's clock ends it otherwise
within() {
    local name=$1 seconds=$2 codes=$3 code
    shift 3
    out=$(ulimit -t $((seconds * scale)); "$moefold" "$@" 2>"$said")
    code=$?
    if [[ " $codes " == *" $code "* ]]; then
        echo "ok $name"
    else
        echo "not ok $name: exit code $code"
        { tail -3 <<<"$out"; cat "$said"; } | sed 's/^/    /'
        failed=1
    fi
}
qwen=(qwen3-30b-a3b --gpus 16xH100 --seq 4096)
within price_4096_layers 5 1 price "${qwen[@]}" model.num_layers=4096
within price_4096_layers_pp4 5 1 price "${qwen[@]}" model.num_layers=4096 pp=4
within price_vpp_4096 10 1 price "${qwen[@]}" pp=2 vpp=4096
within price_vpp_2048 10 1 price "${qwen[@]}" pp=2 vpp=2048 model.num_layers=4096 --json
within price_many_microbatches 5 "0 1" price "${qwen[@]}" gbs=262144 mbs=1 --json
changes=$out
within check_vpp_2048 10 1 check "${qwen[@]}" pp=2 vpp=2048 model.num_layers=4096
within plan_short_sequences 10 0 plan qwen3-30b-a3b --gpus 16xH100 --seq 16
within plan_tiny_cluster 10 1 plan mixtral-8x7b --gpus 2xH100 --seq 16
within plan_one_gpu 5 0 plan qwen3-30b-a3b --gpus 1xB200 --seq 4096
within plan_65536_gpus 10 "0 1" plan deepseek-v3 --gpus 65536xH100 --seq 4096 --seconds 1
# (a busy machine may find nothing in a second, and says so)

# ... and without a limit of its own: rules and bounds are not looked at again for each of 1.8 billion layouts
within plan_65536_gpus_to_the_end 20 0 plan deepseek-v3 --gpus 65536xH100 --seq 4096

# layers are alike: programs of millions of items are built for the answer alone, and a pipeline rank has room for its
# own weights
layers=(--seq 4096 --pin model.num_layers=4096)
[ $scale = 1 ] && ulimit -v 6000000
within plan_4096_layers 45 1 plan qwen3-30b-a3b --gpus 16xH100 "${layers[@]}"
within plan_4096_layers_on_256_gpus 45 1 plan deepseek-v3 --gpus 256xH100 "${layers[@]}"

# what is too much to be priced is counted
if python3 -c 'import json, sys; d = json.load(sys.stdin); sys.exit(not d["changes_left"] > 0)' <<<"$changes"; then
    echo "ok untried_changes_are_counted"
else
    echo "not ok untried_changes_are_counted"
    failed=1
fi
exit $failed
