#!/usr/bin/env bash
# How long `moefold check` takes, start of the process included: DeepSeek-V3 on 1,024 GPUs, rules and memory.
# Prints the median and the fastest of many runs beside the same for `true`, which is the price of starting a process.
set -eu
moefold=${MOEFOLD:-./moefold}
runs=${RUNS:-200}

# median and minimum, in microseconds
time_of() {
    for _ in $(seq "$runs"); do
        local start=$EPOCHREALTIME
        "$@" >/dev/null
        local end=$EPOCHREALTIME
        echo $((${end/./} - ${start/./}))
    done | sort -n | awk '{t[NR] = $1} END {printf "median %6.2f ms, fastest %6.2f ms", t[int((NR + 1) / 2)] / 1000, t[1] / 1000}'
}

recipe=(deepseek-v3 cluster.n_gpus=1024 model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=8
    model.expert_model_parallel_size=64 'model.pipeline_model_parallel_layout=Et|(tt|)*30mL' model.mtp_num_layers=1
    train.global_batch_size=16384 model.recompute_granularity=selective
    'model.recompute_modules=[layernorm,moe_act,mla_up_proj]')
broken=("${recipe[@]}" model.context_parallel_size=3 comm_overlap.delay_wgrad_compute=true)

echo "of $runs runs"
echo "  true (a process that does nothing):      $(time_of "$(type -P true)")"
echo "  check, 1,024 GPUs:                       $(time_of "$moefold" check "${recipe[@]}")"
echo "  check --json (every group, as numbers):  $(time_of "$moefold" check "${recipe[@]}" --json)"
echo "  check --fix of a recipe with 2 mistakes: $(time_of bash -c '"$@" || true' _ "$moefold" check "${broken[@]}" --fix)"

if [ -x build/bench/rules ]; then build/bench/rules; fi
