#!/usr/bin/env bash
# What the program answers stays as it was while its source is rebuilt: twenty plans with every column of their rows, the
# verdicts and repairs of a hundred checks, the JSON of commands (tests/guard/frozen.txt, of frozen-jobs.txt), and the
# prices of all published runs (published.csv). --record (make guard-record) writes both anew; for what they were before,
# `make oracle` builds the program of then, and `tools/guard-price diff` lists the differences key by key.
. tests/cli/saying.sh
export MOEFOLD=$moefold
prices=$(dirname "$moefold")/bench/accuracy

tools/guard-price write "$work/now" tests/guard/frozen-jobs.txt || exit 1
tools/guard-price rows "$work/now" >"$work/frozen.txt"
if [ -x "$prices" ]; then "$prices" --csv >"$work/published.csv"; fi
if [ "${1:-}" = --record ]; then
    cp "$work/frozen.txt" "$work/published.csv" tests/guard/
    exit 0
fi
same() { # NAME FILE
    if diff "tests/guard/$2" "$work/$2" >"$work/diff"; then
        ok "$1"
    else
        bad "$1" "$(grep -c '^>' "$work/diff") lines differ; meant: make guard-record, and a row in tests/guard/differences.md"
        cut -c1-300 "$work/diff" | head -20
    fi
}
same plans_checks_and_commands_answer_as_recorded frozen.txt
if [ -x "$prices" ]; then
    same published_runs_are_priced_as_recorded published.csv
else
    echo "ok published_runs_are_priced_as_recorded # SKIP build/bench/accuracy is not built"
fi
jobs=$(grep -cE '^[^#]' tests/guard/frozen-jobs.txt)
check every_job_has_an_answer [ "$(grep -cE '^[^ ]' tests/guard/frozen.txt)" = "$jobs" ]
exit $failed
