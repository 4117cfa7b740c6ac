#!/usr/bin/env bash
# What is claimed about one H200, measured again: each part runs on the GPU and writes its rows to
# build/h200/PART.tsv (H200_DIR names another folder); `table` prints one table from all these files.
#
#     bench/h200.sh PART ...     parity kernels sanitizer speed graphs train fp8 run memory products ranks overlap offload families table
#
# Needs what `make` and `make cuda bench-cuda` build. Every call first runs an 8192-cubed product and a copy: its times count
# where both are within 3 % of what this kind of GPU reached before. A row that is not as asked ends the call with code 1.
set -u
moefold=${MOEFOLD:-build/moefold}
moefold_test=${MOEFOLD_TEST:-$(dirname "$(readlink -f "$moefold")")/moefold-test} # plants faults
rows=${ROWS:-build/tests/cuda/rows}
rows_time=${ROWS_TIME:-build/bench/cuda/rows_time}
dir=${H200_DIR:-build/h200}
here=$(dirname "$0")/h200
parts=(parity kernels sanitizer speed graphs train fp8 run memory products ranks overlap offload families)
golden=tests/data/golden

# A row of the table: what, what was seen, what was asked for, and whether it is so (yes, no, or - where nothing was asked).
say() {
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" | tee -a "$dir/$part.tsv"
    if [ "$4" = no ]; then bad=$((bad + 1)); fi
}

# say_if WHAT SEEN ASKED CONDITION...: the condition decides.
say_if() {
    local what=$1 seen=$2 asked=$3
    shift 3
    if "$@"; then say "$what" "$seen" "$asked" yes; else say "$what" "$seen" "$asked" no; fi
}

# Is arithmetic on numbers true? `holds '0.3 <= 1'`. What is no number holds nowhere; to awk nan would be a variable, and 0.
holds() {
    case $1 in *nan* | *inf*) return 1 ;; esac
    awk "BEGIN {exit !($1)}"
}

# figure KEY: the first number of that name in JSON from standard input.
figure() { grep -o "\"$1\":[-0-9.e+]*" | head -1 | sed 's/.*://'; }

# each KEY: that number in every iteration line of a metrics file.
each() { grep '"event":"iteration"' | grep -o "\"$1\":[-0-9.e+]*" | sed 's/.*://'; }

median() { sort -g | awk '{t[NR] = $1} END {if (NR) print t[int((NR + 1) / 2)]; else print "nan"}'; }

# apart A B: the largest relative difference between two columns of numbers; nan where one is shorter or empty.
apart() {
    paste "$1" "$2" | awk 'NF != 2 {print "nan"; short = 1; exit} {d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d <= most)) most = d}
        END {if (!short) print NR ? most + 0 : "nan"}'
}

percent() { [ "$1" = nan ] && echo nan || awk "BEGIN {printf \"%.2f %%\", 100 * ($1)}"; }

pace() {
    local found product copy
    found=$("$rows_time" 'nothing but the two' | sed -n 's/.*ceilings beside.*| \([-+0-9.]*\) %, \([-+0-9.]*\) %.*/\1 \2/p')
    read -r product copy <<<"${found:-nan nan}"
    say "pace of this call: 8192-cubed product, copy" "$product %, $copy %" "within 3 % of 794 TFLOP/s, 4,244 GB/s" - >/dev/null
    if holds "$product <= 3 && $product >= -3 && $copy <= 3 && $copy >= -3"; then
        echo "pace: $product %, $copy %: times count"
    else
        echo "pace: $product %, $copy %: the times of this call do not count"
    fi
}

table() {
    local p
    for p in "${parts[@]}"; do
        [ -s "$dir/$p.tsv" ] || { echo "$p: not run"; echo; continue; }
        printf '| %s | seen | asked | |\n|---|--:|--:|---|\n' "$p"
        awk -F'\t' '{printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 == "-" ? "" : $4}' "$dir/$p.tsv"
        echo
    done
}

[ $# -gt 0 ] || { sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
for part in "$@"; do
    [ "$part" = table ] && { table; continue; }
    [ -f "$here/$part.sh" ] || { echo "bench/h200.sh: there is no part $part; there are: ${parts[*]} table" >&2; exit 2; }
    nvidia-smi -L >/dev/null 2>&1 || { echo "bench/h200.sh $part: skipped: there is no GPU here"; continue; }
    : >"$dir/$part.tsv"
    start=$SECONDS
    pace
    # shellcheck source=/dev/null
    . "$here/$part.sh"
    say "seconds that the part took" "$((SECONDS - start))" "480" "$([ $((SECONDS - start)) -le 480 ] && echo yes || echo no)"
done
[ $bad -eq 0 ] || { echo "$bad rows are not as asked"; exit 1; }
