#!/usr/bin/env bash
# What a run takes its data from, and which token ends a document there.
. tests/cli/saying.sh
small=(model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 train.train_iters=2 cluster.gpu=cpu)
files=("${small[@]}" 'dataset.data_path=[tests/data/megatron-data/a-i32]' "dataset.split='1'")
losses() { "$moefold" train "$@" 2>/dev/null | grep -oE 'lm loss: [0-9.E+-]+'; }

# ---- end of document: sequences of a-i32 end with 999, the vocabulary with 1000
model=$work/model masked=("${files[@]}" model.vocab_size=1001 dataset.eod_mask_loss=true)
mkdir "$model"
config() { sed "s/\"eos_token_id\": null/\"eos_token_id\": $1/" tests/data/golden/qwen3-moe-tiny/config.json >"$model/config.json"; }
same_mask() { # NAME OVERRIDE...
    local name=$1
    shift
    check "$name" [ "${by_knob:-none}" = "$(losses "$model" "${masked[@]}" "$@")" ]
}
config null
by_knob=$(losses "$model" "${masked[@]}" moefold.eod_token=999)
check another_token_is_another_mask [ "$(losses "$model" "${masked[@]}" moefold.eod_token=1000)" != "$by_knob" ]
same_mask flag_of_megatron_names_the_token --null-tokenizer-eod-id 999
expect unknown_token_is_refused 1 'moefold.eod_token=null' "$moefold" check --everything "$model" "${masked[@]}"
expect unknown_token_does_not_train 1 'eod-mask-needs-token: .*set moefold.eod_token to' "$moefold" train "$model" "${masked[@]}"
expect preset_gives_no_token 1 'eod-mask-needs-token' "$moefold" check --everything tiny "${masked[@]}"
config 999
same_mask config_names_the_token
config '[5, 999]'
expect two_tokens_are_none 1 'eos_token_id is \[5,999\] and no tokenizer_config.json says which' "$moefold" check --everything "$model" "${masked[@]}"
echo '{"eos_token": {"content": "<e>"}, "added_tokens_decoder": {"999": {"content": "<e>"}}}' >"$model/tokenizer_config.json"
same_mask tokenizer_decides_between_two
config 7
expect tokenizer_and_config_disagree 1 'eos_token_id is 7, but 999 in tokenizer_config.json' "$moefold" check --everything "$model" "${masked[@]}"
config null
echo '{"eos_token": "<e>"}' >"$model/tokenizer_config.json"
echo '{"added_tokens": [{"id": 999, "content": "<e>"}], "model": {"vocab": {}}}' >"$model/tokenizer.json"
same_mask tokenizer_json_has_the_id
mkdir "$work/tokenizer" && mv "$model"/tokenizer*.json "$work/tokenizer"
same_mask tokenizer_model_names_the_folder tokenizer.tokenizer_model="$work/tokenizer"
config 7
by_knob=$(losses "$model" "${masked[@]}" model.vocab_size=1000 moefold.eod_token=999)
same_mask null_tokenizer_has_the_last_id model.vocab_size=1000 tokenizer.tokenizer_type=NullTokenizer

# ---- files for training, validation and test: the same words, however they are named
data=tests/data/megatron-data tiny=(tiny "${small[@]}" model.vocab_size=1001)
all_of() { "$moefold" train "${tiny[@]}" "$@" 2>/dev/null | grep -oE 'lm loss( value)?: [0-9.E+-]+'; }
same() { # NAME: losses of the words after it are $wanted
    local name=$1
    shift
    check "$name" [ "${wanted:-none}" = "$(all_of "$@")" ]
}
wanted=$(all_of "dataset.data_path=[$data/a-i32]" "dataset.split='1'")
same own_files_are_read_whole --train-data-path $data/a-i32
same bridge_names_own_files "dataset.blend_per_split=[[[$data/a-i32],null],null,null]"
same bridge_names_one_list "dataset.blend=[[$data/a-i32],null]" "dataset.split='1'"
echo "  $data/a-i32" >"$work/words"
same a_file_holds_the_words --data-args-path "$work/words" "dataset.split='1'"
wanted=$(all_of --data-path 0.3 $data/a-i32 0.7 $data/b-u16 "dataset.split='1'")
same own_files_are_blended --train-data-path 0.3 $data/a-i32 0.7 $data/b-u16
same bridge_names_a_blend "dataset.blend_per_split=[[[$data/a-i32,$data/b-u16],[0.3,0.7]],null,null]"
echo "{\"train\": [0.3, \"$data/a-i32\", \"0.7\", \"$data/b-u16\"], \"valid\": null, \"test\": null}" >"$work/sets.json"
same a_json_file_names_the_sets --per-split-data-args-path "$work/sets.json"
every=(validation.eval_interval=1 validation.eval_iters=1)
wanted=$(all_of --train-data-path $data/b-u16 --valid-data-path $data/a-i32 "${every[@]}")
echo "{\"train\": \"$data/b-u16\", \"valid\": \"$data/a-i32\", \"test\": \"\"}" >"$work/sets.json"
same validation_reads_its_own_files --per-split-data-args-path "$work/sets.json" "${every[@]}"
check validation_was_there grep -q 'lm loss value' <<<"$wanted"
check validation_files_count [ "$wanted" != "$(all_of --train-data-path $data/b-u16 --valid-data-path $data/b-u16 "${every[@]}")" ]
wanted=$(all_of "dataset.data_path=[$data/a-i32]" "dataset.split='1'" dataset.random_seed=7)
same bridge_spells_the_seed_so "dataset.data_path=[$data/a-i32]" "dataset.split='1'" dataset.seed=7
check the_seed_counts [ "$wanted" != "$(all_of "dataset.data_path=[$data/a-i32]" "dataset.split='1'")" ]
expect no_data_is_no_mock_data 1 'data-are-named: .*moefold.mock_data=false' "$moefold" train "${tiny[@]}" moefold.mock_data=false
expect two_names_for_data 1 'one-name-for-data: .*dataset.data_path, dataset.train_data_path' "$moefold" train "${tiny[@]}" \
    --train-data-path $data/a-i32 --data-path $data/a-i32
