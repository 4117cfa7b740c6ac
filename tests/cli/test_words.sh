#!/usr/bin/env bash
# Short words, units, --gpus and --seq in every command, a recipe from the standard input, and what is suggested for a
# word that was mistyped. From the repository's root.
. tests/cli/saying.sh

setting() { # NAME KEY VALUE WORDS...: what `show` says of a knob
    expect "$1" 0 "(^|[ .])${2##*.} +$3( |$)" "$moefold" show "${@:4}"
}
same() { # NAME A B: two commands print the same
    if [ "$(eval "$2" 2>&1)" = "$(eval "$3" 2>&1)" ]; then ok "$1"; else bad "$1" "$2 and $3 differ"; fi
}

# ---- short words
short=(tp=2 cp=4 ep=8 pp=4 vpp=2 etp=1 mbs=1 gbs=2K seq=128K)
long=(model.tensor_model_parallel_size=2 model.context_parallel_size=4 model.expert_model_parallel_size=8
    model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=2
    model.expert_tensor_parallel_size=1 train.micro_batch_size=1 train.global_batch_size=2048 model.seq_length=131072)
same short_words_are_the_long_ones "$moefold check qwen3-30b-a3b ${short[*]} --json" "$moefold check qwen3-30b-a3b ${long[*]} --json"
same joined_words_too "$moefold check qwen3-30b-a3b TP2 CP4 EP8 PP4 vpp2 ETP1 MBS1 GBS2048 seq128K --json" "$moefold check qwen3-30b-a3b ${long[*]} --json"
setting price_order_is_free tensor_model_parallel_size 8 TP8 qwen3-30b-a3b
printf 'moefold:\n  model: tiny\ntp: 2\nseq: 8K\n' >"$work/short.yaml"
setting files_take_them tensor_model_parallel_size 2 "$work/short.yaml"
setting files_take_units seq_length 8192 "$work/short.yaml"
cp "$work/short.yaml" "$work/TP8"
cp "$work/short.yaml" "$work/tp=8"
cd "$work" || exit 1
setting a_file_wins tensor_model_parallel_size 2 TP8
setting a_file_wins_over_an_assignment tensor_model_parallel_size 2 tp=8
cd - >/dev/null || exit 1
expect pins_are_short 0 '"tp":2' "$moefold" plan --everything tiny --gpus 8xH100 --seq 1K --gbs 64 --pin tp=2 --json
expect pins_are_joined 0 '"tp":2' "$moefold" plan --everything tiny --gpus 8xH100 --seq 1K --gbs 64 --pin TP2 --json
expect flags_take_units 0 'seq_length +8192' "$moefold" show tiny --seq-length 8K
expect no_such_unit 2 'seq_length=8G is .*whole number' "$moefold" check --everything tiny seq=8G

# ---- --gpus and --seq
for c in check price show launch; do
    slurm= gpus=B200
    [ $c = launch ] && slurm='train.train_iters=5 --slurm' gpus=cpu # what our runtime trains on
    a="$moefold $c qwen3-30b-a3b ep=8 $slurm"
    filter=cat
    [ $c = launch ] && filter='grep SBATCH' # the rest repeats the words
    same "gpus_in_$c" "$a --gpus 32x$gpus --seq 8K | $filter" "$a --gpus ${gpus}x32 --seq 8192 | $filter"
    expect "gpus_count_in_$c" 0 '32' $a --gpus 32x$gpus
    expect "cluster_in_$c" 2 'cluster.gpu=H200 is given, too; leave one' $a --gpus 32xB200 cluster.gpu=H200
