#!/usr/bin/env bash
# `bench --ranks N` of a device that is no CPU: messages are measured on its streams, and nothing else. Devices of the CPU that run ahead
# stand in for a GPU: as threads ranks move messages by themselves, as processes MPI moves them.
# Runs alone: beside others two processes of MPI take 73 s instead of 7.
. tests/cli/saying.sh

cd "$work" || exit 1
# Five kinds of messages with eight rates each; what the file has of links is what was printed, and not what it was before.
cat >is_measured.py <<'PY'
import json, re, sys
printed, path, base, transport, ranks = sys.argv[1:]
o = json.loads(open(printed).read())
assert o["ranks"] == int(ranks) and o["transport"] == transport and o["devices"] == 1, o
assert o["file"] == path and o["base"].endswith(base), o
kinds = o["messages"]
assert sorted(kinds) == ["all-gather", "all-to-all", "exchange", "reduce-scatter", "shift"], kinds
for name, curve in kinds.items():
    # no memory of a CPU has 1 TB/s: messages that were not moved would
    assert len(curve) == 8 and all(0 < rate < 1e12 for _, rate in curve), (name, curve)
text = open(path).read()
node = re.search(r"^node:$(.*?)^domain:$", text, re.M | re.S).group(1)
latency, bandwidth = (float(re.search(key + r": (\S+)", node).group(1)) for key in ("latency", "bandwidth"))
assert abs(latency / o["latency_s"] - 1) < 1e-4, (latency, o["latency_s"])
best = max(4 / sum(1 / kinds[k][i][1] for k in kinds if k != "exchange") for i in range(8))
assert abs(bandwidth / best - 1) < 1e-4, (bandwidth, best)
assert "# as" not in node.split("gpus", 1)[1].split("\n", 1)[1], node
assert "not over NVLink" in text and "Transport: " + transport in text
PY
measured() { # NAME TRANSPORT RANKS BASE WORDS...
    timeout 100 "$moefold_test" bench --json --seconds 1 --out "$work/$1.yaml" --ranks "$3" "${@:5}" >"$1.json" 2>"$1.err" ||
        { bad "$1" "$(tail -3 "$1.err")"; return; }
    check "$1" python3 is_measured.py "$1.json" "$work/$1-$3.yaml" "$4" "$2" "$3"
}
measured threads 'threads of one process' 2 /cpu.yaml --device peers --as-threads
measured staged 'shared memory' 3 /cpu.yaml --device peers:staged --as-threads
measured behind 'threads of one process' 2 /cpu.yaml --device peers:late=3 --as-threads
measured processes MPI 2 /cpu.yaml --device deferred:3
expect the_file_can_be_read 0 'tiny on 2 x cpu' "$moefold" price --everything tiny cluster.gpu="$work/threads-2.yaml" cluster.n_gpus=2

# What one rank measured comes before the shipped file.
mkdir hardware
sed 's/^name: .*/name: cpu/' "$work/threads-2.yaml" >hardware/peers-measured.yaml
measured after_one_rank 'threads of one process' 2 ./hardware/peers-measured.yaml --device peers --as-threads
check and_is_named grep -q 'launch: .*# as hardware/peers-measured.yaml' after_one_rank-2.yaml
(timeout 60 "$moefold_test" bench --device peers --seconds 0.5 --ranks 2 --as-threads >usual.out 2>&1)
check the_usual_place [ -s hardware/peers-measured-2.yaml ]
check people_are_told grep -q '^2 ranks; transport: threads of one process; 2 ranks share 1 device: copies inside one memory, no NVLink' usual.out
check and_where_the_rest_is_from grep -q 'all else from ./hardware/peers-measured.yaml' usual.out

# ---- what cannot be measured
expect processes_of_peers 3 'messages between 2 ranks of device peers: .*repair: --as-threads' timeout 60 "$moefold_test" bench --device peers --ranks 2 --seconds 1 --out no.yaml
check and_nothing_is_written [ ! -e no-2.yaml ]
expect threads_of_a_cpu 2 'as-threads with --device cpu: .*repair: leave --as-threads out' "$moefold" bench --ranks 2 --as-threads
expect how_many_threads 2 'as-threads is for --ranks N' "$moefold_test" bench --device peers --as-threads
expect how_many_ranks 2 'one of several ranks .PMIX_RANK=1., but their number is unknown; repair: start it with mpirun -n N' env PMIX_RANK=1 "$moefold" bench
exit $failed
