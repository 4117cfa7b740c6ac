#!/usr/bin/env bash
# `make run` shows the main job soon: without a GPU it does not wait for nvcc. From the repository's root.
set -u
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

commands() { # what make would do where nvidia-smi ends with CODE
    printf '#!/bin/sh\nexit %s\n' "$1" >"$work/nvidia-smi"
    chmod +x "$work/nvidia-smi"
    PATH="$work:$PATH" MAKEFLAGS='' make -n -B run 2>/dev/null
}
verdict() { # NAME CONDITION: 0 is good
    if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
commands 1 >"$work/without"
grep -q 'src/cli/plan\.c' "$work/without" && grep -q 'tools/demo' "$work/without"
verdict run_builds_and_shows $?
! grep -q 'moefold-cuda\.so' "$work/without"
verdict without_a_gpu_nvcc_is_not_waited_for $?
if MAKEFLAGS='' make -n -B all 2>/dev/null | grep -q 'moefold-cuda\.so'; then
    commands 0 | grep -q 'moefold-cuda\.so'
    verdict with_a_gpu_its_kernels_are_built $?
else
    echo "ok with_a_gpu_its_kernels_are_built # SKIP no CUDA toolkit"
fi
exit $failed
