#!/usr/bin/env bash
# Exports for Megatron: what can be told starts there (test_megatron_starts.sh), what cannot is refused with the nearest
# recipe that can be and its price. From the repository's root.
. tests/cli/saying.sh

ring="recipes/dsv3-128k-h100.yaml moefold.stack=null model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null
    moefold.mla_latent_ring=true"

# ---- refusals: exit 1, nothing on the standard output
for system in megatron-lm megatron-bridge; do
    # shellcheck disable=SC2086
    "$moefold" show $ring --as $system >"$work/out" 2>"$work/err"
    code=$?
    check "latent_ring_is_refused_for_$system" [ $code = 1 ]
    check "refusal_for_${system}_writes_nothing" [ ! -s "$work/out" ]
    check "refusal_for_${system}_names_the_knob" grep -q 'moefold.mla_latent_ring=true (command line)' "$work/err"
    check "refusal_for_${system}_gives_the_nearest" \
        grep -q 'nearest recipe that can be written: moefold.mla_latent_ring=false model.cp_comm_type=a2a' "$work/err"
    check "refusal_for_${system}_prices_both" [ "$(grep -c 's a step' "$work/err")" = 2 ]
    # shellcheck disable=SC2086
    expect "nearest_for_${system}_is_written" 0 'context.parallel.size' \
        "$moefold" show $ring moefold.mla_latent_ring=false model.cp_comm_type=a2a --as $system
    # shellcheck disable=SC2086
    expect "a_ring_is_the_nearest_of_old_containers_for_$system" 1 'nearest recipe that can be written: moefold.mla_latent_ring=false$' \
        "$moefold" show $ring moefold.stack=26.04 --as $system
    expect "broken_rule_is_refused_for_$system" 1 'heads-divide-by-tp' \
        "$moefold" show deepseek-v3 model.tensor_model_parallel_size=3 --as $system
    "$moefold" show deepseek-v3 model.tensor_model_parallel_size=3 --as $system >"$work/out" 2>/dev/null
    check "broken_rule_writes_nothing_for_$system" [ ! -s "$work/out" ]
done
expect no_flag_is_refused 1 'dataset.random_seed=null' "$moefold" show recipes/qwen3-30b-4k-h100.yaml dataset.random_seed=7 \
    --as megatron-lm
expect a_key_is_enough_for_bridge 0 'dataset.random_seed=7' "$moefold" show recipes/qwen3-30b-4k-h100.yaml \
    dataset.random_seed=7 --as megatron-bridge
expect recipe_of_the_same_is_written 0 'mla_latent_ring: true' "$moefold" show recipes/dsv3-128k-h100.yaml \
    model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null moefold.mla_latent_ring=true --as recipe
expect offload_of_the_state_alone_is_written_for_bridge 0 'optimizer.optimizer_cpu_offload=true' "$moefold" show \
    recipes/dsv3-4k-h100.yaml optimizer.use_precision_aware_optimizer=false --as megatron-bridge
expect and_refused_for_megatron_lm 1 'nearest recipe that can be written: optimizer.use_precision_aware_optimizer=true' "$moefold" show \
    recipes/dsv3-4k-h100.yaml optimizer.use_precision_aware_optimizer=false --as megatron-lm

# ---- what Megatron-LM does not start without
"$moefold" show recipes/qwen3-30b-4k-h100.yaml --as megatron-lm >"$work/args.txt"
for flag in '--tokenizer-type NullTokenizer' '--vocab-size' '--train-iters' '--eval-interval' '--lr ' '--mock-data'; do
    check "export_has_${flag// /_}" grep -qe "$flag" "$work/args.txt"
done
check export_is_a_command grep -q '^PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True NCCL_GRAPH_REGISTER=0 torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py' "$work/args.txt"
expect one_queue_with_context_parallel 0 '^PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun' \
    "$moefold" show recipes/dsv3-128k-h100.yaml --as megatron-lm
expect tokenizer_is_kept 0 'tokenizer-type HuggingFaceTokenizer' \
    "$moefold" show --from-megatron tests/data/megatron/qwen3_30b_a3b.txt --as megatron-lm
