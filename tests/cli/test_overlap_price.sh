#!/usr/bin/env bash
# Steps of several ranks over an emulated link, on streams that run beside each other as a GPU's do, take what `price` says, within 15 %,
# and overlaps hide messages: replicas and stages, off and on (bench/h200/overlap.sh). A machine that has other work only adds to a
# step, so a try that is too long is made again with longer operations, beside which that is less.
. tests/cli/saying.sh
export MOEFOLD=$moefold
for overlap in DP PP; do
    for us in 1000 2000 6000; do
        OVERLAP_ONLY=$overlap OVERLAP_US=$us timeout 300 bash bench/h200/overlap.sh >"$work/rows" 2>&1 && break
    done
    check "${overlap}_has_two_rows" [ "$(grep -c 'yes$' "$work/rows")" = 2 ] || cat "$work/rows"
    without "${overlap}_is_as_priced_and_hides" 'no$|code [0-9]' cat "$work/rows"
done
exit $failed
