#!/usr/bin/env bash
# Figures that meet: what binds a step by its right name, with what helps; one peak and one fullest rank, whichever command
# is asked; JSON where no program can be built. From the repository's root.
. tests/cli/saying.sh
. tests/cli/once.sh

# ---- a pipeline bubble is a wall of its own
deep=(llama-3.1-8b --gpus 8xH100 pp=8 gbs=8 mbs=1)
expect a_bubble_is_a_wall 0 '^Wall +pipeline bubble: 3[0-9.]+ % of the step stages wait for one another; exposed communication 0 %' \
    once "$moefold" price --why "${deep[@]}"
for words in model.virtual_pipeline_model_parallel_size=2 train.global_batch_size=16 model.pipeline_model_parallel_size=4; do
    expect "its_repair_${words%=*}" 0 "^ +(repair:|or:    ) +$words .*: \+[0-9.]+ % tokens/s\)" once "$moefold" price --why "${deep[@]}"
done
cat >"$work/wall.py" <<'P'
import json, subprocess, sys
def price(*words):
    return json.loads(subprocess.run([sys.argv[1], "price", *sys.argv[2:], *words, "--json"], capture_output=True).stdout)
now = price()
assert now["wall"] == "pipeline bubble" and len(now["wall_repairs"]) == 3
for r in now["wall_repairs"]:
    then = price(*r["change"].split())
    gain = then["tokens_per_s_per_gpu"] / now["tokens_per_s_per_gpu"] - 1
    assert then["fits"] and abs(gain - r["gain"]) < 1e-6 and gain > 0, (r, gain)
P
check what_is_said_of_repairs_is_so python3 "$work/wall.py" "$moefold" "${deep[@]}"
expect exposed_communication_is_another 0 '^Wall +communication: ' "$moefold" price --why recipes/dsv3-128k-h100-tp.yaml

# ---- GPUs that do not help
expect fewer_gpus_would_do 0 '^Fewer +GPUs would do: 64 H100 take 2\.[0-9]+ s for this batch of 512, 72 take 3' \
    "$moefold" plan --everything qwen3-30b-a3b --gpus 72xH100 --seq 4K --gbs 512
without round_numbers_are_left_alone '^Fewer' "$moefold" plan --everything qwen3-30b-a3b --gpus 64xH100 --seq 4K --gbs 512

# ---- one peak, and what it is made of
cat >"$work/peak.py" <<'P'
import json, re, subprocess, sys
moefold, folder, recipe = sys.argv[1:4]
def asked(*words):
    return json.loads(subprocess.run([moefold, *words, "--json"], capture_output=True).stdout)
check, price, show = asked("check", recipe, "--all-ranks"), asked("price", recipe), asked("show", recipe)
peak = check["peak_bytes"]
assert peak == price["peak_bytes"] == show["peak_bytes"] == check["audit"]["bytes"], (peak, check["audit"]["bytes"])
parts = price["memory"]["peak_parts"]
assert sum(p["bytes"] for p in parts) == peak, (parts, peak)
assert sum(p["bytes"] for p in parts if p["outside"]) == price["memory"]["outside"]["bytes"]
assert check["audit"]["regions"] == {p["name"]: p["bytes"] for p in parts}
rank = check["fullest_rank"]
assert rank == price["fullest_rank"] == show["fullest_rank"] == check["audit"]["rank"] == check["memory"]["rank"] == show["memory"]["rank"]
page = folder + "/page.html"
subprocess.run([moefold, "report", recipe, "-o", page, "--brief"], capture_output=True, check=True)
own = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', open(page).read(), re.S)[1])["own"]
assert sum(r["bytes"] for r in own["memory"]["regions"]) == own["memory"]["peak_bytes"] == peak
assert abs(own["price"]["step_s"] / price["step_s"] - 1) < 1e-6, (own["price"]["step_s"], price["step_s"])
other = recipe.replace("128k-h100", "128k-h100-tp")
diff, end = asked("diff", recipe, other)["regions"], asked("price", other)["peak_bytes"]
assert (sum(r["a"] for r in diff.values()), sum(r["b"] for r in diff.values())) == (peak, end)
for memory in check["memory"], price["memory"]:
    held = memory["reserved"]["bytes"] if memory["reserved"] else memory["arena_bytes"]
    assert held + memory["outside"]["bytes"] == peak, memory
    for part in filter(None, (memory["allocated"], memory["reserved"], memory["outside"])):
        assert part["bytes"] == sum(part["parts"].values()), part
text = subprocess.run([moefold, "check", recipe, "--everything", "--all-ranks"], capture_output=True, text=True).stdout
named = re.findall(r"(?:fits: |optimizer of |activations included: |^Fullest +)rank (\d+)", text, re.M)
assert len(named) == 4 and set(named) == {str(rank)}, named
P
for recipe in recipes/dsv3-128k-h100.yaml recipes/dsv3-4k-h100.yaml recipes/qwen3-next-8k-gb200.yaml recipes/qwen3-30b-4k-h100.yaml; do
    check "peaks_meet_${recipe//[^a-z0-9]/_}" python3 "$work/peak.py" "$moefold" "$work" "$recipe"
done
"$moefold" show tiny --as recipe cluster.gpu=cpu cluster.n_gpus=2 pp=2 >"$work/own.yaml"
check peaks_meet_where_we_run_it python3 "$work/peak.py" "$moefold" "$work" "$work/own.yaml"
expect the_arena_is_told_from_the_peak 0 'Megatron runs the recipe: its allocator reserves 68.27 GiB of this rank' \
    "$moefold" show recipes/dsv3-128k-h100.yaml --memory --rank 224

# ---- no program, but JSON
expect json_has_the_errors 1 '"why_not":"world-divides-expert-grid.*"violations":\[\{"rule":"world-divides-expert-grid".*"step_s":null' \
    "$moefold" price deepseek-v3 ep=64 pp=8 --gpus 256xH100 --json
expect json_of_what_is_not_known 1 '"why_not":.*"fits":null' "$moefold" price qwen3-30b-a3b ep=8 --gpus 16xH100 optimizer.optimizer=sgd --json

exit $failed
