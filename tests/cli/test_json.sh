#!/usr/bin/env bash
# What programs read follows the schema that is made of the tables (src/answer/answer.def), and docs/JSON.md is made of
# them, too. From the repository's root.
. tests/cli/saying.sh

"$moefold" help json --schema >"$work/schema"
follows() { # NAME COMMAND...
    local name=$1 said
    shift
    if said=$("$moefold" "$@" --json 2>"$work/err" </dev/null | python3 tests/cli/schema.py "$work/schema" "$1"); then
        ok "$name"
    else
        bad "$name" "$* --json: $said $(head -3 "$work/err")"
    fi
}
follows check_follows_its_schema check recipes/dsv3-128k-h100.yaml
follows check_of_broken_rules_follows_its_schema check recipes/dsv3-4k-h100.yaml ep=128
follows check_without_a_layout_follows_its_schema check tiny tp=3 --gpus 8xH100
follows audit_follows_its_schema check tiny tp=2 pp=2 --gpus 8xH100 --rank 3
follows audit_without_a_program_follows_its_schema check tiny tp=3 --gpus 8xH100 --all-ranks
follows show_follows_its_schema show tiny tp=2 --memory
follows show_without_a_layout_follows_its_schema show tiny tp=3 --gpus 8xH100 --memory
follows knobs_follow_their_schema knobs moe
follows price_follows_its_schema price recipes/qwen3-30b-4k-h100.yaml --trace "$work/trace.json"
follows price_of_our_own_program_follows_its_schema price tiny moefold.target=moefold --gpus 8xH100
follows price_without_a_program_follows_its_schema price tiny tp=3 --gpus 8xH100
follows plan_follows_its_schema plan qwen3-30b-a3b --gpus 16xH100 --seq 4K --more
follows plan_against_a_recipe_follows_its_schema plan --against recipes/qwen3-30b-4k-h100.yaml --bring-up "$work/steps"
follows plan_that_finds_nothing_follows_its_schema plan deepseek-v3 --gpus 8xH100 --seq 4K
follows plan_that_no_rule_allows_follows_its_schema plan tiny --gpus 8xH100 --seq 4K --pin tp=3
follows diff_follows_its_schema diff recipes/dsv3-128k-h100.yaml recipes/dsv3-128k-h100-tp.yaml
follows diff_without_a_program_follows_its_schema diff tiny tiny tp=3 --gpus 8xH100
follows diff_of_logs_follows_its_schema diff tests/data/profile/megatron.log tests/data/profile/megatron.log
"$moefold" price tiny cluster.gpu=cpu --trace "$work/a.json" >"$work/said"
follows trace_follows_its_schema trace "$work/a.json" "$work/a.json"
follows profile_follows_its_schema profile tiny tests/data/profile/megatron-8x4k.json.gz --without optimizer
follows profile_of_a_log_follows_its_schema profile recipes/qwen3-30b-4k-h100.yaml tests/data/profile/megatron.log
small=(tiny cluster.gpu=cpu seq=64 gbs=4 train.train_iters=3)
for run in one two; do "$moefold" train "${small[@]}" --run "$work/$run" checkpoint.save="$work/$run.saved" >"$work/said" 2>&1; done
follows diff_of_runs_follows_its_schema diff "$work/one" "$work/two"
follows diff_of_a_run_and_a_recipe_follows_its_schema diff "$work/one" "${small[@]}"
follows convert_follows_its_schema convert "$work/one.saved" "$work/hf" --to hf
follows eval_follows_its_schema eval "$work/one.saved" --data tests/data/megatron-data/a-u16
follows parity_follows_its_schema parity tests/data/golden/qwen3-moe-tiny
follows tune_follows_its_schema tune tiny cluster.gpu=cpu seq=64 gbs=4 --threads 1 --steps 3 --minutes 1 --dir "$work/tuned"
follows events_follow_their_schema train "${small[@]}" validation.eval_interval=2 validation.eval_iters=1 \
    checkpoint.save="$work/saved"
follows touched_bytes_follow_their_schema train "${small[@]}" --touched model.moe_router_force_load_balancing=true

# Files and pages have tables, too.
part() { # NAME TABLE FILE CODE: what the code makes of the object in the file
    if said=$(python3 -c "import json, re, sys; d = sys.stdin.read(); $4; print(json.dumps(d))" <"$3" |
        python3 tests/cli/schema.py "$work/schema" "$2"); then
        ok "$1"
    else
        bad "$1" "$said"
    fi
}
page='d = json.loads(re.search(r"<script[^>]*id=\"data\"[^>]*>(.*?)</script>", d, re.S)[1])'
"$moefold" report "$work/one" -o "$work/run.html" >"$work/said"
"$moefold" report tiny tp=2 pp=2 --gpus 8xH100 -o "$work/recipe.html" >"$work/said"
part a_summary_follows_its_schema summary_answer "$work/one/summary.json" 'd = json.loads(d)'
part a_page_of_a_run_follows_its_schema page_run_answer "$work/run.html" "${page}['run']"
part a_page_of_a_recipe_follows_its_schema page_answer "$work/recipe.html" "${page}['own']"

if sed -n '/^## `moefold check/,$p' docs/JSON.md | diff - <("$moefold" help json) >"$work/diff"; then
    ok json_is_documented_as_its_tables_say
else
    bad json_is_documented_as_its_tables_say "docs/JSON.md from 'moefold check' on is not what \`moefold help json\` prints"
    head -10 "$work/diff"
fi

# A key that no table has, one that is missing, and a wrong type are seen.
seen() { # NAME JSON WORDS
    if said=$(python3 tests/cli/schema.py "$work/schema" knobs <<<"$2"); then
        bad "$1" "nothing was said of $2"
    elif grep -q "$3" <<<"$said"; then
        ok "$1"
    else
        bad "$1" "$said"
    fi
}
one=$("$moefold" knobs tensor_model_parallel_size --json)
seen a_key_of_no_table_is_seen "${one/\"key\":/\"planted\":1,\"key\":}" 'planted is in no table'
seen a_missing_key_is_seen "${one/\"key\":/\"help\":}" 'no key'
seen a_wrong_type_is_seen "${one/\"short_name\":\"*\"/\"short_name\":7}" 'is no'
exit $failed
