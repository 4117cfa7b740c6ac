#!/bin/bash
# The first of a plan beside the fastest published run of the same model, length and GPU.
cd "$(dirname "$0")/../.." || exit 1
. tests/cli/saying.sh
forced=model.moe_router_force_load_balancing=true
job=("$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 1024 mixed_precision=bf16_mixed)

"${job[@]}" $forced --json >"$work/f.json"
"${job[@]}" --json >"$work/n.json"
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 8192 --json >"$work/long.json"
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --json moefold.target=moefold >"$work/own.json"
holds() { # NAME PYTHON: over f (forced), n (natural), l (another length), o (our own target)
    check "$1" python3 -c "
import json
f, n, l, o = (json.load(open('$work/' + x + '.json')) for x in ('f', 'n', 'long', 'own'))
assert $2"
}
holds the_fastest_of_its_precision "f['claim']['id'] == 'VC-Q30-H100-step' and f['claim']['precision'] == 'bf16'"
holds it_is_a_ratio_of_speeds "abs(f['claim']['ratio'] - f['best'][0]['tokens_per_s_per_gpu'] / f['claim']['tokens_per_s_per_gpu']) < 1e-6"
holds natural_routing_is_compared_as_forced "n['claim']['ratio'] > n['best'][0]['tokens_per_s_per_gpu'] / n['claim']['tokens_per_s_per_gpu']"
holds what_differs_is_counted "f['claim']['n_differ'] == (f['claim']['differs'].count(', ') + 1 if f['claim']['differs'] else 0)"
holds another_length_has_none "l['claim'] is None"
holds our_own_program_has_none "o['claim'] is None"
# A claim in FP8 does not hide that a published run in BF16 is faster, and a run whose layout nobody printed is one.
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 1024 --json >"$work/f.json"
holds another_precision_that_is_faster_is_named \
    "f['claim']['precision'] == 'blockwise' and f['claim']['fastest']['id'] == 'VC-Q30-H100-step' and f['claim']['fastest']['ratio'] < f['claim']['ratio']"
for x in qwen3-235b-128k-gb200 qwen3-next-8k-gb200 qwen3-next-64k-gb200; do
    "$moefold" plan --everything recipes/$x.yaml --json >"$work/f.json"
    holds "${x}_has_the_run_of_its_header" "f['claim']['id'].startswith('SK-LC-Q') and f['claim']['price_error'] is None"
done
expect people_see_it 0 'Claim +with the same routing [0-9.]+ times the fastest published run in bf16 on H100 at this sequence length: VC-Q30-H100-step' "${job[@]}" $forced
expect people_see_the_knobs 0 'in brackets those of that run: .*micro batch size [0-9]+ \(1\)' "${job[@]}" $forced
expect much_is_doubted 0 'support a factor of 1\.[0-9]+: measure before you rely on more' \
    "$moefold" plan --everything qwen3-next-80b-a3b --gpus 128xH100 --seq 4096 --gbs 256 mixed_precision=bf16_mixed $forced
expect none_is_said 0 'Claim +we know no published run of this model on H100 at this sequence length' "$moefold" plan --everything mixtral-8x7b --gpus 64xH100 --seq 4096
exit $failed
