#!/usr/bin/env bash
# Every way to tell a run to stop: it saves and exits with 4; told again it ends at once; nothing is left behind.
# Mostly waits.
#
# Nothing here depends on how fast the machine is: what is awaited is looked for again and again, with a limit of minutes.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3 train.train_iters=1000000)
trap 'end_all; rm -rf "$work"' EXIT

# All processes of this test have its folder on their command line or in their environment.
ours() { grep -lz "MOEFOLD_TEST_WORK=$work" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | grep -vx $$; }
export MOEFOLD_TEST_WORK=$work
running() { # our processes of the program and of mpirun
    local p
    for p in $(ours); do
        case $(readlink "/proc/$p/exe") in *moefold | *mpirun | *orterun) grep -q '^State:.[ZX]' "/proc/$p/status" || echo "$p" ;; esac
    done 2>/dev/null
}
end_all() { for p in $(running); do kill -KILL "$p"; done 2>/dev/null; }
await() { # CONDITION...: is it true within two minutes?
    for _ in $(seq 1200); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}
none_runs() { [ -z "$(running)" ]; }
has_ended() { ! kill -0 "$pid" 2>/dev/null; }
# A run that stops by itself may do so before its second step where the machine is busy.
steps() { grep -qs 'iteration  *2/' "$work/out" || has_ended; }

# Python, for a shell starts what is in the background with SIGINT ignored.
start() { # RANKS [WORDS]: sets pid, launcher and ranks (process numbers)
    rm -rf "$work/ck" "$work/out"
    local n=$1 also=()
    shift
    [ "$n" = 1 ] || also=(--ranks "$n")
    python3 -c 'import os, signal, sys
for s in (signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$moefold" train "${small[@]}" "checkpoint.save=$work/ck" "${also[@]}" "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    await steps || bad "starts" "$(cat "$work/err")"
    launcher=$(pgrep -P $pid -x 'mpirun|orterun')
    ranks=()
    [ -z "$launcher" ] || mapfile -t ranks < <(pgrep -P "$launcher")
}
ends() { # NAME CODE
    await has_ended
    wait $pid
    local code=$?
    check "$1: exit code $2" [ "$code" = "$2" ] || sed 's/^/# /' "$work/err"
    check "$1: nothing is left" await none_runs
}
saved() { check "$1: saved" [ -s "$work/ck/latest_checkpointed_iteration.txt" ]; }

for s in TERM INT USR1 USR2 HUP; do
    start 1
    kill -"$s" $pid
    ends "one rank, $s" 4
    saved "one rank, $s"
done
if ! command -v mpirun >/dev/null; then
    echo "ok stop_with_ranks # skip mpirun (Open MPI) is not installed"
    exit $failed
fi
# Each signal and each receiver once; MOEFOLD_STOP=all: each signal to each receiver.
pairs=(TERM:parent INT:mpirun USR1:everyone USR2:rank HUP:parent)
[ "${MOEFOLD_STOP:-}" != all ] || pairs=({TERM,INT,USR1,USR2,HUP}:{parent,mpirun,rank,ranks,everyone})
for pair in "${pairs[@]}"; do
    s=${pair%:*} whom=${pair#*:}
    start 2
    case $whom in
        parent) kill -"$s" "$pid" ;;
        mpirun) kill -"$s" "$launcher" ;;
        rank) kill -"$s" "${ranks[1]}" ;;
        ranks) kill -"$s" "${ranks[@]}" ;;
        everyone) kill -"$s" "$pid" "$launcher" "${ranks[@]}" ;;
    esac
    ends "$s to $whom" 4
    saved "$s to $whom"
done

# ---- a save that takes long: a rank that stands still for longer than mpirun waits before it kills
for whom in mpirun ranks; do
    start 2
    kill -STOP "${ranks[1]}"
    case $whom in
        mpirun) kill -TERM "$launcher" ;;
        ranks) kill -TERM "${ranks[@]}" ;;
    esac
    sleep 8
    kill -CONT "${ranks[1]}"
    ends "a long save, TERM to $whom" 4
    saved "a long save, TERM to $whom"
done

# ---- told twice: a rank that stands still keeps the first request from being done
start 1
kill -STOP $pid # what comes now is heard in one go
kill -TERM $pid
kill -INT $pid
kill -CONT $pid
ends "one rank, told twice" 3
start 2
kill -STOP "${ranks[1]}"
kill -TERM $pid
sleep 1
kill -INT $pid
ends "told twice" 3
check "told twice: says so" grep -q 'a second time' "$work/err"
start 2
kill -STOP "${ranks[1]}"
kill -TERM "$launcher"
sleep 1
kill -INT "$launcher"
ends "mpirun told twice" 3

# ---- what Slurm's preemption sends, 2 ms apart: one request. 5 s later SIGTERM is a second one; ^C always is
sends() { # SIGNALS PIDS...: in one process, for a shell is too slow
    python3 -c 'import os, signal, sys, time
for i, name in enumerate(sys.argv[1].split()):
    if i: time.sleep(float(name) if name[0].isdigit() else 0.002)
    for p in sys.argv[2:] if not name[0].isdigit() else []: os.kill(int(p), getattr(signal, "SIG" + name))' "$@"
}
start 1
sends "TERM CONT TERM" $pid
ends "one rank, preempted" 4
saved "one rank, preempted"
start 2
sends "TERM CONT TERM" "${ranks[@]}"
ends "ranks, preempted" 4
saved "ranks, preempted"
start 2
sends "TERM CONT TERM" "$pid" "$launcher" "${ranks[@]}"
ends "everyone, preempted" 4
saved "everyone, preempted"
start 2 --as-threads
sends "TERM CONT TERM" "$pid"
ends "threads, preempted" 4
saved "threads, preempted"
start 2
kill -STOP "${ranks[1]}"
sends "TERM 5.1 TERM" "$pid"
ends "SIGTERM again after 5 s" 3
start 2
kill -STOP "${ranks[1]}"
sends "INT 0.3 INT" "$pid"
ends "^C twice" 3

# ---- what else ends a run before its last step, and what does not
start 1 train.exit_interval=3
ends "exit_interval" 0
cat >"$work/clock.c" <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) /* a minute of it is a fifth of a second */
{
    static int (*real)(clockid_t, struct timespec *);
    static time_t first;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int s = real(id, t);
    if (id != CLOCK_MONOTONIC) return s;
    if (!first) first = t->tv_sec;
    double now = 300 * ((double)(t->tv_sec - first) + (double)t->tv_nsec * 1e-9);
    t->tv_sec = first + (time_t)now;
    t->tv_nsec = (long)((now - (double)(time_t)now) * 1e9);
    return s;
}
EOF
cc -shared -fPIC -o "$work/clock.so" "$work/clock.c" -ldl
export LD_PRELOAD=$work/clock.so
start 1 train.exit_duration_in_mins=1
unset LD_PRELOAD
ends "exit_duration" 4
saved "exit_duration"

# ---- nobody stays when another is killed
start 2
kill -KILL $pid
await has_ended
wait $pid 2>/dev/null
check "parent killed: nothing is left" await none_runs
start 2
kill -KILL "$launcher"
ends "mpirun killed" 3
exit $failed
