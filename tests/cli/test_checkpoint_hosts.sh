#!/usr/bin/env bash
# One folder of checkpoints and two jobs that do not see each other's processes: other hosts, no locks, locks of one host only.
# Mostly waits.
. tests/cli/saying.sh
small=(tiny cluster.gpu=cpu model.seq_length=64 train.micro_batch_size=1 train.global_batch_size=2 optimizer.lr=3e-3)
pid=
trap '[ -z "$pid" ] || kill -KILL $pid 2>/dev/null; rm -rf "$work"' EXIT
cat >"$work/host.c" <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int gethostname(char *name, size_t n)
{
    snprintf(name, n, "%s", getenv("TEST_HOST"));
    return 0;
}
/* A job that others wait for has a line an iteration, and need not compute all the while. */
int fflush(FILE *f)
{
    if (getenv("TEST_PAUSE")) usleep(100000);
    return fflush_unlocked(f);
}
static int locked(int fd, int command, void *with)
{
    const char *locks = getenv("TEST_LOCKS");
    if (command == F_OFD_SETLK && strcmp(locks, "none") == 0) {
        errno = ENOLCK;
        return -1;
    }
    if (command == F_OFD_SETLK && strcmp(locks, "local") == 0) return 0;
    return (int)syscall(SYS_fcntl, fd, command, with);
}
#define WRAP(name)                                                                                 \
    int name(int fd, int command, ...)                                                             \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, command);                                                                   \
        void *with = va_arg(more, void *);                                                         \
        va_end(more);                                                                              \
        return locked(fd, command, with);                                                          \
    }
WRAP(fcntl)
WRAP(fcntl64)
END
cc -shared -fPIC -o "$work/host.so" "$work/host.c"
on() { # HOST LOCKS COMMAND...
    env "LD_PRELOAD=$work/host.so" "TEST_HOST=$1" "TEST_LOCKS=$2" "${@:3}"
}
wait_for() { # PATTERN FILE
    for _ in $(seq 600); do
        grep -qE "$1" "$2" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
for locks in fine none local; do
    ck=$work/$locks
    env "LD_PRELOAD=$work/host.so" TEST_HOST=node-a TEST_LOCKS=$locks TEST_PAUSE=yes "$moefold" train "${small[@]}" train.train_iters=100000 checkpoint.save_interval=1000000 "checkpoint.save=$ck" >"$work/out" 2>"$work/err" &
    pid=$!
    wait_for 'iteration +2/' "$work/out"
    expect "a_job_on_another_host_is_refused, locks: $locks" 3 "another job saves there \(process $pid on node-a, since 20" \
        on node-b $locks "$moefold" train "${small[@]}" train.train_iters=3 "checkpoint.save=$ck"
    expect "convert_is_refused, locks: $locks" 3 "another job saves there \(process $pid on node-a, since 20" \
        on node-b $locks "$moefold" convert tests/data/golden/qwen3-moe-tiny "$ck"
    check "nothing_is_in_the_folder, locks: $locks" [ "$(ls "$ck")" = moefold.lock ]
    case $locks in none) check "a_missing_lock_is_said" grep -q 'cannot be locked (No locks available).*docs/CHECKPOINTS.md' "$work/err" ;; esac
    kill -TERM $pid
    wait $pid
    check "the_first_is_not_disturbed, locks: $locks" [ $? = 4 ]
    pid=
    check "the_first_has_saved, locks: $locks" [ -s "$ck/latest_checkpointed_iteration.txt" ]
    expect "the_next_host_goes_on, locks: $locks" 0 'loaded checkpoint from' \
        on node-b $locks "$moefold" train "${small[@]}" "train.train_iters=$(($(cat "$ck/latest_checkpointed_iteration.txt") + 2))" "checkpoint.save=$ck" "checkpoint.load=$ck"
    without "and_waits_for_nobody, locks: $locks" 'waiting up to' \
        on node-c $locks "$moefold" train "${small[@]}" "train.train_iters=$(($(cat "$ck/latest_checkpointed_iteration.txt") + 1))" "checkpoint.save=$ck" "checkpoint.load=$ck"
done
mkdir "$work/stale" && mkdir "$work/stale/iter_0000009.tmp-node-x-5-12345678-file-0123456789abcdef"
expect leftovers_of_other_hosts_are_said 0 'keeping 1 unfinished checkpoint of jobs on other machines .*, because' "$moefold" train "${small[@]}" train.train_iters=1 "checkpoint.save=$work/stale"
check leftovers_of_other_hosts_stay [ -d "$work/stale/iter_0000009.tmp-node-x-5-12345678-file-0123456789abcdef" ]
exit $failed
