#!/usr/bin/env bash
# Whole screens against those stored in tests/screens, numbers masked; the difference is shown. `make screens` rewrites
# them: read `git diff tests/screens` before you commit it. From the repository's root.
. tests/cli/saying.sh
names=0
while IFS= read -r line; do
    [[ $line == '#'* || -z $line ]] && continue
    name=${line%%:*} names=$((names + 1))
    stored=tests/screens/$name.txt
    if [ ! -e "$stored" ]; then
        bad "screen_$name" "there is no $stored; make screens writes it"
        continue
    fi
    MOEFOLD=$moefold bash tests/screens/screens.sh --show "$name" >"$work/now" 2>&1
    if diff -u "$stored" "$work/now" >"$work/diff"; then
        ok "screen_$name"
    else
        bad "screen_$name" "differs from $stored; make screens rewrites it:"
        sed -n '3,40s/^/    /p' "$work/diff"
    fi
done <tests/screens/commands
check every_screen_has_a_command test "$names" = "$(find tests/screens -name '*.txt' | wc -l)"
# The mask leaves no number but those of names.
check no_number_is_stored test -z "$(grep -hvE '^(\$ moefold |--- exit code )' tests/screens/*.txt |
    sed -E 's/[A-Za-z_][A-Za-z0-9_.\/+-]*//g' | grep -m 1 '[0-9]')"
exit $failed
