#!/usr/bin/env bash
# Recorded routing from a run to its price; predicted beside measured times; machines that nobody measured.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2)
gpus=(tiny cluster.gpu=H100 cluster.n_gpus=4 model.expert_model_parallel_size=4 model.seq_length=1024 train.global_batch_size=8)
step() { grep -o '"step_s": *[0-9.e+-]*'; }

# A copy with descriptions of its own: nobody has measured a machine there.
mkdir -p "$work/bin" "$work/hardware" "$work/home"
cp "$moefold" "$work/bin/moefold"
cp hardware/cpu.yaml hardware/h100.yaml "$work/hardware"
own=$work/bin/moefold
export HOME=$work/home
cd "$work" || exit 1

# ---- from a run to its price
"$own" train "${small[@]}" train.train_iters=100000 --save-routing loads.json >run.out 2>run.err &
pid=$!
for _ in $(seq 200); do
    grep -q 'iteration  *3/' run.out && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
check interrupted_runs_leave_their_loads [ -s loads.json ]
check nothing_is_left_beside_them [ "$(ls loads.json* | wc -l)" = 1 ]
expect prices_take_them 0 'Routing +the fullest EP rank has 1\.[0-9]+ times the mean load in the mean layer' "$own" price --everything "${gpus[@]}" --routing loads.json
expect plans_take_them 0 'Routing +the fullest EP rank has' "$own" plan --everything tiny --gpus 4xH100 --seq 1024 --gbs 8 --pin model.expert_model_parallel_size=4 --routing loads.json
expect prices_print_them 0 '"routing": ?\{.*"file": ?"loads.json"' "$own" price "${gpus[@]}" --routing loads.json --json
expect small_buffers_are_named 0 'a run needs moefold.moe_buffer_factor=2' "$own" price --everything "${gpus[@]}" moefold.target=moefold --routing 2
peak() { grep -o '"peak_bytes": *[0-9]*' | head -1; }
sed -E 's/"loads": \[[^]]*\]/"loads": [13, 13, 9, 9, 9, 9, 9, 9]/' loads.json >skewed.json
at() { "$own" "$1" "${gpus[@]}" --json --routing "$2" | peak; }
check recorded_routing_has_its_memory [ "$(at price skewed.json)" = "$(at price 1.3)" ]
check check_takes_a_skew [ "$(at check 1.3)" = "$(at price 1.3)" ] && [ "$(at check 1.3)" != "$(at check 1)" ]
check check_takes_what_was_recorded [ "$(at check skewed.json)" = "$(at price skewed.json)" ]
expect check_refuses_a_wrong_skew 2 'routing 9: .*at most 4 times.*repair: --routing 4' "$own" check --everything "${gpus[@]}" --routing 9
expect check_names_a_missing_file 2 'routing nowhere.json: neither a number nor a file' "$own" check --everything "${gpus[@]}" --routing nowhere.json
expect what_has_no_effect_is_said 0 'routing 2 changes nothing: .*EP 1' "$own" price "${small[@]}" --routing 2
sed -E 's/"loads": \[[^]]*\]/"loads": [5, 5, 5, 5, 5, 5, 5, 5]/' loads.json >even.json
check even_loads_change_nothing [ "$("$own" price "${gpus[@]}" --json --routing 1 | step)" = "$("$own" price "${gpus[@]}" --json --routing even.json | step)" ]

# ---- forced and natural
# holds NAME PYTHON: over n (natural), f (forced), s (forced, with --routing 1.3), c (check of n), p (a plan), q (its recipe's price)
forced=model.moe_router_force_load_balancing=true
"$own" price "${gpus[@]}" --json >n.json
"$own" price "${gpus[@]}" $forced moefold.routing_skew=1.2 --json >f.json
"$own" price "${gpus[@]}" $forced --routing 1.3 --json >s.json
"$own" check --everything "${gpus[@]}" --json >c.json
"$own" plan --everything tiny --gpus 4xH100 --seq 1024 --gbs 8 --pin model.expert_model_parallel_size=4 --routing 1.25 --out p.yaml --json >p.json
"$own" price p.yaml --json >q.json
"$own" check --everything p.yaml --json >r.json
holds() {
    check "$1" python3 -c "
import json
n, f, s, c, p, q, r = (json.load(open(x + '.json')) for x in 'nfscpqr')
b = p['best'][0]
assert $2"
}