done
setting gpus_set_the_name gpu B200 tiny --gpus 16xb200
setting gpus_set_the_count n_gpus 16 tiny --gpus 16xB200
setting gpus_the_other_way n_gpus 16 tiny --gpus B200x16
setting a_name_alone n_gpus 4 tiny --gpus B200 tp=4
setting a_count_alone n_gpus 16 tiny --gpus 16
setting a_word_wins_over_the_file gpu GB200 recipes/dsv3-4k-h100.yaml --gpus 512xGB200
setting racks_are_cut_as_plan_does nvlink_domain 64 recipes/dsv3-4k-h100.yaml --gpus 512xGB200
setting seq_reaches_the_model max_position_embeddings 1048576 qwen3-30b-a3b --seq 1M
expect same_gpu_twice_is_fine 0 'H200' "$moefold" show tiny --gpus 8xH200 cluster.gpu=H200
expect another_count 2 'cluster.n_gpus=16 is given, too' "$moefold" check --everything tiny --gpus 8xH200 cluster.n_gpus=16
expect another_sequence 2 'seq_length=4096 is given, too' "$moefold" check --everything tiny --seq 8K seq=4K
expect plan_beside_a_pin 2 'cluster.gpu=H200 is given, too' "$moefold" plan --everything tiny --gpus 8xH100 --seq 1K --pin cluster.gpu=H200
expect plan_the_other_way 0 '"n_gpus":8|"gpus":8|Plan' "$moefold" plan --everything tiny --gpus H100x8 --seq 1K --gbs 64
expect no_count 2 '--gpus 16H100: write a count, x and a name' "$moefold" check --everything tiny --gpus 16H100
expect count_of_zero 2 '--gpus 0xH100: a count from 1' "$moefold" check --everything tiny --gpus 0xH100
expect count_too_large 2 '--gpus H100x99999999999: a count from 1' "$moefold" check --everything tiny --gpus H100x99999999999
expect sequence_of_words 2 '--seq long: a whole number from 1 .*128K' "$moefold" check --everything tiny --seq long

# ---- the standard input
expect from_standard_input 0 'standard input: valid' "$moefold" check --everything - <recipes/qwen3-30b-4k-h100.yaml
same input_is_the_file "$moefold show recipes/qwen3-30b-4k-h100.yaml --as recipe" "$moefold show - --as recipe <recipes/qwen3-30b-4k-h100.yaml"
expect wrong_input_has_a_line 2 'standard input:2: ' "$moefold" check --everything - < <(printf 'model:\n  seq_lengt: 1\n')
expect plan_from_input 0 'Plan' "$moefold" plan --everything - --gpus 8xH100 < <(printf 'moefold:\n  model: tiny\nseq: 1K\ngbs: 64\n')

printf 'moefold:\n  model: tiny\ncluster:\n  gpu: cpu\n' >"$work/own.yaml"
expect launch_needs_a_file 2 'standard input' "$moefold" launch - <"$work/own.yaml"
expect for_megatron_it_needs_none 0 'pretrain_gpt.py' "$moefold" launch - <recipes/qwen3-30b-4k-h100.yaml
expect ranks_need_a_file 2 'standard input' "$moefold" train - --ranks 2 <recipes/qwen3-30b-4k-h100.yaml

# ---- training without a GPU, and without a word of one
if [ -e /dev/nvidiactl ] || [ -e /dev/nvidia0 ] || [ -e /dev/dxg ]; then
    echo "ok train_derives_cpu # skip this machine has a GPU"
else
    tiny=(tiny seq=64 gbs=2 train.train_iters=1)
    expect train_derives_cpu 0 'cluster.gpu=cpu, since it is unset and this machine has no GPU' "$moefold" train "${tiny[@]}"
    expect train_trains_on_it 0 'done after 1 step' "$moefold" train "${tiny[@]}"
    expect train_keeps_what_is_set 3 'cluster.gpu=H100: .*moefold.device=cpu' "$moefold" train "${tiny[@]}" cluster.gpu=H100 cluster.n_gpus=2
fi

# ---- suggestions
expect nearest_file 2 'nearest file is recipes/dsv3-128k-h100.yaml' "$moefold" check --everything recipes/dsv3-128-h100.yaml
expect nearest_list 2 'deepseek_v3.txt' "$moefold" check --everything --from-megatron tests/data/megatron/deepseek_v.txt
expect nearest_hardware 2 'hardware/h100.yaml' "$moefold" check --everything tiny cluster.gpu=hardware/h10.yaml
expect nearest_option 2 "'--jsn'; did you mean --json" "$moefold" check --everything tiny --jsn
expect nearest_flag 2 "nearest known one is '--seq-length'" "$moefold" check --everything tiny --seq-lenght 4
without no_false_flag 'nearest|did you mean' "$moefold" check --everything tiny --foo
without no_false_learning_rate '[-]-lr' "$moefold" check --everything tiny --xyz
without no_false_knob 'nearest' "$moefold" check --everything tiny model.foo=1
without no_false_preset 'nearest' "$moefold" check --everything xyzzy
without no_false_command 'did you mean' "$moefold" frobnicate
exit $failed
