#!/usr/bin/env bash
# Reports: the data of pages of a recipe, a plan and a run, and their script under node; test_pages.sh reads them in a browser.
# From the repository's root.
. tests/cli/saying.sh

# ---- pages
expect recipe_is_written 0 'Written to' "$moefold" report recipes/dsv3-128k-h100.yaml -o "$work/recipe.html"
"$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4K --against recipes/qwen3-30b-4k-h100.yaml --json >"$work/plan.json"
expect plan_is_written 0 'Written to' "$moefold" report "$work/plan.json" --out "$work/plan.html"
folded=(tiny cluster.gpu=cpu cluster.n_gpus=8 tp=2 pp=2 vpp=2 ep=4 etp=1 mbs=1 gbs=16 seq=256)
expect overrides_are_taken 0 'Written to' "$moefold" report "${folded[@]}" --brief -o "$work/folded.html"
expect what_does_not_fit_exits_1 1 'Written to' "$moefold" report recipes/dsv3-128k-h100.yaml mbs=8 --brief -o "$work/large.html"
"$moefold" plan --everything deepseek-v3 --gpus 8xH100 --seq 4K --seconds 5 --json >"$work/none.json"
expect plan_without_rows_is_written 1 'Written to' "$moefold" report "$work/none.json" -o "$work/none.html"
OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive "$moefold" train tiny cluster.gpu=cpu pp=2 ep=2 etp=1 mbs=1 gbs=8 seq=64 train.train_iters=8 \
    validation.eval_interval=4 validation.eval_iters=1 --ranks 4 --run "$work/trained" >"$work/log" 2>&1 || cat "$work/log"
expect run_is_written 0 'Written to' "$moefold" report "$work/trained" -o "$work/run.html"
mkdir "$work/half" && cp "$work/trained"/{recipe.yaml,metrics.jsonl} "$work/half" && printf '{"event":"itera' >>"$work/half/metrics.jsonl"
expect a_run_that_goes_on_is_written 0 'Written to' "$moefold" report "$work/half" -o "$work/half.html"

"$moefold" tune recipes/qwen3-30b-4k-h100.yaml --dir "$work/far" --next >"$work/log" 2>&1 || cat "$work/log"
expect a_tuning_that_waits_is_written 0 'Written to' "$moefold" report "$work/far" -o "$work/far.html"
"$moefold" tune recipes/qwen3-30b-4k-h100.yaml --dir "$work/far" --tell tests/data/profile/megatron.log >"$work/log" 2>&1 || cat "$work/log"
cp -r "$work/far" "$work/far.before"
expect a_tuning_is_written 0 'Written to' "$moefold" report "$work/far" -o "$work/tune.html"
check and_stays_as_it_was diff -r "$work/far" "$work/far.before"
expect a_profile_is_written 0 'Written to' "$moefold" report recipes/qwen3-30b-4k-h100.yaml tests/data/profile/megatron.log -o "$work/profile.html"
expect no_such_profile 2 'none.json: No such file' "$moefold" report tiny "$work/none.json2/none.json" -o "$work/x.html"

pages=(tune profile recipe plan folded large none run half)
data_of() { python3 - "$1" <<'PY'
import json, re, sys
text = open(sys.argv[1]).read()
assert len(text.encode()) < 2_000_000, len(text)
raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
print(json.dumps(json.loads(raw)))
PY
}
for p in "${pages[@]}"; do
    check "${p}_is_small_and_whole" data_of "$work/$p.html" >"$work/$p.data.json"
    grep '^not ok' "$work/$p.data.json" && failed=1
    without "${p}_needs_no_network" '(src|href) *= *"?(https?:)?//|@import|url\(|fetch\(|XMLHttpRequest|<iframe' \
        sed '/id="data"/,/^<\/script>/d' "$work/$p.html"
