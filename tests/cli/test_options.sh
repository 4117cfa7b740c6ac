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
expect unknown_token_is_refused 1 'moefold.eod_token=null' "$moefold" check "$model" "${masked[@]}"
expect unknown_token_does_not_train 1 'eod-mask-needs-token: .*set moefold.eod_token to' "$moefold" train "$model" "${masked[@]}"
expect preset_gives_no_token 1 'eod-mask-needs-token' "$moefold" check tiny "${masked[@]}"
config 999
same_mask config_names_the_token
config '[5, 999]'
expect two_tokens_are_none 1 'eos_token_id is \[5,999\] and no tokenizer_config.json says which' "$moefold" check "$model" "${masked[@]}"
echo '{"eos_token": {"content": "<e>"}, "added_tokens_decoder": {"999": {"content": "<e>"}}}' >"$model/tokenizer_config.json"
same_mask tokenizer_decides_between_two
config 7
expect tokenizer_and_config_disagree 1 'eos_token_id is 7, but 999 in tokenizer_config.json' "$moefold" check "$model" "${masked[@]}"
config null
echo '{"eos_token": "<e>"}' >"$model/tokenizer_config.json"
echo '{"added_tokens": [{"id": 999, "content": "<e>"}], "model": {"vocab": {}}}' >"$model/tokenizer.json"
same_mask tokenizer_json_has_the_id
mkdir "$work/tokenizer" && mv "$model"/tokenizer*.json "$work/tokenizer"
same_mask tokenizer_model_names_the_folder tokenizer.tokenizer_model="$work/tokenizer"
config 7
by_knob=$(losses "$model" "${masked[@]}" model.vocab_size=1000 moefold.eod_token=999)
same_mask null_tokenizer_has_the_last_id model.vocab_size=1000 tokenizer.tokenizer_type=NullTokenizer

# ---- options that would change weights, data or what runs, by name and with a repair that repairs
for option in --fim-data --sft '--head-lr-mult 3' '--step-batch-size-schedule 1:2' peft=lora model.freeze_language_model=true \
    dataset.inter_document_masking=true dataset.hf_dataset=squad model.hidden_dropout=0.1; do
    # shellcheck disable=SC2086 # a flag and its value are two words
    expect "refused: $option" 1 "error target-can-run: ${option%% *}.*: .train. does not support this" \
        "$moefold" train tiny "${small[@]}" $option
done
expect fixes_take_options_back 1 '^--sft=null' "$moefold" check tiny "${small[@]}" --sft --fix
expect fixed_options_train 0 'done after 2 steps' "$moefold" train tiny "${small[@]}" --sft --sft=null
exit $failed
