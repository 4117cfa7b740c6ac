#!/usr/bin/env bash
# moefold.headroom: what must stay free; check, price and plan compare the same figures with it. Memory as Megatron
# reports it, part by part, in JSON. From the repository's root.
. tests/cli/saying.sh
job=(recipes/qwen3-30b-4k-h100.yaml)
figures() { python3 -c "
import json, sys
d = json.load(sys.stdin)
print(d['peak_bytes'], d['usable_bytes'], d['fits'])"; }
visible=84932978278 # of hardware/h100.yaml: 79.1 GiB

# ---- check and price agree, and so does the row of plan that is this recipe
for part in 0 0.05 0.5; do
    a=$("$moefold" check --everything "${job[@]}" --headroom $part --json | figures)
    b=$("$moefold" price "${job[@]}" --headroom $part --json | figures)
    check "check_and_price_agree_at_$part" [ "$a" = "$b" ]
    usable=$(python3 -c "print(int($visible * (1 - $part)))")
    check "usable_is_visible_less_$part" [ "$(echo "$a" | cut -d' ' -f2)" = "$usable" ]
done
check a_knob_is_the_same [ "$("$moefold" check --everything "${job[@]}" moefold.headroom=0.5 --json | figures)" = "$a" ]
expect nothing_fits_in_half 1 'DOES NOT FIT' "$moefold" check --everything "${job[@]}" --headroom 0.5
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 64 --headroom 0.2 --out "$work/w.yaml" --json >"$work/plan.json"
expect plan_writes_it 0 '^  headroom: 0.2' cat "$work/w.yaml"
"$moefold" price "$work/w.yaml" --json >"$work/w.json"
check plan_and_price_agree python3 - "$work/plan.json" "$work/w.json" <<'E'
import json, sys
plan, price = (json.load(open(f)) for f in sys.argv[1:])
best = plan['best'][0]
assert plan['usable_bytes'] == price['usable_bytes'], (plan['usable_bytes'], price['usable_bytes'])
assert best['peak_bytes'] == price['peak_bytes'] <= price['usable_bytes'], (best['peak_bytes'], price['peak_bytes'])
E
# ---- --stack is a knob, too: the recipe that plan writes costs what plan said
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --gbs 64 --stack 26.02 --out "$work/old.yaml" --json >"$work/plan.json"
expect plan_writes_the_stack 0 '^  stack: .26.02' cat "$work/old.yaml"
"$moefold" price "$work/old.yaml" --json >"$work/w.json"
check the_stack_is_priced_again python3 - "$work/plan.json" "$work/w.json" <<'E'
import json, sys
plan, price = (json.load(open(f)) for f in sys.argv[1:])
assert abs(plan['best'][0]['step_s'] / price['step_s'] - 1) < 1e-9, (plan['best'][0]['step_s'], price['step_s'])
E
"$moefold" plan --everything deepseek-v3 --gpus 256xH100 --seq 131072 --stack 26.04 --json >"$work/old.json"
check latent_attention_goes_round_in_old_containers python3 - "$work/old.json" <<'E'
import json, sys
kinds = {b['cp_kind'] for b in json.load(open(sys.argv[1]))['best']}
assert kinds and not kinds & {'a2a', 'all_gather'}, kinds
E
exchanged=(recipes/dsv3-128k-h100.yaml model.cp_comm_type=a2a model.hierarchical_context_parallel_sizes=null)
expect price_says_so 1 'mla-needs-a-ring' "$moefold" price "${exchanged[@]}"
expect newer_containers_exchange_heads 0 'CP communication' "$moefold" price --everything "${exchanged[@]}" --stack 26.06

# ---- graphs of the whole step have room for the fullest EP rank: else Megatron runs the step a second time without them
captured=(qwen3-235b-a22b --gpus 64xGB200 --seq 4096 --pin model.expert_model_parallel_size=64 --pin model.cuda_graph_impl=full_iteration)
room() { "$moefold" plan --everything "${captured[@]}" "$@" --out "$work/room.yaml" >/dev/null && grep -o 'rank_capacity_factor: .*' "$work/room.yaml"; }
check natural_routing_has_room [ "$(room)" = 'rank_capacity_factor: 2.0' ]
check more_skew_has_more [ "$(room --routing 1.9)" = 'rank_capacity_factor: 2.25' ]
check forced_balance_has_what_was_published [ "$(room --pin model.moe_router_force_load_balancing=true)" = 'rank_capacity_factor: 1.5' ]
expect too_little_room_is_said 1 'rank-capacity-holds-the-load' "$moefold" check --everything "$work/room.yaml" \
    model.moe_router_force_load_balancing=false --headroom 0

# ---- refusals
expect more_than_all_is_refused 2 'repair: --headroom 0.05' "$moefold" price "${job[@]}" --headroom 1.5
expect no_number_is_refused 2 'headroom x' "$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --headroom x

# ---- parts
"$moefold" price "${job[@]}" --json >"$work/price.json"
"$moefold" check --everything "${job[@]}" --json >"$work/check.json"
check parts_add_up python3 - "$work/price.json" "$work/check.json" <<'E'
import json, sys
price, check = (json.load(open(f))['memory'] for f in sys.argv[1:])
for m in (price, check):
    for key in ('allocated', 'reserved', 'outside'):
        assert sum(m[key]['parts'].values()) == m[key]['bytes'], key
    low, high = m['reserved']['band']
    assert low < m['reserved']['bytes'] < high
    assert m['arena_bytes'] > 0
assert price['allocated'] == check['allocated'] and price['outside'] == check['outside']
E
check peak_is_reserved_and_outside python3 - "$work/price.json" <<'E'
import json, sys
d = json.load(open(sys.argv[1]))
assert d['peak_bytes'] == d['memory']['reserved']['bytes'] + d['memory']['outside']['bytes']
E
"$moefold" price tiny cluster.gpu=cpu --json >"$work/own.json"
check our_own_target_has_an_arena python3 - "$work/own.json" <<'E'
import json, sys
d = json.load(open(sys.argv[1]))
m = d['memory']
assert m['allocated'] is None and m['reserved'] is None
assert d['peak_bytes'] == m['arena_bytes'] + m['outside']['bytes']
E
for rank in 0 255; do "$moefold" price recipes/dsv3-128k-h100.yaml --rank $rank --json >"$work/$rank.json"; done
check another_rank_has_its_own python3 - "$work/0.json" "$work/255.json" <<'E'
import json, sys
first, last = (json.load(open(f)) for f in sys.argv[1:])
assert first['memory']['rank'] == 0 and last['memory']['rank'] == 255
assert first['memory']['allocated'] != last['memory']['allocated']
assert first['peak_bytes'] == last['peak_bytes'] # of the fullest, whoever is shown
E
expect no_such_rank 2 'rank' "$moefold" price recipes/dsv3-128k-h100.yaml --rank 100000

# ---- optimizer state that waits on the host between updates: another knob, another price
states=(deepseek-v3 cluster.gpu=GB200 cluster.n_gpus=256 model.pipeline_model_parallel_size=4 model.expert_model_parallel_size=64
    train.global_batch_size=2048 model.moe_router_force_load_balancing=true model.recompute_granularity=full
    model.recompute_method=uniform model.recompute_num_layers=1)
"$moefold" price "${states[@]}" --json >"$work/here.json"
"$moefold" price "${states[@]}" optimizer.offload_optimizer_states=true --json >"$work/waits.json"
check states_wait_on_the_host python3 - "$work/here.json" "$work/waits.json" <<'PY'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
part = lambda x, k: x["memory"]["allocated"]["parts"][k]
more = b["step_s"] - a["step_s"]
assert 0.05 < more < 0.4, more
assert part(a, "optimizer") > 0
assert b["peak_bytes"] < a["peak_bytes"]
assert b["memory"]["allocated"]["bytes"] >= a["memory"]["allocated"]["bytes"] - part(a, "optimizer")
PY

exit $failed
