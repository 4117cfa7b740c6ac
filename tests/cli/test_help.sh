#!/usr/bin/env bash
# Help pages, their examples (each is run), completion, the man page, and colour. From the repository's root.
. tests/cli/saying.sh
root=$PWD
mapfile -t commands < <("$moefold" help | sed -n 's/^  moefold \([a-z]*\) .*/\1/p')
check all_commands_are_listed test "${#commands[@]}" -ge 13

# ---- pages
for c in "${commands[@]}"; do
    if [ "$("$moefold" help "$c" 2>&1)" = "$("$moefold" "$c" --help 2>&1)" ]; then ok "help_of_$c"; else bad "help_of_$c" differs; fi
    expect "page_of_$c" 0 "^moefold $c" "$moefold" "$c" --help
    n=$("$moefold" "$c" --help | grep -c '^      [a-z]')
    check "three_examples_of_$c" test "$n" = 3
    check "width_of_$c" test "$("$moefold" "$c" --help | awk '{ if (length > m) m = length } END { print m }')" -le 110
done
expect help_of_nothing 2 "unknown command 'plam'; did you mean plan" "$moefold" help plam

# ---- examples: in a folder that has what they name
mkdir -p "$work/bin" "$work/run"
ln -s "$moefold" "$work/bin/moefold"
for f in recipes tests hardware; do ln -s "$root/$f" "$work/run/$f"; done
example() { # NAME LINE
    local out code
    out=$(cd "$work/run" && HOME=$work PATH="$work/bin:$PATH" timeout 250 bash -c "$2" 2>&1 </dev/null)
    code=$?
    if [[ $2 == *--fix* ]]; then # there is something to repair
        if [ $code = 1 ] && grep -q '^model\.' <<<"$out"; then ok "$1"; else bad "$1" "exit $code of '$2': $out"; fi
        return
    fi
    if [ $code = 0 ]; then ok "$1"; else bad "$1" "exit $code of '$2': $(tail -3 <<<"$out")"; fi
}
mkdir -p "$work/.local/share/bash-completion/completions" "$work/.zfunc" "$work/.local/share/man/man1"
for c in "${commands[@]}"; do
    i=0
    while read -r line; do
        i=$((i + 1))
        if [ "$c" = bench ]; then # a measurement takes a minute: its words are read, its place is not there
            expect "example_${c}_$i" 3 'out /nowhere/x.yaml' $moefold ${line#moefold } --out /nowhere/x.yaml
            continue
        fi
        [[ $line == *mpirun* || $line == *"--ranks 2"* ]] && ! command -v mpirun >/dev/null && continue
        for tool in $(sed 's/^[^|]*//; s/| *\([a-z]*\)[^|]*/\1 /g' <<<"$line"); do # what it pipes into
            command -v "$tool" >/dev/null || { echo "ok example_${c}_$i # skip there is no $tool"; continue 2; }
        done
        example "example_${c}_$i" "$line"
    done < <("$moefold" "$c" --help | sed -n 's/^      \([a-z].*\)/\1/p')
done

# ---- completion
completed() { # LINE: the words that bash offers
    COMP_LINE=$1 COMP_POINT=${#1}
    read -ra COMP_WORDS <<<"$1"
    [[ $1 == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _moefold
    echo " ${COMPREPLY[*]} "
}
"$moefold" completion bash >"$work/complete.bash"
# shellcheck source=/dev/null
. "$work/complete.bash"
offers() { if [[ $(completed "$2") == *" $3 "* ]]; then ok "$1"; else bad "$1" "no '$3' in $(completed "$2" | cut -c 1-200)"; fi; }
offers completes_commands 'moefold ch' check
offers completes_options 'moefold check --all' --all-ranks
offers completes_shared_options 'moefold price --g' --gpus
offers completes_knobs 'moefold check tiny model.context_parallel' model.context_parallel_size=
offers completes_short_words 'moefold check tiny vp' vpp=
offers completes_presets 'moefold plan deepseek' deepseek-v3
offers completes_recipes 'moefold check recipes/dsv3-128k-h100.ya' recipes/dsv3-128k-h100.yaml
offers completes_values 'moefold check tiny model.moe_token_dispatcher_type=al' alltoall
offers completes_switches 'moefold check tiny model.sequence_parallel=t' true
offers completes_systems 'moefold show tiny --as mega' megatron-lm
offers completes_help 'moefold help pl' plan
offers completes_shells 'moefold completion z' zsh
while read -r key; do
    grep -q -- "$key=" "$work/complete.bash" || bad completion_has_every_knob "$key"
done < <("$moefold" knobs | sed -n 's/^\([a-z][^ ]*\) = .*/\1/p')
ok completion_was_searched_for_every_knob
expect completion_names_shells 2 'bash or zsh' "$moefold" completion fish
"$moefold" completion zsh >"$work/_moefold"
expect zsh_starts_with_compdef 0 '^#compdef moefold' head -1 "$work/_moefold"
if command -v zsh >/dev/null; then
    check zsh_reads_it zsh -n "$work/_moefold"
else
    echo "ok zsh_reads_it # skip there is no zsh"
fi

# ---- the man page
"$moefold" man >"$work/moefold.1"
for c in "${commands[@]}"; do expect "man_has_$c" 0 "^\.SS $c" cat "$work/moefold.1"; done
if command -v groff >/dev/null; then
    check man_has_no_warnings test -z "$(groff -man -Tascii -ww -z "$work/moefold.1" 2>&1)"
    expect man_shows_options 0 'all-ranks' groff -man -Tascii "$work/moefold.1"
else
    echo "ok man_has_no_warnings # skip there is no groff"
fi

# ---- colour: on a terminal only
onto_terminal() { env "${@:1:1}" TERM=xterm script -qec "$moefold ${*:2}" /dev/null </dev/null | cat -v; }
if command -v script >/dev/null; then
    red='\^\[\[1;31m'
    expect errors_are_red 0 "$red" onto_terminal A=b check tiny tp=3
    expect valid_is_green 0 '\^\[\[32m' onto_terminal A=b check tiny
    expect headings_are_bold 0 '\^\[\[1mMEMORY' onto_terminal A=b price tiny
    without no_color_is_respected '\^\[\[' onto_terminal NO_COLOR=1 check tiny tp=3
    expect empty_no_color_is_none 0 "$red" onto_terminal NO_COLOR= check tiny tp=3
    expect messages_are_red 0 "$red" onto_terminal A=b check nowhere.yaml
else
    echo "ok colour_on_a_terminal # skip there is no script(1)"
fi
without pipes_have_no_colour $'\033' "$moefold" check --everything tiny tp=3
without messages_in_pipes_have_none $'\033' "$moefold" check --everything nowhere.yaml
exit $failed
