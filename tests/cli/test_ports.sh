#!/usr/bin/env bash
# Ranks of a local job open no port; of mpirun's own, docs/STOPPING.md says which are left.
. tests/cli/saying.sh
if ! command -v mpirun >/dev/null; then
    echo "ok ports # skip mpirun (Open MPI) is not installed"
    exit 0
fi
"$moefold" train tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 \
    train.train_iters=1000000 --ranks 2 >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 1200); do
    grep -q 'iteration  *2/' "$work/out" && break
    sleep 0.1
done
launcher=$(pgrep -P $pid -x 'mpirun|orterun')
mapfile -t ranks < <(pgrep -P "$launcher")
listens() { # PROCESS: addresses (hexadecimal) and ports on which it listens
    local sockets
    sockets=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n')
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v list="$sockets" '
        BEGIN { n = split(list, s, "\n"); for (i = 1; i <= n; i++) mine[s[i]] = 1 }
        $4 == "0A" && ($10 in mine) { print $2 }'
}
check two_ranks_run [ "${#ranks[@]}" = 2 ]
check mpirun_is_seen_to_listen [ -n "$(listens "$launcher")" ] # so the next two can fail
for i in 0 1; do check "rank $i listens nowhere" [ -z "$(listens "${ranks[$i]}")" ]; done
check no_more_than_two_are_left [ "$(listens "$launcher" | grep -vcE '^(0100007F|0+1000000):')" -le 2 ]
kill -TERM $pid
wait $pid
check it_stops [ $? = 4 ]
exit $failed
