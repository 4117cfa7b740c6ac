#!/usr/bin/env bash
# What waits on the host is shown, for the GPUs of a node beside the host's memory. From the repository's root.
. tests/cli/saying.sh
job=(qwen3-30b-a3b cluster.n_gpus=16 model.expert_model_parallel_size=8 train.global_batch_size=512)
waits=(optimizer.offload_optimizer_states=true)
keeps=(optimizer.optimizer_cpu_offload=true optimizer.use_precision_aware_optimizer=true)

for command in check price; do
    expect "${command}_shows_state_that_waits" 0 'on the host: optimizer state  *21.33 GiB' \
        "$moefold" $command --everything "${job[@]}" cluster.gpu=H200 "${waits[@]}"
    expect "${command}_compares_a_node" 0 "all GPUs of a node, at most  *170.61 GiB   out of 2.00 TiB" \
        "$moefold" $command --everything "${job[@]}" cluster.gpu=H200 "${waits[@]}"
    expect "${command}_says_what_it_does_not_know" 0 'host.memory of the hardware description is not set' \
        "$moefold" $command --everything "${job[@]}" cluster.gpu=GB200 "${keeps[@]}"
    plain=$("$moefold" $command --everything "${job[@]}" cluster.gpu=H200)
    check "${command}_says_nothing_of_an_empty_host" [ "${plain/on the host/}" = "$plain" ]
done
expect too_much_is_said 1 "all GPUs of a node, at most  *3.42 TiB   MORE THAN ALL of 2.00 TiB" "$moefold" price --everything qwen3-235b-a22b \
    cluster.gpu=H200 cluster.n_gpus=8 model.expert_model_parallel_size=8 train.global_batch_size=512 "${keeps[@]}"
"$moefold" price "${job[@]}" cluster.gpu=H200 "${keeps[@]}" --json >"$work/price.json"
check json_has_the_same python3 - "$work/price.json" <<'E'
import json, sys
host = json.load(open(sys.argv[1]))['memory']['host']
assert host['state'] > 0 and host['node'] == 8 * host['state'] and host['node_memory'] == 2 << 40, host
E

exit $failed
