/* step.c - tokens a second of forward and backward (no optimizer) of a Qwen3-MoE of 113 M
 * parameters.
 *
 *     step THREADS BATCH LENGTH [STEPS]
 *
 * Prints the fastest of STEPS (3) after a warm-up, and the plan's memory. bench/pytorch.sh runs it
 * beside PyTorch. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels/blas.h"
#include "train/data/batch.h"
#include "train/executor/init_weights.h"

static const char *const shape[] = {"cluster.gpu=cpu",
                                    "model.num_layers=6",
                                    "model.hidden_size=512",
                                    "model.num_attention_heads=8",
                                    "model.num_query_groups=4",
                                    "model.kv_channels=64",
                                    "model.num_moe_experts=16",
                                    "model.moe_router_topk=4",
                                    "model.moe_ffn_hidden_size=512",
                                    "model.vocab_size=32000",
                                    "model.qk_layernorm=true",
                                    "model.moe_aux_loss_coeff=0.0",
                                    "model.max_position_embeddings=1048576"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double one_step(executor *e, const program *p, const batch *b)
{
    double start = now();
    batch_load(e, p, 0, b, 0);
    executor_part(e, PART_BEGIN);
    executor_part(e, PART_STEP);
    executor_staging(e, STEP_GIVEN); /* waits for the device */
    return now() - start;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: step THREADS BATCH LENGTH [STEPS]\n");
        return ERR_INPUT;
    }
    int threads = atoi(argv[1]), steps = argc > 4 ? atoi(argv[4]) : 3;
    arena *a = arena_create();
    recipe *r = ARENA_NEW(a, recipe);
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    executor *e = NULL;
    error err = {{0}};
    recipe_init(r, a, "bench");
    status st = OK;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0] && !st; i++)
        st = recipe_override(r, shape[i], "bench", &err);
    const char *batch_words[] = {"train.micro_batch_size=", "train.global_batch_size="};
    for (int i = 0; i < 2 && !st; i++)
        st = recipe_override(r, arena_text(a, "%s%s", batch_words[i], argv[2]), "bench", &err);
    if (!st) st = recipe_override(r, arena_text(a, "model.seq_length=%s", argv[3]), "bench", &err);
    if (!st) st = setup_init(s, r, a, &err);
    if (!st) {
        program_build(p, s, 0, a);
        kernels_threads(threads);
        st = executor_open(&e, p, NULL, (executor_options){0}, &err);
    }
    if (st) {
        fprintf(stderr, "%s\n", err.text);
        return (int)st;
    }
    init_weights(s, &p->at, &p->weights, 1, executor_map(e, p->offset[REGION_WEIGHTS]));
    batch_tables(e, p);
    int32_t *ids = ARENA_ARRAY(a, int32_t, p->T);
    float *mask = ARENA_ARRAY(a, float, p->T);
    for (int64_t t = 0; t < p->T; t++) {
        ids[t] = (int32_t)((uint64_t)t * 2654435761u % 32000u);
        mask[t] = 1;
    }
    batch b = {ids, ids, mask};
    one_step(e, p, &b); /* warm-up, not counted; bench/pytorch.py does the same */
    double best = one_step(e, p, &b);
    for (int i = 1; i < steps; i++) {
        double t = one_step(e, p, &b);
        if (t < best) best = t;
    }
    printf("moefold %sx%s: %.0f tokens/s, %.2f GiB beside weights, gradients and optimizer\n",
           argv[2], argv[3], (double)p->T / best,
           (double)(p->bytes[REGION_SAVED] + p->bytes[REGION_BOUNDARY] + p->bytes[REGION_STEP] +
                    p->bytes[REGION_TEMP]) /
               1073741824.0);
    fprintf(stderr, "%s\n", blas_describe());
    executor_close(e);
    arena_destroy(a);
    return OK;
}
