#!/usr/bin/env bash
# A few seconds of `make torture`, and that it fails where something is lost, crashes or goes unnoticed.
. tests/cli/saying.sh
export TORTURE_INJECT=$work/inject.so TORTURE_JOBS=1 TORTURE_SEED
cc -std=c11 -fPIC -shared tests/torture/inject.c -ldl -o "$TORTURE_INJECT" || bad inject_is_built
torture() { # PROGRAM WORDS...: sets out
    out=$(MOEFOLD=$1 python3 tests/torture/torture.py "${@:2}" 2>&1)
}

TORTURE_SEED=${TORTURE_SEED:-1}
TORTURE_SECONDS=8 TORTURE_PARTS="faults flips stops commands" torture "$moefold"
check a_sample_ends_well [ $? = 0 ] || sed 's/^/# /' <<<"$out"
check it_counts grep -qE '^torture: .* kills, .* injected failures, .* bit flips, .* resumes bit-equal, .*: no loss, no crash$' <<<"$out"
# By name, so that one of each is played however slow the machine is.
for case in fault/next/0/-40/kill/1 fault/next/0/32/ESTALE/1 fault/next/0/18/EIO/1 fault/again/0/-5/power/1 cut/latest_checkpointed_iteration.txt/0; do
    torture "$moefold" --only $case
    check "by_name: $case" [ $? = 0 ] || sed 's/^/# /' <<<"$out"
done

# ---- programs that are worse than ours
fails() { # NAME CASE WORDS PROGRAM
    printf '#!/bin/bash\n%s\n' "$4" >"$work/$1"
    chmod +x "$work/$1"
    torture "$work/$1" --only "$2"
    check "$1: found" [ $? = 1 ]
    check "$1: told" grep -qE -- "$3" <<<"$out" || sed 's/^/# /' <<<"$out"
    check "$1: can be repeated" grep -qF "TORTURE_SEED=$TORTURE_SEED python3 tests/torture/torture.py --only $2" <<<"$out"
}
every='fault/next/0/150/EIO/1000000'
fails loses $every 'loaded iteration -1, though 4 was saved' "'$moefold' \"\$@\" && exit
code=\$?
unset LD_PRELOAD
for w; do case \$w in checkpoint.save=*) rm -rf \"\${w#*=}\"/* ;; esac; done
exit \$code"
fails crashes $every 'it ended badly: exit code -11' "'$moefold' \"\$@\" || kill -SEGV \$\$"
fails is_silent $every 'its message names no file' "'$moefold' \"\$@\" 2>/dev/null"
fails differs fault/next/0/150/kill/1 'does not end as the uninterrupted run' "for w; do case \$w in checkpoint.save=*) [ ! -d \"\${w#*=}\" ] || set -- \"\$@\" optimizer.lr=4e-3 ;; esac; done
exec '$moefold' \"\$@\""
fails overlooks flip/iter_0000006:metadata.json/100/3 'loaded iteration -1, though 6 was saved' "'$moefold' \"\$@\" || [ \$? = 2 ]"
echo 'int fsync(int fd) { return fd < 0 ? -1 : 0; }' >"$work/unsynced.c"
cc -fPIC -shared "$work/unsynced.c" -o "$work/unsynced.so"
fails does_not_sync fault/next/0/-5/power/1 'the resumed run' "[ -z \"\${LD_PRELOAD:-}\" ] || export LD_PRELOAD=$work/unsynced.so:\$LD_PRELOAD
exec '$moefold' \"\$@\""
exit $failed
