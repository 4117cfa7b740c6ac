#!/usr/bin/env bash
# The library as other programs get it: installed with its header and pkg-config file, shared and static, with no name but
# those of its header; examples/ are built with what is installed and answer as the program does; uninstall leaves nothing.
. tests/cli/saying.sh
if [ "$(dirname "$moefold")" != "$PWD/build" ]; then
    echo "ok the_library_is_installed # SKIP only of the release in build/"
    exit 0
fi
export PREFIX=$work/usr PKG_CONFIG_PATH=$work/usr/lib/pkgconfig
${MAKE:-make} --no-print-directory -s install-library PREFIX="$PREFIX" >"$work/log" 2>&1 ||
    { bad the_library_is_installed "$(tail -3 "$work/log")"; exit 1; }

exported() { # FILE NM-OPTION
    nm "$2" --defined-only "$1" | awk '$2 != "A" && NF > 2 { sub(/@.*/, "", $3); print $3 }' | sort
}
grep -oE '\bmoefold_[a-z]+\(' include/moefold.h | tr -d '(' | sort -u >"$work/declared"
check shared_exports_its_header diff "$work/declared" <(exported "$PREFIX/lib/libmoefold.so" -D)
check static_exports_its_header diff "$work/declared" <(exported "$PREFIX/lib/libmoefold.a" -g)
check its_version_is_the_programs [ "moefold $(pkg-config --modversion moefold)" = "$("$moefold" --version)" ]
without it_needs_no_threads_of_openmp 'gomp|sqlite|mpi|cuda' objdump -p "$PREFIX/lib/libmoefold.so"

read -r -a flags < <(pkg-config --cflags --libs moefold)
read -r -a all < <(pkg-config --static --libs moefold | sed "s/-lmoefold//")
for name in check plan lengths; do
    cc -std=c11 -Wall -Wextra -Werror "examples/$name.c" "${flags[@]}" -Wl,-rpath,"$PREFIX/lib" -pthread \
        -o "$work/$name" 2>"$work/log" || bad "$name.c_is_built" "$(head -3 "$work/log")"
    cc -std=c11 "examples/$name.c" -I"$PREFIX/include" "$PREFIX/lib/libmoefold.a" "${all[@]}" -pthread \
        -o "$PREFIX/$name-static" 2>"$work/log" || bad "$name.c_is_built_static" "$(head -3 "$work/log")"
done
cd "$work" || exit 1 # hardware files are those that are installed
recipe=$OLDPWD/recipes/qwen3-30b-4k-h100.yaml
expect a_recipe_fits 0 '^[0-9.]+ of 75.14 GiB$' ./check "$recipe"
expect a_broken_rule_is_told_with_its_repair 1 '^repair: ' ./check qwen3-30b-a3b tp=3 --gpus 16xH100
expect a_wrong_word_is_told 2 'nosuchknob' ./check tiny nosuchknob=1
expect a_plan_is_made 0 '^[0-9.]+ s  tp [0-9]+  cp [0-9]+  ep [0-9]+' ./plan 500 tiny --gpus 8xH100 --seq 4K
expect a_plan_is_cancelled 4 '^no plan in time$' ./plan 0.1 deepseek-v3 --gpus 1024xH100 --seq 128K
expect lengths_are_priced_beside_one_another 0 '16384 tokens: [0-9.]+ s' ./lengths "$recipe" 4096 8192 16384
step=$("$moefold" price "$recipe" --json | python3 -c 'import json, sys; print("%.3f s," % json.load(sys.stdin)["step_s"])')
expect a_price_is_that_of_the_program 0 " 4096 tokens: $step" ./lengths "$recipe" 4096
check static_answers_alike diff <(./check "$recipe") <("$PREFIX/check-static" "$recipe")
if command -v valgrind >/dev/null; then
    for words in "check $recipe --all-ranks" "check $recipe tp=3 --fix" "lengths $recipe 4096 8192" \
        "plan 0.5 deepseek-v3 --gpus 64xH100 --seq 8K"; do
        read -r -a line <<<"$words"
        valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "./${line[0]}" "${line[@]:1}" \
            >"$work/log" 2>&1
        check "valgrind_is_silent_over_${line[0]}" [ $? != 99 ] || head -20 "$work/log"
    done
else
    echo "ok valgrind_is_silent # SKIP it is not installed"
fi
cd "$OLDPWD" || exit 1
rm "$PREFIX"/*-static
${MAKE:-make} --no-print-directory -s uninstall PREFIX="$PREFIX" >"$work/log" 2>&1
check uninstall_leaves_no_file [ -z "$(find "$PREFIX" ! -type d)" ]
exit $failed
