#!/bin/bash
# a script's array
MODEL_ARGS=(
    --num-layers 4 \
    --hidden-size=64
    --recompute-granularity selective
    --recompute-modules moe_act layernorm
    --data-path "a b" 'c'
)
