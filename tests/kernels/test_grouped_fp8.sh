#!/bin/bash
# The FP8 expert GEMMs of a Hopper GPU, run on the host (grouped_fp8.cpp). Needs a C++ compiler, no GPU.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cxx=$(command -v "${CXX:-g++}" || command -v clang++) || { echo "no C++ compiler: skipped"; exit 0; }
mkdir -p "$work/backend/cuda/kernels"
touch "$work/backend/cuda/kernels/hopper.cuh" "$work/backend/cuda/kernels/tensor_map.cuh" # hopper_host.h stands for them
for f in grouped_gemm grouped_fp8 grouped_launch; do # a block's memory, and a load that is written in PTX
    sed -e 's/extern __shared__ __align__(1024) uint8_t shared_bytes\[\];/uint8_t *shared_bytes = memory[block_of()];/' \
        -e 's/asm volatile("ld.global.nc.f32 .*/v = *p;/' "src/backend/cuda/kernels/$f.cuh" >"$work/backend/cuda/kernels/$f.cuh"
done
"$cxx" -std=c++17 -O2 -w -I"$work" -Itests/kernels -Isrc tests/kernels/grouped_fp8.cpp -o "$work/kernel" || exit 1
"$work/kernel"
