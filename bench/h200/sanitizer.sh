# compute-sanitizer over the tests of rows and over a small run: memory everywhere, races where no TMA is used
# (the checker of races does not follow bulk copies).
sanitizer=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")

# looked_at WHAT SECONDS ARGUMENTS...: one that takes longer than it may is no silence.
looked_at() {
    local what=$1 most=$2
    shift 2
    timeout "$most" "$sanitizer" --error-exitcode 9 "$@" >"$work/out" 2>&1
    local code=$?
    say_if "$what" "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$work/out" | tail -1 | sed 's/=* *//'), code $code" "silent" [ $code -eq 0 ]
    cp "$work/out" "$dir/sanitizer-${what%% *}.txt"
}

looked_at "racecheck over the rows without TMA" 120 --tool racecheck "$rows" --once --small --no-tma
looked_at "racecheck-casts over what makes codes" 100 --tool racecheck "$rows" --casts
looked_at "memcheck over all rows, each once" 120 --tool memcheck "$rows" --once
looked_at "memcheck-train over two steps of training" 40 --tool memcheck "$moefold" train tiny cluster.gpu=H200 cluster.n_gpus=1 \
    moefold.device=cuda seq=64 gbs=4 train.train_iters=2
looked_at "memcheck-fast over the fast rows" 110 --tool memcheck "$rows" --fast
looked_at "synccheck over the rows, each once" 60 --tool synccheck "$rows" --once --small
