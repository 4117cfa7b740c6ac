#!/usr/bin/env bash
# A program that fails by itself (a bad address) is never silent: it names the rank, its operation and the calls, and leaves with 3.
# A rank that leaves without a word is missed by the others.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
ulimit -c 0
if nm "$moefold" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
    ok "a sanitizer handles these signals: not asked"
    exit 0
fi
job=(tests/data/golden/qwen3-moe-tiny cluster.gpu=cpu model.seq_length=64 train.train_iters=3 train.global_batch_size=4 train.micro_batch_size=1)
run() { # DEVICE FAULT WORDS...
    MOEFOLD_DEVICE=$1 MOEFOLD_FAULT=$2 MOEFOLD_TIMEOUT_SECONDS=${MOEFOLD_TIMEOUT_SECONDS:-20} timeout 60 "$moefold_test" train "${job[@]}" "${@:3}"
}
at='SIGSEGV at address 0x96 while it computes: [a-z. ]+; stream compute: [a-z0-9. _]+ \([A-Z0-9_]+\) of [a-z]+.*is not finished \(operation [0-9]+\).*; the process ends'

expect a_rank_that_fails_is_named 3 "rank 0 of 1: SIGSEGV at address 0x96 while it computes: layer norm; the process ends" run cpu crash:150 cluster.n_gpus=1
for device in peers peers:staged deferred:3; do
    run $device crash:150 --ranks 2 --as-threads >"$work/out" 2>&1
    check a_thread_that_fails_leaves_with_3_on_$device [ $? = 3 ]
    check and_names_its_rank_on_$device grep -qE "rank [01] of 2: $at" "$work/out"
    check one_rank_speaks_on_$device [ "$(grep -c SIGSEGV "$work/out")" = 1 ]
    check and_the_calls_are_there_on_$device grep -q 'moefold-test(+0x[0-9a-f]*)' "$work/out"
done
if command -v mpirun >/dev/null; then
    # A rank that leaves in the middle of a step, as if all were well: the others end, and name their operation.
    MOEFOLD_TIMEOUT_SECONDS=5 run cpu leave:150:1 --ranks 2 >"$work/out" 2>&1
    check a_rank_that_disappears_ends_the_job [ $? != 0 ] # the code is mpirun's
    check and_the_other_names_its_operation grep -qE 'rank 0 of 2: (told to end \(SIGTERM\) while it|no answer for [0-9]+ s in)' "$work/out"
    expect a_process_that_fails_names_its_rank 3 "rank [01] of 2: SIGSEGV at address 0x96 while it" run cpu crash:150 --ranks 2
fi
exit $failed
