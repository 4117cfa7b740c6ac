#!/usr/bin/env bash
# How long `moefold check --all-ranks` takes, and in how much memory: the programs of all ranks, built and held against each
# other. One run each; seconds of the clock and of the processors, start of the process included.
set -eu
moefold=${MOEFOLD:-./moefold}

measure() {
    local name=$1 times=0 out
    shift
    times=$(mktemp)
    if [ -x /usr/bin/time ]; then
        out=$(/usr/bin/time -f '%e s, %U s of CPU, %M KiB' -o "$times" "$moefold" check "$@" --all-ranks) || true
    else
        TIMEFORMAT='%R s, %U s of CPU'
        out=$( { time "$moefold" check "$@" --all-ranks 2>&3; } 3>&2 2>"$times") || true
    fi
    printf '  %-34s %s\n      %s\n' "$name" "$(tail -n 1 "$times")" "$(sed -n 's/^Audit *//p' <<<"$out")"
    rm -f "$times"
}

dsv3=(deepseek-v3 'model.pipeline_model_parallel_layout=Et|(tt|)*30mL' model.mtp_num_layers=1
    model.pipeline_model_parallel_size=16 model.expert_model_parallel_size=64)
long=(model.seq_length=131072 model.context_parallel_size=16)

measure "DeepSeek-V3, 128K, 256 ranks" recipes/dsv3-128k-h100.yaml
measure "DeepSeek-V3, 256K, 512 ranks" recipes/dsv3-256k-h100.yaml
measure "DeepSeek-V3, 128K, 512 ranks" recipes/dsv3-128k-h100.yaml cluster.n_gpus=512
measure "Qwen3-235B, 128K, 256 ranks" recipes/qwen3-235b-128k-gb200.yaml cluster.n_gpus=256
measure "DeepSeek-V3, 4K, 2,048 ranks" "${dsv3[@]}" cluster.n_gpus=2048 model.tensor_model_parallel_size=2 \
    train.global_batch_size=16384
measure "DeepSeek-V3, 128K, 2,048 ranks" "${dsv3[@]}" "${long[@]}" cluster.n_gpus=2048 model.tensor_model_parallel_size=2 \
    train.global_batch_size=1024
measure "DeepSeek-V3, 4K, 16,384 ranks" "${dsv3[@]}" cluster.n_gpus=16384 model.tensor_model_parallel_size=2 \
    train.global_batch_size=32768
measure "DeepSeek-V3, 128K, 16,384 ranks" "${dsv3[@]}" "${long[@]}" cluster.n_gpus=16384 model.tensor_model_parallel_size=4 \
    train.global_batch_size=4096
