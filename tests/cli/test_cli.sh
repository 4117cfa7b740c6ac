#!/usr/bin/env bash
# What a person meets: exit codes, messages, JSON keys, and that exports read back. From the repository's root.
. tests/cli/saying.sh

file() { cat >"$work/$1"; }

fitting=(cluster.n_gpus=16 model.expert_model_parallel_size=16 model.recompute_granularity=full model.recompute_method=uniform
    model.recompute_num_layers=1) # of Qwen3-30B

# ---- exit codes
expect valid_preset 0 'qwen3-30b-a3b: valid' "$moefold" check --everything qwen3-30b-a3b "${fitting[@]}"
expect valid_config 0 'valid' "$moefold" check --everything tests/data/golden/qwen3-moe-tiny
expect broken_rule 1 'NOT VALID' "$moefold" check --everything deepseek-v3 model.tensor_model_parallel_size=3
expect size_of_zero_is_a_violation 1 'value-in-range' "$moefold" check --everything deepseek-v3 model.context_parallel_size=0
expect huge_size_is_a_violation 1 'value-in-range' "$moefold" check --everything deepseek-v3 model.context_parallel_size=1000000000
expect wrong_word_is_a_violation 1 'alltoall' "$moefold" check --everything deepseek-v3 model.moe_token_dispatcher_type=alltoal
expect no_arguments 2 'moefold check' "$moefold"
expect unknown_command 2 'did you mean check' "$moefold" chekc
expect no_recipe 2 'name a recipe' "$moefold" check
expect help 0 'RECIPE' "$moefold" check --everything --help
expect version 0 'moefold [0-9]' "$moefold" --version

# ---- what cannot be read
expect missing_file 2 'no file, folder or preset' "$moefold" check --everything nowhere.yaml
expect unknown_model 2 'nearest preset is deepseek-v3' "$moefold" check --everything deepseek-v4
expect unknown_key 2 "nearest known one is 'model.context_parallel_size'" "$moefold" check --everything tiny model.context_paralel_size=2
expect unknown_flag 2 'context-parallel-size' "$moefold" check --everything tiny --context-paralel-size 2
expect not_a_number 2 'whole number' "$moefold" check --everything tiny model.seq_length=long
expect fraction 2 'whole number' "$moefold" check --everything tiny model.seq_length=4096.5
expect overflow 2 '64 bits' "$moefold" check --everything tiny model.seq_length=99999999999999999999
expect list_for_number 2 'is a list' "$moefold" check --everything tiny 'model.seq_length=[1,2]'
expect open_list 2 'closing' "$moefold" check --everything tiny 'model.recompute_modules=[moe'
expect unbalanced_layout 2 'model.pipeline_model_parallel_layout' "$moefold" check --everything tiny 'model.pipeline_model_parallel_layout=E(tt|L'
file broken.yaml <<'Y'
model:
  seq_length: [1
Y
expect broken_yaml 2 'broken.yaml:[0-9]+:[0-9]+' "$moefold" check --everything "$work/broken.yaml"
file tab.yaml < <(printf 'model:\n\tseq_length: 4\n')
expect tab_in_yaml 2 'tab.yaml:2' "$moefold" check --everything "$work/tab.yaml"
file twice.yaml <<'Y'
model:
  seq_length: 4096
  seq_length: 8192
Y
expect key_twice 2 'second time|duplicate' "$moefold" check --everything "$work/twice.yaml"
file recursive.yaml <<'Y'
model: &m
  seq_length: *m
Y
expect recursive_yaml 2 'recursive.yaml:2' "$moefold" check --everything "$work/recursive.yaml"
{
    echo 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]'
    for i in 1 2 3 4 5 6 7 8 9; do
        p="*a$((i - 1))"
        echo "a$i: &a$i [$p, $p, $p, $p, $p, $p, $p, $p, $p, $p]"
    done
} | file laughs.yaml
expect billion_laughs 2 'more than 100000 nodes' "$moefold" check --everything "$work/laughs.yaml"
file list.yaml <<'Y'
- model
Y
expect list_as_recipe 2 'map of knobs' "$moefold" check --everything "$work/list.yaml"
mkdir "$work/empty" "$work/badjson" "$work/lacking"
expect folder_without_config 2 'config.json' "$moefold" check --everything "$work/empty"
echo '{"model_type": "qwen3_moe",' >"$work/badjson/config.json"
expect broken_json 2 'config.json:[0-9]+:[0-9]+' "$moefold" check --everything "$work/badjson"
grep -v num_hidden_layers tests/data/golden/qwen3-moe-tiny/config.json >"$work/lacking/config.json"
expect missing_field 2 'num_hidden_layers' "$moefold" check --everything "$work/lacking"

