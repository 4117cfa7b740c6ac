#!/bin/bash
# The GPU's kernel that quantises tiles, run on the host (quantise_tile.cpp). Needs a C++ compiler, no GPU.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cxx=$(command -v "${CXX:-g++}" || command -v clang++) || { echo "no C++ compiler: skipped"; exit 0; }
mkdir -p "$work/backend/cuda/kernels"
touch "$work/cuda_fp8.h" "$work/cuda_bf16.h" "$work/backend/cuda/kernels/copies.cuh" # the test has what is needed of them
cat >"$work/backend/cuda/kernels/device.cuh" <<'END'
#pragma once
#include "backend/cuda/kernels/cuda_rows.h"
enum { WARP = 32, BLOCK = 256, WARPS = BLOCK / WARP };
#define ALL_LANES 0xffffffffu
typedef struct numbers {
    void *p;
    bool bf16;
} numbers;
static inline numbers in_of(const kernel_call *c, int i)
{
    return {c->in[i], true};
}
static inline numbers out_of(const kernel_call *c, int i)
{
    return {c->out[i], true};
}
#include "op/op_launch.h"
END
"$cxx" -std=c++17 -O2 -ffp-contract=off -fpermissive -w -I"$work" -Isrc -Ibuild/generated tests/kernels/quantise_tile.cpp -o "$work/tiles" || exit 1
"$work/tiles"
