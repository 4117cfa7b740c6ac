#!/usr/bin/env bash
# Every statement of docs/GUIDES.md: its command prints what stands beside it. From the repository's root.
. tests/cli/saying.sh
python3 tests/cli/guides.py "$moefold" docs/GUIDES.md "$work" || failed=1
# A phrase that no command prints is found missing, and so is a number out of its range.
printf '%s\n' '| A1 | x | `knobs model.moe_router_dtype` | `model.moe_router_dtype = fp64` |' \
    '| A2 | x | `knobs train.global_batch_size` | `whole number: N(2 to 9)..N` |' >"$work/wrong.md"
python3 tests/cli/guides.py "$moefold" "$work/wrong.md" "$work" >"$work/said"
check wrong_statements_are_found test "$(grep -c '^not ok guides_A' "$work/said")" = 2
exit $failed
