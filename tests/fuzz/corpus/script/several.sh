#!/bin/bash
#SBATCH --nodes=2
# Two runs of one model, one of them by a job that a document describes; NODES must be given.
COMMON="--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 1024 \
    --vocab-size 1000 --micro-batch-size 1 --disable-bias-linear --swiglu --normalization RMSNorm"

run() {
    local size=$1
    shift
    torchrun --nnodes 1 --nproc-per-node $size pretrain_gpt.py $COMMON "$@"
}

for size in 1 2; do
    run $size --global-batch-size $((size * 8)) --tensor-model-parallel-size $size
done

CMD="python pretrain_gpt.py ${COMMON} --global-batch-size 64"
sbatch <<EOF
#!/bin/bash
srun --nodes=${NODES} --ntasks-per-node=8 --container-image=image.sqsh bash -c "${CMD} --num-experts 8 --expert-model-parallel-size 8"
EOF
bash ./after.sh --report
