#!/bin/bash
# A small MoE model with what launch scripts are made of: defaults, arrays, arithmetic, tests,
# arguments of the script, a sourced file, a pipe at the end.
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

CHECKPOINTS=${1:-"checkpoints/moe"}
TOKENIZER=${2:-"MOCK"} # or a path
DATA=$3

while [[ $# -gt 0 ]]; do
    case $1 in
        --layers) LAYERS="$2"; shift 2 ;;
        -h|--help) echo "usage: $0"; exit 0 ;;
        *) echo "unknown: $1"; exit 1 ;;
    esac
done
if [ $# -ne 3 ]; then
    echo "usage: $0 CHECKPOINTS TOKENIZER DATA"
    exit 1
fi
[ -d "$CHECKPOINTS" ] || mkdir -p "$(dirname "$CHECKPOINTS")"
source /opt/cluster.conf

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
TP=2
PP=${PP:-4}
EP=$((WORLD_SIZE / (TP * PP)))
DTYPE="fp8"
CACHE="${PWD}/cache"

DISTRIBUTED=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --node_rank ${RANK:-0}
)
MODEL=(
    --num-layers ${LAYERS:-16} --hidden-size 1024
    --num-attention-heads 16 # and as many keys
    --group-query-attention --num-query-groups 4
    --seq-length 4096 --max-position-embeddings 4096
    --swiglu --normalization RMSNorm --disable-bias-linear \
    --untie-embeddings-and-output-weights --position-embedding-type rope
    --attention-dropout 0.0 --hidden-dropout 0.0
)
MODEL+=(--num-experts 32 --moe-ffn-hidden-size 512 --moe-layer-freq "([0]*1+[1]*15)")
EXTRA="--moe-router-topk 4 --moe-grouped-gemm"
EXTRA+=" --moe-token-dispatcher-type alltoall"

DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=(
        "--fp8-format hybrid"
        "--fp8-recipe tensorwise"
    )
elif [[ $DTYPE == fp* ]]; then
    DTYPE_ARGS=(--fp16)
fi
if [[ "$TOKENIZER" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    DATA_ARGS=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 32000" "--split '99,1,0'")
else
    DATA_ARGS=(--data-path $DATA --tokenizer-model $TOKENIZER)
fi
case $TP in
    1) PARALLEL="" ;;
    [2-8]) PARALLEL="--sequence-parallel" ;;
esac

LOGGING=(--save "$CHECKPOINTS" --load "$CHECKPOINTS" --tensorboard-dir "${CHECKPOINTS}/tb" --save-interval 1000)
if [ -n "${WANDB_API_KEY}" ]; then
    LOGGING+=(--wandb-project ${WANDB_PROJECT:-"moe"})
fi
if [ ! -f pretrain_gpt.py ]; then
    echo "not here"
    exit 1
fi

torchrun ${DISTRIBUTED[@]} pretrain_gpt.py \
    ${MODEL[@]} $EXTRA \
    "${DTYPE_ARGS[0]%% *}" hybrid ${DTYPE_ARGS[1]} \
    ${DATA_ARGS[@]} --data-cache-path "$CACHE" $PARALLEL \
    --bf16 --micro-batch-size 1 --global-batch-size $((WORLD_SIZE * 8)) \
    --train-iters 1000 --lr 1e-4 --min-lr 1e-5 \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size $PP \
    --expert-model-parallel-size ${EP} --expert-tensor-parallel-size 1 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    "${LOGGING[@]}" "$@" 2>&1 | tee train.log
