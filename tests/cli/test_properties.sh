#!/usr/bin/env bash
# Properties of all answers, over random jobs (tests/cli/properties.py): about 30, with TEST_ALL ten times as many. From
# the repository's root.
. tests/cli/saying.sh
export MOEFOLD=$moefold PYTHONPATH=tests/cli PYTHONDONTWRITEBYTECODE=1
python3 tests/cli/properties.py "$@" | tee "$work/said"
! grep -q '^not ok' "$work/said"
