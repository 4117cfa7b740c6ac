#!/usr/bin/env bash
# screens.sh --write      writes tests/screens/NAME.txt for each line of tests/screens/commands
# screens.sh --show NAME  prints one as it is now
#
# A screen is what a person meets: the command, both channels, the exit code. Numbers are masked (N); names that have
# digits in them (H100, bf16) stay.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 3
moefold=$(readlink -f "${MOEFOLD:-./moefold}")

# Commands whose screens stay within the window; before their words may stand COLUMNS=N (100 as in a pipe).
new_screens="plan check price profile tune diff"

# Numbers of a column end where they ended, or start where they started, so that a longer one moves nothing.
mask() {
    MOEFOLD_PATH=$moefold perl -pe '
        next if /^\$ moefold / || /^--- exit code /;
        s/\Q$ENV{MOEFOLD_PATH}\E/moefold/g;
        s/\b(E?TP|CP|EP|V?PP|E?DP)\d+/$1N/g;
        s/([A-Za-z_][\w.\/+-]*)|( {2,})?([-+]?)(\d+(?:[.,]\d+)*(?:e[+-]?\d+)?)( {2,}(?![-+ ]*\d))?/
            my $pad = " " x (length($4) - 1);
            defined $1 ? $1 : defined $2 ? "$2$pad$3N" . ($5 \/\/ "")
            : "$3N" . (defined $5 ? $pad . $5 : "")/ge;
        s/[ \t]+$//;'
}
screen() { # WORDS...; what tries something has build/screens.tuned to itself
    rm -rf build/screens.tuned
    local out=$1 code columns=100
    shift
    [[ $1 == COLUMNS=* ]] && columns=${1#*=} && shift
    COLUMNS=$columns HOME=/nowhere NO_COLOR=1 "$moefold" "$@" >"$out/stdout" 2>"$out/stderr" </dev/null
    code=$?
    echo "\$ moefold $*"
    cat "$out/stdout"
    [[ " ${new_screens} " == *" $1 "* ]] && awk -v n="$columns" 'length > n { print "--- wider than the window: " $0 }' "$out/stdout"
    [ -s "$out/stderr" ] && echo "--- standard error" && cat "$out/stderr"
    echo "--- exit code $code"
}
# each NAME FUNCTION: calls FUNCTION NAME WORDS... for every line, or that of NAME
each() {
    local name words
    while IFS= read -r line; do
        [[ $line == '#'* || -z $line ]] && continue
        name=${line%%:*} words=${line#*: }
        [ -n "$1" ] && [ "$1" != "$name" ] && continue
        read -ra words <<<"$words"
        "$2" "$name" "${words[@]}"
    done <tests/screens/commands
}
now() { # WORDS...
    local dir
    dir=$(mktemp -d)
    screen "$dir" "$@" | mask
    rm -r "$dir"
}
write_one() { now "${@:2}" >"tests/screens/$1.txt"; }
show_one() { now "${@:2}"; }

case ${1-} in
--write)
    rm -f tests/screens/*.txt
    each "" write_one
    ;;
--show) each "${2-}" show_one ;;
--source) ;;
*)
    echo "screens.sh --write | --show NAME" >&2
    exit 2
    ;;
esac
