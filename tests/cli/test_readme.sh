#!/usr/bin/env bash
# README.md says what the program says: its picture is what the commands print, each of its questions is answered by the
# command beside it in those words, and figures that were measured stand in the page named beside them.
. tests/cli/saying.sh
export COLUMNS=80
here=$PWD

wide() { python3 -c 'import sys; sys.exit(any(len(line.rstrip("\n")) > 120 for f in sys.argv[1:] for line in open(f)))' "$@"; }
check lines_have_120_columns wide README.md docs/RESULTS.md
check it_is_short test "$(wc -l <README.md)" -le 160

# ---- the picture: what takes another time each run is masked
seen() { # FILE: its lines of text
    python3 - "$1" <<'P'
import re, sys, xml.etree.ElementTree as tree
rows = {}
for e in tree.parse(sys.argv[1]).getroot().iter("{http://www.w3.org/2000/svg}text"):
    rows.setdefault(int(e.get("y")), []).append(e.text)
for _, words in sorted(rows.items()):
    print(re.sub(r"(layouts, |audited in )[0-9.]+ s", r"\1... s", " ".join(words)))
P
}
MOEFOLD=$moefold tools/terminal-picture "$work/terminal.svg"
seen docs/terminal.svg >"$work/shown"
seen "$work/terminal.svg" >"$work/printed"
check the_picture_is_what_is_printed diff "$work/shown" "$work/printed"
check the_picture_has_three_commands test "$(grep -c '^\$ \./moefold ' "$work/shown")" = 3

# ---- questions: the command of a row is run, and the words of its last column are looked for
ln -s "$here/recipes" "$work/recipes"
sed -n '/^## Ten questions/,/^$/d; /^| you ask | run | it says |$/,/^$/p' README.md | sed '1,2d; /^$/,$d' >"$work/questions"
check there_are_ten test "$(wc -l <"$work/questions")" = 10
said=
while IFS='|' read -r _ question run words _; do
    name=$(tr -cs 'A-Za-z0-9' _ <<<"$question")
    words=$(sed 's/^ *`//; s/` *$//' <<<"$words")
    if [[ $run != *"the same"* ]]; then
        read -ra command <<<"$(sed 's/^ *`moefold //; s/`.*//' <<<"$run")"
        said=$(cd "$work" && "$moefold" "${command[@]}" 2>&1 | tr -s ' \n' ' ')
    fi
    if grep -qF -- "$words" <<<"$said"; then ok "answers$name"; else bad "answers$name" "no '$words' in $said"; fi
done <"$work/questions"
expect ep_16_can_be_asked_for 0 '^TAKE .* EP 16 ' "$moefold" plan deepseek-v3 --gpus 256xH100 --seq 128K --pin ep=16

# ---- the lines of the screen that it explains, and the commands that it names
"$moefold" price recipes/dsv3-128k-h100-tp.yaml | cat "$work/printed" - >"$work/screens"
for word in $(sed -n 's/^| \([A-Z, ]*\) | .*/\1/p' README.md | tr -d ,); do
    check "there_is_a_line_$word" grep -q "^$word " "$work/screens"
done
for command in $(grep -oE '`moefold [a-z]+' README.md | sed 's/.* //' | sort -u); do
    check "there_is_$command" "$moefold" help "$command" >/dev/null
done
for page in $(grep -oE '[A-Z]+\.md' README.md | sort -u); do
    check "there_is_$page" test -e "docs/$page" -o -e "$page"
done

# ---- figures that were measured: all of a row stand in one line or in neighbours of the page that it names
cat >"$work/figures.py" <<'P'
import re, sys
bad, rows = [], 0
for row in re.findall(r"^\| (.*) \| (.*) \| (docs/\w+\.md) \|$", open("README.md").read(), re.M):
    what, result, page = row
    figures = re.findall(r"\d[\d,.]*\d|\d", result)
    if not figures or what.startswith(("TAKE", "you ")):
        continue
    rows += 1
    lines = open(page).read().split("\n")
    count = re.match(r".* of (\d+) ", what)
    wanted = figures + ([count[1]] if count else [])
    have = lambda text: all(re.search(rf"(?<![\d.]){re.escape(f)}(?![\d]|\.\d)", text) for f in wanted)
    if not any(have(" ".join(lines[i:i + 2])) for i in range(len(lines))):
        bad.append((page, what, wanted))
assert rows >= 7, rows
assert not bad, bad
P
check figures_stand_where_they_are_said_to python3 "$work/figures.py"
exit $failed
