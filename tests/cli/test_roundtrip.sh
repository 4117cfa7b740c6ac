#!/usr/bin/env bash
# list -> recipe -> list: a Megatron-LM argument list, the recipe made of it and the list made of that recipe have the same
# verdict, bytes and step time. Our own lists always; where MEGATRON_LM names a checkout, its functional tests, too.
. tests/cli/saying.sh

# Verdict, broken rules, bytes of state, peak and step seconds, on one line; what cannot be priced has no seconds.
facts() { # COMMAND LINE OF A RECIPE...
    { "$moefold" check --everything --json "$@" 2>/dev/null || true; } >"$work/check.json"
    { "$moefold" price --json "$@" 2>/dev/null || true; } >"$work/price.json"
    python3 - "$work/check.json" "$work/price.json" <<'PY'
import json, sys
def read(path):
    text = open(path).read().strip()
    return json.loads(text) if text else {}
check, price = read(sys.argv[1]), read(sys.argv[2])
errors = sorted(v["rule"] for v in check.get("violations", []) if v["severity"] == "error")
print("ok", check.get("ok"), errors, "state", (check.get("memory") or {}).get("total"),
      "peak", check.get("peak_bytes"), price.get("peak_bytes"),
      "seconds", price.get("step_s"))
PY
}

round_trip() { # NAME LIST [OVERRIDES...]
    local name=$1 list=$2 before middle after
    shift 2
    "$moefold" show --from-megatron "$list" --as recipe "$@" >"$work/r.yaml" 2>"$work/err" ||
        { bad "$name" "no recipe: $(head -3 "$work/err")"; return; }
    before=$(facts --from-megatron "$list" "$@")
    middle=$(facts "$work/r.yaml")
    [ "$before" = "$middle" ] || { bad "$name" "list: $before; recipe: $middle"; return; }
    "$moefold" show "$work/r.yaml" --as megatron-lm >"$work/again.txt" 2>"$work/err" ||
        { bad "$name" "no list: $(head -3 "$work/err")"; return; }
    after=$(facts --from-megatron "$work/again.txt")
    [ "$before" = "$after" ] || { bad "$name" "list: $before; list again: $after"; return; }
    ok "$name"
}

for list in tests/data/megatron/*.txt; do
    round_trip "round_trip_$(basename "$list" .txt)" "$list"
    "$moefold" show --from-megatron "$list" --as recipe >"$work/r.yaml"
    check "recipe_of_$(basename "$list" .txt)_is_valid" grep -q '"ok":true' <("$moefold" check --everything "$work/r.yaml" --json)
    check "recipe_of_$(basename "$list" .txt)_names_its_system" grep -q '^  system: megatron-lm' "$work/r.yaml"
    check "recipe_of_$(basename "$list" .txt)_names_its_gpu" grep -q '^  gpu: ' "$work/r.yaml"
    without "recipe_of_$(basename "$list" .txt)_leaves_out_defaults" 'default of Megatron-LM' cat "$work/r.yaml"
done

# ---- Megatron's own functional tests: those that train, without FSDP and Muon
cases=${MEGATRON_LM:-}/tests/functional_tests/test_cases
if [ ! -d "$cases" ]; then
    echo "ok functional_tests_round_trip # skip: MEGATRON_LM names no checkout of Megatron-LM"
    exit $failed
fi
n=0 others=0
for file in "$cases"/{moe,mixtral}/*/model_config.yaml; do
    name=$(basename "$(dirname "$file")")
    if grep -qE '^MODE: *(inference|rl)|fsdp|muon' "$file"; then
        others=$((others + 1))
        continue
    fi
    n=$((n + 1))
    round_trip "round_trip_$name" "$file"
done
check functional_tests_were_tried [ "$n" -ge 49 ]
echo "$n functional tests went round; $others are inference, FSDP or Muon"
exit $failed
