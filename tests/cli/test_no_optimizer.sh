#!/bin/bash
# optimizer.optimizer=none: a step ends when gradients are reduced; nothing is kept for an update, and none is made.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.train_iters=3)
gpu=(qwen3-30b-a3b cluster.gpu=H100 cluster.n_gpus=16 moefold.target=moefold)

losses() { grep -o 'lm loss: [^|]*'; }
key() { grep -o "\"$1\": *[0-9.e+-]*" | head -1 | sed 's/.*: *//'; }

for precision in fp32 bf16_mixed; do
    "$moefold" train "${small[@]}" mixed_precision=$precision >"$work/adam" 2>"$work/said"
    "$moefold" train "${small[@]}" mixed_precision=$precision optimizer.optimizer=none checkpoint.save="$work/$precision" \
        >"$work/none" 2>"$work/said"
    check "the first loss is the same, $precision" [ "$(losses <"$work/adam" | head -1)" = "$(losses <"$work/none" | head -1)" ]
    check "later ones are not, $precision" [ "$(losses <"$work/adam" | tail -1)" != "$(losses <"$work/none" | tail -1)" ]
    "$moefold" train "${small[@]}" mixed_precision=$precision train.train_iters=1 optimizer.optimizer=none \
        checkpoint.pretrained_checkpoint="$work/$precision" >"$work/again" 2>"$work/said"
    check "weights stay as they are, $precision" [ "$(losses <"$work/again")" = "$(losses <"$work/none" | head -1)" ]
done
# Without clipping nobody asks for the gradient's norm, which takes a pass over all gradients.
norm() { "$moefold" train "${small[@]}" train.train_iters=1 "$@" 2>"$work/said" | grep -o 'grad norm: [0-9.]*'; }
squares() { "$moefold" show "${small[@]}" --ops "$@" | grep -c SQUARES; }
check the_norm_is_told [ "$(norm optimizer.optimizer=none)" = "$(norm)" ]
check the_norm_is_left_out_where_nothing_is_clipped [ "$(norm optimizer.optimizer=none optimizer.clip_grad=0)" = "grad norm: 0.000" ]
check an_update_has_it_always [ "$(norm optimizer.clip_grad=0)" = "$(norm)" ]
check the_pass_is_not_in_the_program [ "$(squares optimizer.optimizer=none)" -gt 0 -a "$(squares optimizer.optimizer=none optimizer.clip_grad=0)" = 0 ]
"$moefold" price "${gpu[@]}" --json >"$work/adam.json"
"$moefold" price "${gpu[@]}" --json optimizer.optimizer=none >"$work/none.json"
check no_bytes_are_planned grep -q '"memory":{[^}]*"optimizer":0[,}]' "$work/none.json"
check a_step_is_shorter awk -v a="$(key step_s <"$work/adam.json")" -v b="$(key step_s <"$work/none.json")" \
    'BEGIN { exit !(b > 0.5 * a && b < a) }'
expect megatron_has_none 1 'Megatron does not train without an optimizer' "$moefold" check --everything "${gpu[@]}" moefold.target=megatron \
    optimizer.optimizer=none
exit $failed