done
"$moefold" price recipes/dsv3-128k-h100.yaml --json >"$work/price.json"
same_as_price() {
    sed -n '/^{/p' "$work/recipe.data.json" | python3 -c '
import json, sys
d, p = json.load(sys.stdin)["own"], json.load(open(sys.argv[1]))
assert abs(d["price"]["step_s"] / p["step_s"] - 1) < 1e-6
assert d["memory"]["peak_bytes"] == p["peak_bytes"] == sum(x["bytes"] for x in d["memory"]["regions"])
assert abs(sum(x["seconds"] for x in d["parts"]) / p["step_s"] - 1) < 1e-6
assert [x["own"] for x in d["ladder"]].count(True) == 1 and d["front"] and d["best"] and d["changes"]
assert len(d["knobs"]) > 250 and all(k[3] for k in d["knobs"] if k[2] == "derived")
' "$work/price.json"
}
tried_and_profiled() {
    python3 -c '
import json, sys
t, p = (json.loads(next(l for l in open(f) if l.startswith("{"))) for f in sys.argv[1:])
assert t["kind"] == "tune" and t["tune"]["told"]["best"] == 0, t["tune"]
assert t["tune"]["told"]["trials"][0]["step_s"] == 21.1 and t["own"]["price"]["step_s"] > 0
assert p["kind"] == "profile" and p["profile"]["wall"] == "communication" and p["profile"]["fixes"]
' "$work/tune.data.json" "$work/profile.data.json"
}
check trials_and_profiles_are_there tried_and_profiled
check numbers_are_those_of_price same_as_price
winner_is_drawn() {
    sed -n '/^{/p' "$work/plan.data.json" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert abs(d["own"]["price"]["step_s"] / d["plan"]["best"][0]["step_s"] - 1) < 1e-6
assert d["own"]["memory"]["peak_bytes"] == d["plan"]["best"][0]["peak_bytes"]'
}
check first_row_of_a_plan_is_drawn winner_is_drawn
bands_are_numbers() { # those that the page computes with: of every row, around its step
    sed -n '/^{/p' "$work/plan.data.json" | python3 -c '
import json, sys
for r in json.load(sys.stdin)["plan"]["best"]:
    low, high, step = r["band"]["low_s"], r["band"]["high_s"], r["step_s"]
    assert abs(low * high / step ** 2 - 1) < 1e-6 and 1.01 < high / step < 1.6, r["band"]'
    grep -oh 'band\.[a-z_]*' src/report/page*.js | sort -u | diff - <(printf 'band.high_s\nband.low_s\n')
}
check bands_of_a_plan_are_what_the_page_computes_with bands_are_numbers
run_is_whole() {
    sed -n '/^{/p' "$work/run.data.json" | python3 -c '
import gzip, json, sys
d, s = json.load(sys.stdin), json.load(open(sys.argv[1] + "/summary.json"))
t = json.load(gzip.open(sys.argv[1] + "/trace.json.gz"))
r = d["run"]
assert d["kind"] == "run" and [l[0] for l in r["lines"]] == list(range(1, 9)) and len(r["validation"]) == 2
assert r["summary"]["measured"] == s["measured"] and len(r["schedule"]["stages"]) == 2
assert all(len(st["units"]) == 4 * 2 * 4 for st in r["schedule"]["stages"]), [len(st["units"]) for st in r["schedule"]["stages"]]
assert all(abs(sum(l["loads"]) / len(l["loads"]) - 1000) < 1 for l in r["loads"]["layers"])
assert d["own"]["memory"]["peak_bytes"] == r["summary"]["memory"]["planned_bytes"] == sum(x["bytes"] for x in d["own"]["memory"]["regions"])
assert any(t["group"] == "ep" for t in r["summary"]["traffic"])
m = r["summary"]["memory"]; o = m["over_step"]; there = m["regions"]
fixed = sum(there.get(n, 0) for n in ("weights", "gradients", "optimizer", "boundary", "step"))
most = max(a + b for a, b in zip(o["saved"], o["temporaries"]))
assert max(o["saved"]) == there["saved"] and 0 < most <= m["allocated_bytes"] - fixed, (most, m)
assert o["saved"][-1] == o["temporaries"][-1] == 0
# Its step is the last one of the trace: as long as what that rank did in it, and no longer than all steps there.
own = [e for e in t["traceEvents"] if e["ph"] == "X" and e["pid"] == m["rank"]]
begun = sorted(e["ts"] for e in own if e["name"] == "reading data")[-1]
seen = 1e-6 * (max(e["ts"] + e["dur"] for e in own) - begun)
assert t["otherData"]["steps"] == 2 and 0 < seen <= o["step_s"] + 1e-6 and o["step_s"] <= t["otherData"]["span_s"] + 1e-6, (seen, o["step_s"], t["otherData"])
p = m["process"]; assert p["ranks"] == 1 and 0 < p["before_bytes"] < p["first_step_bytes"] <= m["resident_bytes"]
assert p["first_step_bytes"] - p["before_bytes"] > 0.9 * m["planned_bytes"]' "$work/trained"
}
check numbers_are_those_of_the_run run_is_whole
printf 'moefold:\n  model: tiny\n' >"$work/<script>alert(1)<.yaml"
"$moefold" report "$work/<script>alert(1)<.yaml" cluster.gpu=cpu --brief -o "$work/name.html" >/dev/null
without names_cannot_leave_the_data '<script>alert' cat "$work/name.html"