# ---- JSON
keys() { "$moefold" check --everything "$@" --json; }
expect json_ok 0 '"ok": ?true' keys qwen3-30b-a3b "${fitting[@]}"
expect json_violation 1 '"rule": ?"heads-divide-by-tp"' keys deepseek-v3 model.tensor_model_parallel_size=3
for key in ok violations fix layout memory model; do
    expect "json_has_$key" 0 "\"$key\":" keys qwen3-30b-a3b "${fitting[@]}"
done
expect json_groups 0 '"ep": ?\[\[0,1,2,3\],\[4,5,6,7\]\]' keys tiny cluster.n_gpus=8 model.expert_model_parallel_size=4
expect json_alias_conflict 1 'aliases-agree' keys tiny model.seq_length=1024 dataset.seq_length=2048

# ---- repairs: what --fix prints makes the recipe valid
mapfile -t fix < <("$moefold" check --everything deepseek-v3 model.tensor_model_parallel_size=3 cluster.n_gpus=128 --fix | tr -d "'")
expect fix_makes_valid 0 'valid' "$moefold" check --everything deepseek-v3 model.tensor_model_parallel_size=3 cluster.n_gpus=128 "${fix[@]}"

expect nothing_to_fix 0 'tiny: valid, and it fits: nothing to repair' "$moefold" check --everything tiny --fix
check nothing_to_fix_prints_no_override test -z "$("$moefold" check --everything tiny --fix 2>/dev/null)"

# ---- values that set nothing
expect no_value 2 'command line: tp= has no value; tp=null unsets it' "$moefold" check --everything tiny tp=
expect null_unsets 0 'TP 1' "$moefold" check --everything tiny tp=null
expect empty_map_of_a_knob 2 'tp=\{\}: is an empty map; a value is needed' "$moefold" check --everything tiny 'tp={}'
expect empty_map_of_nothing 2 "unknown knob 'model.foo'" "$moefold" check --everything tiny 'model.foo={}'
expect empty_section 0 'valid' "$moefold" check --everything tiny 'model={}'
printf 'model:\n  tensor_model_parallel_size: {}\n' >"$work/map.yaml"
expect empty_map_in_a_file 2 'map.yaml:2: model.tensor_model_parallel_size=\{\}: is an empty map' "$moefold" check --everything tiny --with "$work/map.yaml"
printf 'train: {}\nmodel:\n  foo: {}\n' >"$work/map.yaml"
expect empty_map_of_nothing_in_a_file 2 "map.yaml:3: unknown knob 'model.foo'" "$moefold" check --everything tiny --with "$work/map.yaml"
expect unknown_flag_says_where_to_look 2 "unknown flag '--nosuch'; --help lists" "$moefold" check --everything tiny --nosuch 4
expect short_word_with_dashes 2 'knobs are key=value: cp=8' "$moefold" check --everything tiny --cp 8
expect flag_that_goes_on 2 "nearest known one is '--fp8-format'" "$moefold" check --everything tiny --fp8
expect word_of_a_key 2 "nearest known one is 'mixed_precision'" "$moefold" check --everything tiny precision=
expect words_of_a_key 2 "one is 'model.tensor_model_parallel_size'" "$moefold" check --everything tiny model.tensor_parallel=2
expect all_unknown_first 2 "unknown knob 'model.foo'" "$moefold" check --everything tiny model.foo=1 --bar=2 train.baz=3
expect all_unknown_second 2 "  command line: unknown flag '--bar'" "$moefold" check --everything tiny model.foo=1 --bar=2 train.baz=3
expect all_unknown_third 2 "  command line: unknown knob 'train.baz'" "$moefold" check --everything tiny model.foo=1 --bar=2 train.baz=3
printf 'model: {foo: 1}\ntrain:\n  baz: 3\n' >"$work/unknown.yaml"
expect all_unknown_of_a_file 2 "unknown.yaml:3: unknown knob 'train.baz'" "$moefold" check --everything "$work/unknown.yaml"
expect count_without_a_gpu 0 'no GPU is named, and H100 is taken; --gpus 2xH100 says so' "$moefold" check --everything tiny --gpus 2
idle='model.apply_rope_fusion=true ft.enable_ft_package=true'
expect idle_options_are_counted 0 '^  2 options have no effect here; .moefold show' "$moefold" check --everything tiny $idle
expect idle_options_are_named 0 'model.apply_rope_fusion: .*no effect here' "$moefold" show tiny $idle --all

