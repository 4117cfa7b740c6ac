#!/usr/bin/env bash
# Checkpoints that were written by earlier programs resume, and what is in them stays as it is (tests/data/checkpoint/make.sh).
. tests/cli/saying.sh
one=(model.tensor_model_parallel_size=1 model.expert_tensor_parallel_size=1)
mapfile -t words < <(tr ' ' '\n' <tests/data/checkpoint/words | sed '/^$/d')
loss() { sed -nE "s/.*iteration +$1\/.*lm loss: ([^ ]*).*/\1/p" "$work/out"; }
near() { awk "BEGIN { d = $1 - $2; exit !(\"$1\" != \"\" && d < 1e-4 * $2 && -d < 1e-4 * $2) }"; }
sums() { find tests/data/checkpoint -type f -exec cksum {} + | sort; }
before=$(sums)
resumes() { # FOLDER STEP LOSS LOSS: the losses of the two steps after STEP, as the program that wrote the checkpoint went on
    "$moefold" train tiny "${words[@]}" "${one[@]}" "train.train_iters=$(($2 + 2))" "checkpoint.load=tests/data/checkpoint/$1" >"$work/out" 2>"$work/err"
    check "$1_resumes" [ $? = 0 ]
    check "$1_says_its_step" grep -qE "loaded checkpoint from tests/data/checkpoint/$1 .*at iteration $2" "$work/out"
    check "$1_goes_on_as_it_did" near "$(loss $(($2 + 1)))" "$3"
    check "$1_goes_on_with_its_moments" near "$(loss $(($2 + 2)))" "$4"
}
resumes v1 3 3.398990 3.380378
expect v1_weights_are_the_same 0 'Weights .* xxh64 f5d20cd952dcc2f0' "$moefold" convert tests/data/checkpoint/v1 "$work/v1" --to moefold
check nothing_was_written_there [ "$(sums)" = "$before" ]
exit $failed
