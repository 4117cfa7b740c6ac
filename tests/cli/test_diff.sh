#!/usr/bin/env bash
# `diff`: two recipes, also at two commits. From the repository's root.
. tests/cli/saying.sh
a=recipes/qwen3-30b-4k-h100.yaml

# ---- what is printed, and exit codes
expect same_recipe_does_not_differ 0 'they do not differ' "$moefold" diff $a $a
expect no_knob_differs 0 'no knob differs' "$moefold" diff $a $a
expect overrides_hold_for_both 0 'they do not differ' "$moefold" diff $a $a mbs=1
b=recipes/qwen3-30b-4k-overlap-h100.yaml
expect knobs_are_named 1 'comm_overlap.overlap_moe_expert_parallel_comm +false -> true' "$moefold" diff $a $b --tolerance 0.01
expect changes_are_named 1 'expert overlap: comm_overlap' "$moefold" diff $a $b --tolerance 0.01
expect tolerance_is_obeyed 0 'tolerance 100 %: they do not differ' "$moefold" diff $a $b --tolerance 100
expect tolerance_may_have_a_sign 0 'tolerance 100 %' "$moefold" diff $a $b --tolerance=100%
adds_up() {
    "$moefold" diff recipes/dsv3-128k-h100.yaml recipes/dsv3-128k-h100-tp.yaml --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
step = d["b"]["step_s"] - d["a"]["step_s"]
assert abs(sum(c["seconds"] for c in d["changes"]) - step) < 1e-9 * d["a"]["step_s"]
assert sum(c["bytes"] for c in d["changes"]) == d["b"]["peak_bytes"] - d["a"]["peak_bytes"]
assert abs(sum(p["b"] - p["a"] for p in d["parts"].values()) - step) < 1e-9 * d["a"]["step_s"]
assert d["differ"] and {k["key"] for k in d["knobs"]} >= {"model.context_parallel_size", "model.tensor_model_parallel_size"}
assert any(c["alone_seconds"] is not None and abs(c["alone_seconds"] - c["seconds"]) > 0.1 for c in d["changes"])
'
}
check parts_changes_and_interactions_add_up adds_up
expect json_of_the_same 0 '"differ":false' "$moefold" diff $a $a --json
expect what_cannot_be_built_is_said 1 'no program can be built' "$moefold" diff $a $a tp=3

# ---- two commits
if command -v git >/dev/null; then
    repo=$work/repo
    mkdir -p "$repo/recipes" && cp $a "$repo/recipes/r.yaml" && cp tests/screens/machine.yaml "$repo/recipes/m.yaml"
    g() { git -C "$repo" -c user.name=t -c user.email=t@t -c init.defaultBranch=main "$@" >/dev/null 2>&1; }
    g init && g add -A && g commit -m one && g tag old
    sed -i 's/micro_batch_size: [0-9]*/micro_batch_size: 1/' "$repo/recipes/r.yaml"
    here() { (cd "$repo" && "$moefold" "$@"); }
    expect a_commit_and_the_file 0 'A +old:recipes/r.yaml' here diff old:recipes/r.yaml recipes/r.yaml --tolerance 1000
    expect two_commits 0 'they do not differ' here diff old:recipes/r.yaml HEAD:recipes/r.yaml
    expect revisions_are_recipes_everywhere 0 'old:recipes/r.yaml' here price old:recipes/r.yaml
    expect paths_start_at_the_recipe 0 'they do not differ' here diff old:recipes/r.yaml HEAD:recipes/r.yaml cluster.gpu=recipes/m.yaml
    expect unknown_commit 2 "git does not know it as REVISION:path: fatal: .*nope" here price nope:recipes/r.yaml
    expect unknown_path 2 "recipes/none.yaml.* does not exist in 'HEAD'|does not exist in .HEAD." here price HEAD:recipes/none.yaml
    cp tests/data/megatron/qwen3_30b_a3b.txt "$repo/args.txt" && g add -A && g commit -m two
    expect megatron_of_a_commit 0 'no knob differs' here diff HEAD:args.txt args.txt --gpus 32xH100
    expect without_git 3 'git cannot be run' env PATH=/nowhere "$moefold" price old:x.yaml
else
    echo "ok two_commits # skip there is no git"
fi

# ---- bad words and files
expect two_are_needed 2 'name two recipes.*there is only' "$moefold" diff $a
expect not_three 2 "two are named already" "$moefold" diff $a $a $a
expect models_are_the_same 2 'different models: .* is of qwen3-30b-a3b, tiny of tiny; repair' "$moefold" diff $a tiny
expect tolerance_is_a_number 2 'tolerance much: a percentage of 0 or more' "$moefold" diff $a $a --tolerance much
expect tolerance_is_not_negative 2 'a percentage of 0 or more' "$moefold" diff $a $a --tolerance -1
expect missing_file_is_named 2 'no file, folder or preset model' "$moefold" diff $a recipes/qwen.yaml
mkdir "$work/run" && touch "$work/run/metrics.jsonl" && echo x >"$work/train.log"
expect half_a_run_is_refused 2 "run: a run's folder without recipe.yaml; repair" "$moefold" diff $a "$work/run"
expect a_log_beside_a_recipe 2 'train.log is a profile or a log, .* is not; repair: .moefold profile' "$moefold" diff "$work/train.log" $a
"$moefold" price tiny cluster.gpu=cpu --trace "$work/t.json" >/dev/null
expect traces_have_their_command 2 't.json: a trace ..moefold trace A B..; recipes, folders' "$moefold" diff $a "$work/t.json"
exit $failed
