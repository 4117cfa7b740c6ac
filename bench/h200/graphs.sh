# Steps of one rank, eager, as one CUDA graph, and as graphs of parts of a layer: the same losses and gradient norms to the last bit in
# deterministic mode, with AdamW, so that every weight counts; ms of a step, the host's ms to put it, and what it puts. GRAPHS_SAMPLES names
# others than these sizes.
shape=(qwen3-30b-a3b model.num_layers=4 cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.mock_data=true moefold.device=cuda
    model.moe_router_force_load_balancing=true model.deterministic_mode=true logger.log_interval=1)

# stepped NAME STEPS WORDS...: its losses and gradient norms in $work/NAME.txt; prints the median ms of a step but the first two, and the host's line.
stepped() {
    local name=$1 steps=$2
    shift 2
    rm -f "$work/m"
    timeout 100 "$moefold" train "${shape[@]}" train.train_iters="$steps" --metrics "$work/m" "$@" >"$work/log" 2>&1 || tail -2 "$work/log" >&2
    { each 'lm loss' <"$work/m"; each grad_norm <"$work/m"; } >"$work/$name.txt"
    echo "$(each elapsed_ms <"$work/m" | tail -n +3 | median | xargs printf '%.1f') ms; $(grep -oE '^host: .*' "$work/log")"
}

graphs() { # SAMPLES STEPS
    local samples=$1 steps=$2 scope on
    # shellcheck disable=SC2054
    local words=(train.micro_batch_size="$samples" train.global_batch_size="$samples" model.seq_length=4096)
    say "${samples}x4096, eager: a step; the host" "$(stepped eager "$steps" "${words[@]}")" "" -
    for scope in full_iteration attn,moe_router,moe_preprocess; do
        on=(model.cuda_graph_impl=$scope)
        [ $scope = full_iteration ] || on=(model.cuda_graph_impl=transformer_engine "model.cuda_graph_modules=[$scope]")
        say "${samples}x4096, $scope: a step; the host" "$(stepped graphs "$steps" "${words[@]}" "${on[@]}")" "" -
        say_if "${samples}x4096, $scope: losses and gradient norms beside eager" "$(paste "$work/graphs.txt" "$work/eager.txt" | awk '$1 == $2' | wc -l) of $((2 * steps)) the same" \
            "all to the bit, and graphs" bash -c "[ -s '$work/eager.txt' ] && cmp -s '$work/graphs.txt' '$work/eager.txt' && grep -qE '^host: .* graphs? of' '$work/log'"
    done
}

for samples in ${GRAPHS_SAMPLES:-1 8}; do graphs "$samples" 8; done
