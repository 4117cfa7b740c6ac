#!/usr/bin/env bash
# A knob that says what is computed is either heard or refused: tests/data/knob-effects.txt names each with what it needs.
# One in ten here; all of them where TEST_ALL is set.
. tests/cli/saying.sh
small=(cluster.gpu=cpu model.seq_length=32 train.micro_batch_size=1 train.global_batch_size=2 train.train_iters=3 --threads 1)
grep -v '^#' tests/data/knob-effects.txt >"$work/all"
awk -v step="${TEST_ALL:+1}" 'NR % (step ? step : 10) == 0 || step' "$work/all" >"$work/cases"
# shellcheck disable=SC2086 # the words of a recipe
numbers() { # RECIPE [OVERRIDE]: all but times; a run that ends badly has none, but its exit code
    local words=$1 code
    words=${words/ / ${small[*]} } # what a case needs comes behind
    [[ $1 == *' '* ]] || words="$1 ${small[*]}"
    "$moefold" train $words ${2:-} >"$work/out" 2>"$work/err"
    code=$?
    grep -oE '(loss|learning rate|grad norm|value|batch size): +[0-9.E+-]+' "$work/out"
    echo "exit $code"
}
declare -A base
while IFS='|' read -r recipe knob; do
    recipe=${recipe% } knob=${knob# }
    [ -n "${base[$recipe]:-}" ] || base[$recipe]=$(numbers "$recipe")
    now=$(numbers "$recipe" "$knob")
    check "$knob" grep -qE 'exit [0124]$' <<<"$now"
    check "heard: $knob" [ "${base[$recipe]##*exit }" = 0 -a "$now" != "${base[$recipe]}" ]
done <"$work/cases"
check cases_were_run [ "$(wc -l <"$work/cases")" -ge 6 ]
exit $failed
