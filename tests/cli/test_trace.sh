#!/usr/bin/env bash
# Predicted timelines: `price --trace`. From the repository's root.
. tests/cli/saying.sh

checked() { python3 tests/predict/check_trace.py "$@"; }
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

# ---- two traces
"$moefold" price "${folded[@]}" mbs=2 --trace "$work/b.json.gz" >/dev/null
"$moefold" price "${folded[@]}" --trace "$work/a.json.gz" >/dev/null
expect the_same_does_not_differ 0 'nothing: every operation takes equally long in both' "$moefold" trace "$work/a.json.gz" "$work/a.json.gz"
expect a_larger_microbatch_is_slower 0 '^ +\+[0-9.e-]+ s .*\(' "$moefold" trace "$work/a.json.gz" "$work/b.json.gz"
expect both_on_one_axis 0 'both on one time axis' "$moefold" trace "$work/a.json.gz" "$work/b.json.gz" -o "$work/both.json.gz"
expect merged_is_valid 0 '"streams"' checked "$work/both.json.gz"
expect sides_are_named 0 '"B: rank 4, pipeline stage 1"' zcat "$work/both.json.gz"
expect rows_are_counted 0 '"rows":\[\{[^}]*\},\{[^}]*\}\]' "$moefold" trace "$work/a.json.gz" "$work/b.json.gz" --top 2 --json
slower() { # one operation is made slower in the file: it is the first row, by that much
    python3 - "$work/whole.json" "$work/slow.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
ends = [e for e in d["traceEvents"] if e["ph"] == "X" and e["name"] == "experts.fc1" and e["args"].get("phase") == "forward"]
for e in ends: e["dur"] *= 3
json.dump(d, open(sys.argv[2], "w"))
PY
    "$moefold" trace "$work/whole.json" "$work/slow.json" --top 1
}
expect the_planted_operation_is_first 0 '\+.* experts.fc1, forward \(expert GEMM' slower
expect two_are_needed 2 'name two traces.*there is only' "$moefold" trace "$work/a.json.gz"
expect not_three 2 'two traces are named already' "$moefold" trace "$work/a.json.gz" "$work/a.json.gz" "$work/b.json.gz"
expect top_is_a_number 2 'top' "$moefold" trace "$work/a.json.gz" "$work/b.json.gz" --top many
head -c 2000 "$work/a.json.gz" >"$work/cut.json.gz"
expect cut_gzip_is_refused 2 'cut.json.gz: the gzip file is cut short; repair' "$moefold" trace "$work/cut.json.gz" "$work/a.json.gz"
without one_repair_is_enough "repair:.*repair:" "$moefold" trace "$work/cut.json.gz" "$work/a.json.gz"
head -c 9000 "$work/whole.json" >"$work/cut.json"
expect cut_json_is_refused 2 'cut.json:[0-9]+:.*cut short or not JSON: write the trace again' "$moefold" trace "$work/a.json.gz" "$work/cut.json"
echo '{"traceEvents": [{"ph": "X", "name": "aten::mm", "pid": "Spans", "tid": 0, "ts": 1, "dur": 2}]}' >"$work/torch.json"
expect other_traces_are_refused 2 'torch.json: not a trace of moefold' "$moefold" trace "$work/a.json.gz" "$work/torch.json"
expect recipes_are_refused 2 'cut short or not JSON' "$moefold" trace "$work/a.json.gz" recipes/dsv3-4k-h100.yaml
sed 's/"name":"[^"]*","cat"/"name":"other","cat"/' "$work/whole.json" >"$work/other.json"
expect nothing_in_common_is_said 2 'traces of different models' "$moefold" trace "$work/whole.json" "$work/other.json"

# ---- bad words
expect ranks_of_the_layout 2 'rank 99: ranks are 0 to 7' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 0,99
expect rank_is_a_number 2 'rank' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 0,,1
expect ranks_are_named_once 2 'rank 1 is named twice' "$moefold" price "${folded[@]}" --trace "$work/x" --rank 1,2,1
expect rank_alone_shows_memory 0 '"rank":1,' "$moefold" price "${folded[@]}" --rank 1 --json
expect whole_step_needs_trace 2 'is for --trace FILE' "$moefold" price "${folded[@]}" --whole-step
expect whole_step_needs_trace 2 'is for --trace FILE' "$moefold" price "${folded[@]}" --whole-step
expect folder_must_be_there 3 'nowhere/t.json: cannot be written' "$moefold" price "${folded[@]}" --trace "$work/nowhere/t.json"
MOEFOLD_TRACE_EVERY_OTHER=yes expect a_wrong_switch_is_named 2 'MOEFOLD_TRACE_EVERY_OTHER=yes .* is not 0 or 1; unset it' \
    "$moefold_test" train tiny cluster.gpu=cpu seq=32 gbs=2 mbs=1 train.train_iters=2 --threads 1 --trace "$work/x.json"
exit $failed
