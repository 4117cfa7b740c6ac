#!/usr/bin/env bash
# What price, check and plan say of all recipes and of tests/guard/jobs.txt is what tests/guard/price.txt says.
# --record (make guard-record) writes that file anew. To list what a change does, key by key:
#     MOEFOLD=before tools/guard-price write a; MOEFOLD=after tools/guard-price write b; tools/guard-price diff a b
. tests/cli/saying.sh
export MOEFOLD=$moefold
record=tests/guard/price.txt

tools/guard-price write "$work/now" || exit 1
tools/guard-price lines "$work/now" >"$work/lines"
if [ "${1:-}" = --record ]; then
    cp "$work/lines" $record
    exit 0
fi
if diff $record "$work/lines" >"$work/diff"; then
    ok prices_are_as_recorded
else
    bad prices_are_as_recorded "see tools/guard-price; meant: make guard-record, and say why in the commit"
    cat "$work/diff"
fi
check all_recipes_are_recorded [ "$(grep -c '^price ' $record)" -ge "$(ls recipes/*.yaml | wc -l)" ]

# ---- the tool itself: a changed figure is seen and named, a changed sentence is not
cp -r "$work/now" "$work/other"
check nothing_differs_from_itself tools/guard-price diff "$work/now" "$work/other"
file="$work/other/price dsv3-4k-h100.json"
sed -i -E 's/"evidence": "[^"]*"/"evidence": "other words"/' "$file"
check sentences_do_not_count tools/guard-price diff "$work/now" "$work/other"
sed -i -E 's/"weights": [0-9]+/"weights": 7/' "$file"
expect a_changed_figure_is_named 1 'memory.weights: [0-9]+ -> 7' tools/guard-price diff "$work/now" "$work/other"
check a_changed_figure_changes_its_line [ "$(diff <(tools/guard-price lines "$work/other") "$work/lines" | grep -c '^<')" = 1 ]
rm "$file"
expect a_missing_answer_is_named 1 'price dsv3-4k-h100: only in' tools/guard-price diff "$work/now" "$work/other"
exit $failed
