#!/usr/bin/env bash
# make.sh FOLDER - writes a checkpoint of the first three of five steps of a very small model, by two ranks, as tests/train/test_checkpoint_old.c and
# tests/cli/test_checkpoint_old.sh load it. From the repository's root, with Open MPI.
#
# A folder that was written once stays as it is: it stands for the checkpoints that people have. When the format changes, write
# a new one beside it (v2) and give it rows of its own in both tests.
set -eu
folder=tests/data/checkpoint/$1
if [ -e "$folder" ]; then
    echo "make.sh: $folder is there already; an old checkpoint is not written again" >&2
    exit 1
fi
"${MOEFOLD:-./moefold}" train tiny $(cat tests/data/checkpoint/words) --ranks 2 train.train_iters=5 train.exit_interval=3 "checkpoint.save=$folder"
rm "$folder/moefold.lock"
