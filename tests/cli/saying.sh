# saying.sh - what scripts that meet the program as people do share: the programs, a folder that goes with the script, and
# lines that tools/test counts. Read by `. tests/cli/saying.sh` from the repository's root; ends with `exit $failed`.
set -u
moefold=$(readlink -f "${MOEFOLD:-./moefold}")
# The same with emulated devices and words that plant faults (tests/emulated): `make build/moefold-test`.
moefold_test=$(readlink -f "${MOEFOLD_TEST:-$(dirname "$moefold")/moefold-test}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
export COLUMNS=1000 # so that no line that is looked for is wrapped

ok() { echo "ok $1"; }
bad() { # NAME WHY...
    echo "not ok $1: ${*:2}"
    failed=1
    return 1 # so that whoever calls may say more
}
check() { # NAME CONDITION...
    local name=$1
    shift
    if "$@"; then ok "$name"; else bad "$name" "$*"; fi
}
# The exit code, and a pattern in what is printed on either channel.
expect() { # NAME CODE PATTERN COMMAND...
    local name=$1 code=$2 pattern=$3 out got
    shift 3
    out=$("$@" 2>&1)
    got=$?
    if [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"; then
        ok "$name"
    else
        bad "$name" "exit $got instead of $code, or no '$pattern' in: $(head -5 <<<"$out")"
    fi
}
without() { # NAME PATTERN COMMAND...
    local name=$1 pattern=$2 out
    shift 2
    out=$("$@" 2>&1)
    if grep -qE -- "$pattern" <<<"$out"; then bad "$name" "'$pattern' in it"; else ok "$name"; fi
}
