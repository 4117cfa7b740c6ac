#!/usr/bin/env bash
# Predicted timelines: `price --trace`. From the repository's root.
. tests/cli/saying.sh

checked() { python3 tests/trace/check_trace.py "$@"; }
traced() { # NAME FILE WORDS... -- CHECKS...: written, and valid
    local name=$1 file=$work/$2 words=()
    shift 2
    while (($#)) && [ "$1" != -- ]; do words+=("$1") && shift; done
    expect "${name}_is_written" 0 '^Trace  ' "$moefold" price "${words[@]}" --trace "$file"
    expect "${name}_is_valid" 0 '"streams"' checked "$file" "${@:2}"
}

for r in recipes/*.yaml; do traced "$(basename "$r" .yaml)" window.json.gz "$r"; done
folded=(tiny cluster.gpu=cpu cluster.n_gpus=8 tp=2 pp=2 vpp=2 ep=4 etp=1 mbs=1 gbs=16 seq=256)
traced folded whole.json "${folded[@]}" --whole-step -- --whole
traced folded_ranks ranks.json.gz "${folded[@]}" --whole-step --rank 1,5,2 -- --whole
expect messages_are_flows 0 '"flows": [1-9]' checked "$work/whole.json" --whole
check gz_is_packed gzip -t "$work/ranks.json.gz"
expect named_ranks_are_traced 0 '"name":"rank 5, pipeline stage 1"' zcat "$work/ranks.json.gz"
without other_ranks_are_not '"name":"rank 0,' zcat "$work/ranks.json.gz"
expect json_says_what_was_written 0 '"trace":\{"file":"[^"]*whole.json","operations":[1-9]' \
    "$moefold" price "${folded[@]}" --trace "$work/whole.json" --json

# The check notices what it must: an overlap, a lost receive, a missing name.
broken() { # NAME PYTHON: d is the trace
    python3 - "$work/whole.json" "$work/broken.json" "$2" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
e = d["traceEvents"]
exec(sys.argv[3])
json.dump(d, open(sys.argv[2], "w"))
PY
    expect "$1" 1 'check_trace:' checked "$work/broken.json" --whole
}
"$moefold" price "${folded[@]}" --whole-step --trace "$work/whole.json" >/dev/null
broken overlap_is_noticed 'x = [i for i in e if i["ph"] == "X" and i["tid"] == 0][7]; x["dur"] += 5000'
broken lost_receive_is_noticed 'e.remove([i for i in e if i["ph"] == "f"][0])'
broken lost_operations_are_noticed 'e[:] = [i for i in e if i.get("cat") != "GEMM"]'
broken nameless_stream_is_noticed 'e.remove([i for i in e if i["name"] == "thread_name"][0])'

# ---- bad words
expect ranks_of_the_layout 2 'rank 99: ranks are 0 to 7' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 0,99
expect rank_is_a_number 2 'rank' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 0,,1
expect ranks_are_named_once 2 'rank 1 is named twice' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 1,2,1
expect rank_needs_trace 2 'is for --trace FILE' "$moefold" price "${folded[@]}" --rank 1
expect whole_step_needs_trace 2 'is for --trace FILE' "$moefold" price "${folded[@]}" --whole-step
expect folder_must_be_there 3 'nowhere/t.json: cannot be written' "$moefold" price "${folded[@]}" --trace "$work/nowhere/t.json"
exit $failed
