#!/usr/bin/env bash
# The release has no emulated device and knows no word that plants a fault; the program for tests has and knows them all.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1
job=(tests/data/golden/qwen3-moe-tiny cluster.gpu=cpu seq=64 mbs=1 gbs=2 train.train_iters=2)

mapfile -t words < <(grep -oE 'MOEFOLD_[A-Z_]+' tests/emulated/words.c | grep -v MOEFOLD_DEVICE | sort -u)
check there_are_words [ ${#words[@]} -ge 5 ]
for word in "${words[@]}"; do
    check "${word}_is_not_in_the_release" bash -c "! cat '$moefold' '${moefold%/*}'/moefold-*.so | grep -qa $word"
    check "${word}_is_in_the_other" grep -qa "$word" "$moefold_test"
done

losses() { grep -o '"lm loss":[0-9.]*'; }
right=$("$moefold" train "${job[@]}" --json 2>/dev/null | losses)
check it_trains [ "$(wc -l <<<"$right")" = 2 ]
for fault in crash:150 leave:150 overflow:1 nonsense; do
    check "a_fault_is_nothing_to_it_$fault" \
        [ "$(MOEFOLD_FAULT=$fault MOEFOLD_SLOW=nonsense MOEFOLD_SLOW_OP=nonsense "$moefold" train "${job[@]}" --json 2>/dev/null | losses)" = "$right" ]
done
expect the_other_takes_it 3 'MOEFOLD_FAULT=nonsense in the environment is not' env MOEFOLD_FAULT=nonsense "$moefold_test" train "${job[@]}"
check the_other_computes_the_same [ "$("$moefold_test" train "${job[@]}" --json 2>/dev/null | losses)" = "$right" ]
for device in deferred:1 peers null; do
    expect "no_device_$device" 3 "device $device: there is no device of that name; repair: MOEFOLD_DEVICE=cpu or cuda" \
        env MOEFOLD_DEVICE=$device "$moefold" train "${job[@]}"
    expect "no_benchmark_on_$device" 2 "device $device: cpu, or cuda for the GPU" "$moefold" bench --device $device
done
exit $failed