# ---- the page's script, in as much of a document as it uses
for p in "${pages[@]}"; do
    if command -v node >/dev/null; then
        check "every_text_of_${p}_is_a_figure_or_a_word" node tests/cli/page_text.js "$work/$p.html"
    else
        echo "ok every_text_of_${p}_is_a_figure_or_a_word # skip there is no node"
    fi
done

# ---- bad words and files
for fault in 'm["over_step"]["saved"].pop()' 'm["over_step"]["step_s"] = 0' 'm["over_step"] = 3' 'del m["process"]["ranks"]'; do
    rm -rf "$work/bad" && cp -r "$work/trained" "$work/bad"
    python3 -c "import json, sys; s = json.load(open(sys.argv[1])); m = s['memory']; $fault; json.dump(s, open(sys.argv[1], 'w'))" "$work/bad/summary.json"
    expect "memory_of_a_run_without_sense: $fault" 2 'summary.json: (over_step of memory needs step_s|process of memory lacks its ranks)' "$moefold" report "$work/bad" -o "$work/x.html"
done
expect out_is_needed 2 'no output file is given; repair: -o page.html' "$moefold" report tiny
expect a_recipe_is_needed 2 'name a recipe' "$moefold" report -o "$work/x.html"
expect folder_must_be_there 3 'nowhere/x.html: cannot be written' "$moefold" report tiny cluster.gpu=cpu --brief -o "$work/nowhere/x.html"
expect broken_recipe_is_refused 1 'no program can be built' "$moefold" report tiny cluster.gpu=cpu tp=3 --brief -o "$work/refused.html"
expect page_of_a_broken_recipe_has_its_repair 0 '"fix":\["' cat "$work/refused.html"
head -c 3000 "$work/plan.json" >"$work/cut.json"
expect cut_plan_is_refused 2 'cut.json:1:.*cut short or not JSON; repair: write the plan again' "$moefold" report "$work/cut.json" -o "$work/x.html"
python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); del d["front"][0]["step_s"]; json.dump(d,open(sys.argv[2],"w"))' "$work/plan.json" "$work/row.json"
expect broken_row_is_named 2 'row.json: front\[0\]: there is no number "step_s"; repair' "$moefold" report "$work/row.json" -o "$work/x.html"
python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); d["best"][1]["band"] = 0.1; json.dump(d,open(sys.argv[2],"w"))' "$work/plan.json" "$work/band.json"
expect band_of_another_form_is_named 2 'band.json: best\[1\]: there is no number "high_s" in "band"; repair' "$moefold" report "$work/band.json" -o "$work/x.html"
echo '{"complete": true, "gpus": 8, "best": 3}' >"$work/other.json"
expect other_json_is_refused 2 'not a plan, because .*missing; repair' "$moefold" report "$work/other.json" -o "$work/x.html"
mkdir "$work/run" && touch "$work/run/metrics.jsonl"
expect half_a_run_is_refused 2 "run: a run's folder without recipe.yaml; repair" "$moefold" report "$work/run" -o "$work/x.html"
rm "$work/half/metrics.jsonl"
expect a_run_without_metrics_is_refused 2 'half: a run.s folder without metrics.jsonl: .*repair' "$moefold" report "$work/half" -o "$work/x.html"
expect a_trace_is_no_recipe 2 'trace.json.gz: is a gzip file, not a recipe; .moefold trace A B. reads traces' "$moefold" report "$work/trained/trace.json.gz" -o "$work/x.html"
head -c 5000 "$work/trained/trace.json.gz" >"$work/cut.gz" && cp "$work/cut.gz" "$work/trained/trace.json.gz"
expect a_cut_trace_is_refused 2 'trace.json.gz: .*cut short.*repair' "$moefold" report "$work/trained" -o "$work/x.html"
check nothing_was_left test ! -e "$work/x.html"
exit $failed
