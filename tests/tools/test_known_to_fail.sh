#!/bin/bash
# What tools/test makes of tests/known-to-fail.
. tests/cli/saying.sh

printf '# why\na wrong one\n' >"$work/list"
printf 'echo "ok 1 - a fine one"; echo "not ok a wrong one: for a reason"; exit 1\n' >"$work/fails.sh"
printf 'echo "ok 1 - a wrong one"\n' >"$work/mended.sh"
printf 'echo "not ok 1 - a wrong one"; kill -9 $$\n' >"$work/dies.sh"
printf 'echo "not ok 1 - another one"; exit 1\n' >"$work/other.sh"

# last_line LIST SCRIPT: what tools/test ends with, and its exit code.
last_line() {
    local out code=0
    out=$(KNOWN_TO_FAIL=$1 tools/test "$work/$2") || code=$?
    echo "${out##*$'\n'} ($code)"
}
is() { # WORDS SEEN EXPECTED
    check "$1" [ "$2" = "$3" ]
}
is "a listed test may fail" "$(last_line "$work/list" fails.sh)" "1 passed, 0 failed, 1 known to fail (0)"
is "a listed test that passes is an error" "$(last_line "$work/list" mended.sh)" "0 passed, 1 failed (1)"
is "a test that dies is an error, listed or not" "$(last_line "$work/list" dies.sh)" "0 passed, 1 failed, 1 known to fail (1)"
is "a test that is not listed fails" "$(last_line "$work/list" other.sh)" "0 passed, 1 failed (1)"
is "without a list nothing may fail" "$(last_line /dev/null fails.sh)" "1 passed, 1 failed (1)"
exit $failed
