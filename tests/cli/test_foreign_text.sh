#!/usr/bin/env bash
# Names and values that people did not mean as they look: folders called like numbers, bytes that are no text, control
# characters, files that are no files. From the repository's root.
. tests/cli/saying.sh

small=(tiny cluster.gpu=cpu model.num_layers=1 model.vocab_size=64 seq=16 gbs=1 mbs=1 train.train_iters=1)
train() { "$moefold" train "${small[@]}" "$@"; }

# ---- a folder called like a number is that folder
(cd "$work" && train checkpoint.save=1.1 && train checkpoint.save=1.10 logger.tensorboard_dir=007) >"$work/out" 2>&1
check folder_1.10_is_not_1.1 [ -d "$work/1.10/iter_0000001" -a -d "$work/1.1/iter_0000001" ]
check its_checkpoint_has_the_name grep -q 'save: \\"1.10' "$work/1.10/iter_0000001/metadata.json"
check folder_007_keeps_its_zeros [ -d "$work/007" ]
expect a_folder_to_load_is_as_written 2 '007' "$moefold" train "${small[@]}" checkpoint.load="$work/007"
exit $failed
