#!/usr/bin/env bash
# The planner alone (`make planner`) says what the whole program says, has nothing of training, and names what it lacks.
. tests/cli/saying.sh
planner=$(readlink -f "${MOEFOLD_PLANNER:-$(dirname "$moefold")/moefold-planner}")
check it_is_built test -x "$planner"

same() { # NAME COMMAND...: seconds that the search and the audit took are masked
    local name=$1 program
    shift
    for program in "$moefold" "$planner"; do
        "$program" "$@" 2>&1
        echo "exit $?"
    done | sed -E 's/(layouts, |audited in )[0-9.]+ m?s/\1/; s/"seconds":[0-9.e-]+//g' >"$work/both"
    if awk '{ line[NR] = $0 } END { n = NR / 2; for (i = 1; i <= n; i++) if (line[i] != line[i + n]) exit 1; exit NR % 2 }' \
        "$work/both"; then ok "$name"; else bad "$name" "$(head -3 "$work/both")"; fi
}
recipe=recipes/qwen3-30b-4k-h100.yaml
same plans_alike plan qwen3-30b-a3b --gpus 16xH100 --seq 4K
same checks_alike check $recipe --all-ranks
same refuses_alike check deepseek-v3 --gpus 256xH100 pp=8 ep=64
same prices_alike price $recipe --why
same shows_alike show $recipe --as megatron-lm
same compares_alike diff $recipe $recipe mbs=1
same profiles_alike profile $recipe tests/data/profile/nsight.sqlite
same launches_alike launch $recipe
same knobs_alike knobs recompute
expect reports 0 '' "$planner" report $recipe --brief -o "$work/page.html"
check reports_a_page grep -q '</html>' "$work/page.html"

for command in train eval tune bench parity convert; do
    expect "has_no_$command" 2 "'$command' is not here: this is the planner alone; repair: .make. builds training" "$planner" "$command"
done
expect help_says_so 0 'This is the planner alone; .make. builds training, too: train eval tune bench parity convert$' "$planner" help
without the_whole_program_does_not 'planner alone' "$moefold" help
expect no_runtime_to_launch 2 'moefold.target=moefold: this is the planner alone.*repair: moefold.target=megatron, or .make.' \
    "$planner" launch tiny --gpus 16xcpu train.train_iters=100
nm "$planner" 2>/dev/null >"$work/symbols"
check it_has_symbols grep -q ' T main$' "$work/symbols"
check it_has_no_backend test -z "$(grep -E ' [TD] (comm_open|device_cuda|kernel_launch|facts_start|job_run)' "$work/symbols")"
exit $failed