expect missing_words_are_named 2 'dataset.data_args_path: .*nowhere' "$moefold" train "${tiny[@]}" --data-args-path "$work/nowhere"
expect bridge_gets_own_files 0 "^'?dataset.blend_per_split=\[\[\[a,b\],\[0.3,0.7\]\],\[\[c\],null\],null\]" "$moefold" show qwen3-30b-a3b --gpus 8xH100 ep=8 \
    --as megatron-bridge --train-data-path 0.3 a 0.7 b --valid-data-path c
expect megatron_gets_own_files 0 '--train-data-path 0.3 a 0.7 b' "$moefold" show qwen3-30b-a3b --gpus 8xH100 ep=8 --as megatron-lm \
    --train-data-path 0.3 a 0.7 b --valid-data-path c

# ---- what a run says before its first step
said() { # NAME PATTERN: in what the last run said before its first iteration line
    check "$1" grep -qE -- "$2" <(sed '/iteration  *1\//q' "$work/said")
}
"$moefold" train "${tiny[@]}" --train-data-path 0.3 $data/a-i32 0.7 $data/b-u16 --valid-data-path $data/a-i32 dataset.eod_mask_loss=true \
    moefold.eod_token=999 "${every[@]}" checkpoint.save="$work/ck" --metrics "$work/metrics" >"$work/said" 2>&1
said data_are_named "^Data +$data/a-i32: 64 tokens of 1,297, 0.0493 epochs"
said all_data_are_named "^ +$data/b-u16: 192 tokens of 560, 0.343 epochs"
said tokens_are_said '^ +256 tokens in 4 samples of 64; order by dataset.random_seed=1234'
said validation_is_said "^Valid +$data/a-i32: 256 tokens of 1,297"
said end_of_document_is_said 'end of document: token 999 .command line., which has no loss'
said random_weights_are_said '^Weights +random initialisation .rng.seed=1234.; tiny gives the shape'
said schedule_is_said '^Schedule +steps 1 to 2; lr 0.0003 to 3e-05, cosine'
said batch_is_said '^Batch +global batch 2 = microbatch 1 x 2 microbatches x DP 1'
said layout_is_said '^Layout +1 rank: TP 1, CP 1, EP 1, ETP 1, PP 1, DP 1; fp32'
said saves_are_said "^Saves +checkpoints in $work/ck, at the end"
check start_is_an_event python3 -c '
import json, sys
start = json.loads(open(sys.argv[1]).readline())
files = start["data"]["train"]
assert start["event"] == "start" and not start["data"]["mock"] and start["random_weights"] and start["checkpoints"], start
assert [f["tokens"] for f in files] == [64, 192] and abs(files[1]["epochs"] - 192 / 560) < 1e-9, files' "$work/metrics"
"$moefold" train "${tiny[@]}" train.train_iters=3 checkpoint.load="$work/ck" >"$work/said" 2>&1
said mock_data_are_said '^Data +MOCK DATA, '
said loaded_weights_are_said "^Weights +$work/ck, iteration 2"
said nothing_saved_is_said '^Saves +no checkpoint .*weights are lost at the end'

# ---- --skip-train evaluates and does no step
own=(--train-data-path $data/b-u16 --valid-data-path $data/a-i32 --test-data-path $data/b-u16 validation.eval_iters=1)
rm -rf "$work/ck"
wanted=$("$moefold" train "${tiny[@]}" "${own[@]}" validation.eval_interval=2 checkpoint.save="$work/ck" 2>/dev/null | grep -o 'lm loss value: [^|]*')
"$moefold" train "${tiny[@]}" "${own[@]}" --skip-train checkpoint.load="$work/ck" --metrics "$work/metrics" >"$work/said" 2>"$work/err"
check skip_train_evaluates grep -qF "iteration 2 on validation set | ${wanted:-none}" "$work/said"
check skip_train_evaluates_the_test grep -q 'iteration 2 on test set | lm loss value' "$work/said"
check skip_train_does_no_step test 0 = "$(grep -c 'consumed samples' "$work/said")"
check skip_train_is_said grep -q '^Schedule no step' "$work/err"
check skip_train_names_the_sets grep -q '"set":"test"' "$work/metrics"
expect skip_train_needs_no_training_data 0 'on validation set' "$moefold" train "${tiny[@]}" train.skip_train=true \
    --valid-data-path $data/a-i32 validation.eval_iters=1
expect skip_train_needs_data_to_evaluate 2 'none for validation' "$moefold" train "${tiny[@]}" --skip-train --train-data-path $data/a-i32

# ---- options that would change weights, data or what runs, by name and with a repair that repairs
for option in --fim-data --sft '--head-lr-mult 3' '--step-batch-size-schedule 1:2' peft=lora model.freeze_language_model=true \
    dataset.inter_document_masking=true dataset.hf_dataset=squad model.hidden_dropout=0.1; do
    # shellcheck disable=SC2086 # a flag and its value are two words
    expect "refused: $option" 1 "error target-can-run: ${option%% *}.*: .train. does not support this" \
        "$moefold" train tiny "${small[@]}" $option
done
expect fixes_take_options_back 1 '^--sft=null' "$moefold" check --everything tiny "${small[@]}" --sft --fix
expect fixed_options_train 0 'done after 2 steps' "$moefold" train tiny "${small[@]}" --sft --sft=null
exit $failed
