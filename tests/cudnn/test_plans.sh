#!/bin/bash
# test_plans.sh - cuDNN builds every plan of attention that our rows ask for, in the workspace that is
# planned for it; without a GPU, from the properties of an H200. Needs `make cuda` and cuDNN.
cd "$(dirname "$0")/../.." || exit 1
plans=build/tests/cudnn/plans
driver=build/bench/cuda/no-driver
if [ ! -x $plans ] || [ ! -f $driver/libcuda.so.1 ]; then
    echo "ok 1 - plans # SKIP $plans is not built (make cuda, where nvcc and cuDNN are found)"
    exit 0
fi
folder=${CUDA_HOME:-/usr/local/cuda}/lib
[ -f "$folder/libcudnn.so.9" ] || folder=${CUDA_HOME:-/usr/local/cuda}/lib64
LD_LIBRARY_PATH=$driver:$folder:$LD_LIBRARY_PATH $plans bench/cuda/h200.json