# ---- a plan under recorded loads: memory and time of every EP by the file
plan4=("$own" plan --everything tiny --gpus 4xH100 --seq 1024 --gbs 8)
ep4=(--pin model.expert_model_parallel_size=4)
"${plan4[@]}" "${ep4[@]}" --routing skewed.json --out l.yaml --json >l.json
"${plan4[@]}" "${ep4[@]}" --routing even.json --json >e.json
"${plan4[@]}" "${ep4[@]}" --routing skewed.json $forced --json >g.json
"${plan4[@]}" --routing skewed.json --json >w.json
first() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['best'][0]['peak_bytes'])" "$1"; }
of() { "$own" "$@" --json | peak | grep -o "[0-9]*$"; }
check plan_has_the_memory_of_recorded_loads [ "$(of price l.yaml --routing skewed.json)" = "$(first l.json)" ]
check the_written_recipe_carries_them [ "$(of check l.yaml)" = "$(first l.json)" ]
check fuller_ranks_need_more [ "$(first l.json)" -gt "$(first e.json)" ]
check forced_balance_is_overruled [ "$(first g.json)" -gt "$(first e.json)" ]
check plans_of_any_ep_are_made grep -q '"peak_bytes"' w.json
holds natural_is_the_default "n['routing']['skew'] == 1.09 and 'natural' not in n and n['forced']['skew'] == 1"
holds forced_follows_the_recipe "f['routing']['skew'] == 1 and 'forced' not in f and f['natural']['skew'] == 1.2"
holds the_other_is_the_other "n['forced']['step_s'] == f['step_s'] and n['forced']['peak_bytes'] == f['peak_bytes']"
holds natural_needs_more "n['peak_bytes'] > f['peak_bytes'] and n['step_s'] >= f['step_s']"
holds the_word_overrides "s['routing']['skew'] == 1.3 and s['forced']['step_s'] == f['step_s'] and s['peak_bytes'] > n['peak_bytes']"
holds check_agrees "all(c[k] == n[k] for k in ('peak_bytes', 'usable_bytes', 'fits'))"
holds plan_agrees "b['peak_bytes'] == q['peak_bytes'] == r['peak_bytes'] and abs(b['step_s'] / q['step_s'] - 1) < 1e-9"
holds plan_has_the_other "p['routing']['skew'] == q['routing']['skew'] == 1.25 and p['forced'] == q['forced']"
expect people_see_both 0 'with forced balance: a step of' "$own" price --everything "${gpus[@]}"
expect people_see_natural 0 'with natural routing .1.09 times.: a step of' "$own" price --everything "${gpus[@]}" $forced

# ---- what is refused
expect no_such_file 2 'neither a number nor a file' "$own" price "${gpus[@]}" --routing nowhere.json
expect too_little 2 '1\.\.1024' "$own" price "${gpus[@]}" --routing 0.5
expect no_file_at_all 2 'is a folder' "$own" plan --everything tiny --gpus 4xH100 --seq 1024 --routing hardware
expect cut_off 2 'half.json:' bash -c "head -c 150 loads.json >half.json; '$own' price ${gpus[*]} --routing half.json"
expect another_model 2 'loads of 8 experts, but qwen3-30b-a3b has 128' "$own" price qwen3-30b-a3b --routing loads.json
expect other_layers 2 'has 4 MoE layers, but tiny has 2' "$own" price "${gpus[@]}" model.num_layers=2 --routing loads.json
expect loads_need_a_place 3 'save-routing /nowhere/x.json' "$own" train "${small[@]}" train.train_iters=2 --save-routing /nowhere/x.json
expect loads_need_a_name 2 'repair: name a file' "$own" train "${small[@]}" train.train_iters=2 --save-routing ''
expect loads_need_experts 2 'has no experts' "$own" train "${small[@]}" train.train_iters=2 model.num_moe_experts=null model.moe_router_topk=null --save-routing x.json
expect unknown_stacks 2 'moefold.stack=nope' "$own" plan --everything tiny --gpus 8xH100 --seq 4096 --pin moefold.stack=nope

# ---- machines that nobody measured, and one that somebody did
expect plan_asks_for_a_measurement 2 'repair: run .moefold bench' "$own" plan --everything tiny --gpus local --seq 512
expect plan_asks_for_four 2 'repair: run .moefold bench' "$own" plan --everything tiny --gpus 4xlocal --seq 512
expect price_names_the_knob 2 'cluster.gpu=cpu' "$own" price tiny --gpus local
expect train_names_bench 0 '.moefold bench. measures this machine' "$own" train "${small[@]}" train.train_iters=2
without json_is_left_alone 'moefold bench' "$own" train "${small[@]}" train.train_iters=2 --json
expect bench_needs_a_place 3 'out /nowhere/x.yaml' "$own" bench --out /nowhere/x.yaml
expect bench_needs_a_file 2 'is a folder' "$own" bench --out hardware
expect bench_needs_ranks 2 'from 1 to 64' "$own" bench --ranks 0
sed 's/^name: .*/name: local/' hardware/cpu.yaml >hardware/local.yaml
sed 's/^name: .*/name: local/' hardware/cpu.yaml >hardware/local-2.yaml
expect train_predicts_unasked 0 'predicted from \./hardware/local.yaml and measured' "$own" train "${small[@]}" train.train_iters=3
without json_has_no_table 'predicted from' "$own" train "${small[@]}" train.train_iters=3 --json
expect plan_takes_two_ranks 0 'Plan +tiny on 2 local' "$own" plan --everything tiny --gpus 2xlocal --seq 512 --gbs 8
expect plan_takes_this_machine 0 "Plan +tiny on [12] local" "$own" plan --everything tiny --gpus local --seq 512 --gbs 8
echo 'name: [' >hardware/local.yaml
expect bad_measurements_stop_no_run 0 'no predicted times: .*local.yaml' "$own" train "${small[@]}" train.train_iters=3
expect unless_somebody_asks 2 'local.yaml' "$own" train "${small[@]}" train.train_iters=3 --predict

exit $failed