# ---- exports read back
"$moefold" show recipes/dsv3-128k-h100.yaml --as megatron-lm >"$work/args.txt"
expect megatron_lm_reads_back 0 'CP 32' "$moefold" check --everything --from-megatron "$work/args.txt" cluster.n_gpus=256
"$moefold" show recipes/dsv3-128k-h100.yaml --as recipe >"$work/again.yaml"
expect recipe_reads_back 0 'Et\|\(tt\|\)\*30mL' "$moefold" check --everything "$work/again.yaml"
a=$("$moefold" check --everything recipes/dsv3-128k-h100.yaml | tail -n +2)
b=$("$moefold" check --everything "$work/again.yaml" | tail -n +2)
[ "$a" = "$b" ] && echo "ok recipe_means_the_same" || { echo "not ok recipe_means_the_same"; diff <(echo "$a") <(echo "$b") | head -5; failed=1; }
expect bridge_overrides 0 'model.context_parallel_size=32' "$moefold" show recipes/dsv3-128k-h100.yaml --as megatron-bridge
expect hugging_face_config 0 '"num_experts_per_tok": 3' "$moefold" show tiny model.moe_router_topk=3 --as config.json
expect no_such_config 2 'would say model.rotary_percent=1.0 instead of 0.5' "$moefold" show tiny model.rotary_percent=0.5 --as config.json
expect unknown_system 2 'megatron-bridge' "$moefold" show tiny --as nemo
expect rank_out_of_range 2 'ranks are 0 to 255' "$moefold" show recipes/dsv3-128k-h100.yaml --rank 256
expect one_rank 0 'experts 136 to 143' "$moefold" show recipes/dsv3-128k-h100.yaml --rank 17
expect knobs_by_pattern 0 'model.context_parallel_size' "$moefold" knobs context
expect two_views_at_once 2 '--ops and --memory: one at a time' "$moefold" show tiny --ops --memory
expect views_without_json 2 '--schedule has no JSON; leave --json out' "$moefold" show tiny --schedule --json
expect an_export_has_no_json 2 '--as has no JSON' "$moefold" show tiny --as recipe --json
expect json_of_a_rank 2 'repair: --memory' "$moefold" show tiny pp=2 --rank 1 --json
expect params_of_a_rank 2 '--params is not of one rank' "$moefold" show tiny pp=2 --rank 1 --params
expect presets_as_json 0 '^\["deepseek-v3",.*"tiny"\]$' "$moefold" show --presets --json
expect presets_of_a_recipe 2 '--presets goes without a recipe' "$moefold" show tiny --presets
expect presets 0 'kimi-k2' "$moefold" show --presets
exit $failed
