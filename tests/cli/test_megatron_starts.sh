#!/usr/bin/env bash
# What is exported starts in Megatron as it is: Megatron-LM's own parser, validation, configuration and tokenizer take every
# export of our recipes, presets and lists, and of winners of plans. Needs a checkout (MEGATRON_LM) and a Python with torch
# (MEGATRON_PYTHON, python3 unless set); without them it is left out and says so. From the repository's root.
. tests/cli/saying.sh

python=${MEGATRON_PYTHON:-python3}
if [ ! -f "${MEGATRON_LM:-}/megatron/training/arguments.py" ] || ! "$python" -c 'import torch' 2>/dev/null; then
    echo "ok exports_start_in_megatron_lm # skip: MEGATRON_LM names no checkout of Megatron-LM, or $python has no torch"
    exit 0
fi

mkdir "$work/hopper" "$work/blackwell"
write() { # NAME WORDS OF SHOW...
    local name=$1 folder=hopper
    shift
    case "$name" in *b[23]00*) folder=blackwell ;; esac
    "$moefold" show "$@" --as megatron-lm >"$work/$folder/$name.txt" 2>"$work/err" && return
    rm "$work/$folder/$name.txt"
    if grep -q 'cannot be written for Megatron-LM' "$work/err"; then
        ok "refused_$name"
    else
        bad "written_$name" "$(head -2 "$work/err")"
    fi
}
for recipe in recipes/*.yaml; do write "$(basename "$recipe" .yaml)" "$recipe"; done
for preset in $("$moefold" show --presets); do write "preset_$preset" "$preset"; done
for list in tests/data/megatron/*.txt; do write "list_$(basename "$list" .txt)" --from-megatron "$list"; done
for file in "$MEGATRON_LM"/tests/functional_tests/test_cases/{moe,mixtral}/*/model_config.yaml; do
    grep -qE '^MODE: *(inference|rl)' "$file" && continue
    write "case_$(basename "$(dirname "$file")" | tr -d _)" --from-megatron "$file"
done
winner() { # MODEL GPUS SEQUENCE BATCH WORDS...
    local name=$1-${2,,}
    "$moefold" plan --everything "$1" --gpus "$2" --seq "$3" --gbs "$4" "${@:5}" --seconds 60 --out "$work/$name.yaml" \
        >"$work/out" 2>"$work/err" || bad "planned_$name" "$(tail -1 "$work/err")" || return
    write "winner_$name" "$work/$name.yaml"
}
winner qwen3-30b-a3b 16xH100 4K 1024 --pin model.cuda_graph_impl=transformer_engine
winner deepseek-v3 256xGB200 4K 2048 --pin model.cuda_graph_impl=transformer_engine
winner deepseek-v3 256xH100 4K 2048
winner qwen3-235b-a22b 256xB200 4K 512
for gpu in hopper blackwell; do
    "$python" tests/cli/megatron_starts.py --gpu $gpu "$work/$gpu"/*.txt >"$work/said" 2>"$work/err"
    grep -E '^(not )?ok ' "$work/said" | sed "s|$work/||" || bad "starts_$gpu" "$(tail -3 "$work/err")"
    if grep -q '^not ok' "$work/said"; then failed=1; fi
done
exit $failed
