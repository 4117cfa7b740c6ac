#!/bin/bash
# The FP8 expert GEMMs' arithmetic of places, run on the host (grouped_fp8.cpp). Needs a C++ compiler, no GPU.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cxx=$(command -v "${CXX:-g++}" || command -v clang++) || { echo "no C++ compiler: skipped"; exit 0; }
touch "$work/cuda.h" "$work/cuda_bf16.h" # the test has what is needed of them
"$cxx" -std=c++17 -O2 -I"$work" -Isrc tests/kernels/grouped_fp8.cpp -o "$work/tiles" || exit 1
"$work/tiles"
