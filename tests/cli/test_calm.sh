#!/usr/bin/env bash
# Idle threads of a run wait without spinning, those of every rank, too, unless somebody said otherwise. OpenMP itself
# tells what it was told. From the repository's root.
set -u
moefold=${MOEFOLD:-./moefold}
failed=0
command -v mpirun >/dev/null || { echo "ok ranks_wait_without_spinning # SKIP no mpirun"; exit 0; }
ldd "$moefold" | grep -q libgomp || { echo "ok ranks_wait_without_spinning # SKIP clang's OpenMP has other words"; exit 0; }
job=(train tests/data/golden/qwen3-moe-tiny cluster.gpu=cpu train.train_iters=1 --ranks 2)

# says NAME LINE SETTING...: both ranks and the program that starts them say it (what OpenMP calls the policy where none
# is set is PASSIVE, too: how long a thread spins tells more)
says() {
    local name=$1 line=$2 n
    shift 2
    n=$(env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_NUM_THREADS=1 OMP_DISPLAY_ENV=verbose "$@" "$moefold" "${job[@]}" 2>&1 |
        grep -cF "$line")
    if ((n >= 3)); then
        echo "ok $name"
    else
        echo "not ok $name: $n of at least 3 say $line"
        failed=1
    fi
}
says ranks_wait_without_spinning "GOMP_SPINCOUNT = '2000'" A=1
says a_setting_is_left_alone "OMP_WAIT_POLICY = 'ACTIVE'" OMP_WAIT_POLICY=active
exit $failed
