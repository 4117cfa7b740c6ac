#!/usr/bin/env bash
# An mpirun that stands still after its ranks: told twice, `--ranks` ends all the same. (Open MPI's does so now and then
# when ranks are killed while they connect to it.)
. tests/cli/saying.sh
mkdir "$work/bin"
cat >"$work/bin/mpirun" <<'END'
#!/usr/bin/env python3
import os, signal, subprocess, sys
ranks = [subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL) for _ in range(2)]
open(os.environ["READY"], "w").write(str(os.getpid()))
for r in ranks:
    r.wait()
while True:
    signal.pause()
END
chmod +x "$work/bin/mpirun"
export READY=$work/ready
PATH=$work/bin:$PATH "$moefold" train tiny cluster.gpu=cpu train.global_batch_size=2 train.train_iters=5 --ranks 2 >"$work/out" 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ -s "$READY" ] && break
    sleep 0.1
done
sleep 1 # its ranks are seen
kill -TERM $pid
sleep 1
kill -INT $pid
for _ in $(seq 600); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
done
check it_ends bash -c "! kill -0 $pid 2>/dev/null" || kill -KILL $pid
wait $pid
check with_exit_code_3 [ $? = 3 ]
check mpirun_is_gone bash -c "! kill -0 $(cat "$READY") 2>/dev/null" || kill -KILL "$(cat "$READY")"
exit $failed