expect lost_flags_are_named 0 'not written: .*--transformer-impl' \
    "$moefold" show --from-megatron tests/data/megatron/deepseek_v3.txt --as megatron-bridge

# ---- what Megatron-LM's arguments refuse since June 2026 is in no export
taken() { # FILE
    ! grep -qe '--cross-entropy-fusion-impl te' "$1" &&
        { ! grep -q 'expandable_segments:True' "$1" || ! grep -qe '--cuda-graph-impl transformer_engine' "$1" ||
            grep -q '^[^#]*NCCL_GRAPH_REGISTER=0 ' "$1"; }
}
for preset in $("$moefold" show --presets); do
    "$moefold" show "$preset" env_vars.PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True model.cuda_graph_impl=transformer_engine \
        --as megatron-lm >"$work/args.txt" 2>/dev/null && check "${preset}_with_graphs_is_taken" taken "$work/args.txt"
done
for list in tests/data/megatron/*.txt; do
    "$moefold" show --from-megatron "$list" --as megatron-lm >"$work/args.txt" 2>/dev/null &&
        check "$(basename "$list" .txt)_is_taken" taken "$work/args.txt"
done
expect graphs_are_not_registered_in_bridge_either 0 '^\+\+env_vars.NCCL_GRAPH_REGISTER=0$' \
    "$moefold" show recipes/qwen3-30b-4k-h100.yaml --as megatron-bridge
without other_graphs_may_be 'NCCL_GRAPH_REGISTER' "$moefold" show recipes/dsv3-128k-h100.yaml --as megatron-lm
expect a_default_follows_the_system 0 '^# model.cross_entropy_fusion_impl=native instead of te \(default\): .* GiB -> ' \
    "$moefold" show recipes/qwen3-30b-4k-h100.yaml --as megatron-lm
without and_stays_in_bridge 'cross_entropy_fusion_impl=native' "$moefold" show recipes/qwen3-30b-4k-h100.yaml --as megatron-bridge
for recipe in recipes/qwen3-30b-4k-h100.yaml tests/data/megatron/qwen3_30b_a3b.txt; do
    expect "te_of_a_person_is_refused_for_$(basename "$recipe")" 1 \
        'nearest recipe that can be written: model.cross_entropy_fusion_impl=native$' "$moefold" show "$recipe" \
        model.cross_entropy_loss_fusion=true model.cross_entropy_fusion_impl=te --as megatron-lm
done
expect te_in_megatron_lm_breaks_a_rule 1 'te-loss-is-refused' "$moefold" check --everything tests/data/megatron/qwen3_30b_a3b.txt \
    model.cross_entropy_loss_fusion=true model.cross_entropy_fusion_impl=te

# ---- an export means the recipe: what it sets, its memory and its step time, read back; but for the cross entropy, which
# is Megatron-LM's own there
native=model.cross_entropy_fusion_impl=native
for recipe in recipes/*.yaml; do
    "$moefold" show "$recipe" --as megatron-lm >"$work/args.txt" 2>/dev/null
    "$moefold" show "$recipe" $native --json >"$work/a.json"
    "$moefold" price "$recipe" $native --json >"$work/ap.json" 2>/dev/null
    check "$(basename "$recipe" .yaml)_is_taken" taken "$work/args.txt"
    mapfile -t beside < <(python3 -c 'import json, sys
knobs = json.load(open(sys.argv[1]))["knobs"]
for k in ("cluster.gpu", "cluster.nvlink_domain", "moefold.stack"):
    print(k + "=" + json.dumps(knobs[k]["value"]))' "$work/a.json")
    "$moefold" show --from-megatron "$work/args.txt" "${beside[@]}" --json >"$work/b.json"
    "$moefold" price --from-megatron "$work/args.txt" "${beside[@]}" --json >"$work/bp.json" 2>/dev/null
    check "$(basename "$recipe" .yaml)_reads_back" python3 tests/cli/same_recipe.py "$work"/{a,b,ap,bp}.json
done
exit $failed
