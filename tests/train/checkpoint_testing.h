/* checkpoint_testing.h - a run whose state is saved and loaded. */
#ifndef TESTS_TRAIN_CHECKPOINT_TESTING_H
#define TESTS_TRAIN_CHECKPOINT_TESTING_H

#include "hf_testing.h"

#include <dirent.h>
#include <sys/wait.h>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/owner.h"

typedef struct run {
    loaded x;
    checkpoint c;
    const char *folder;
} run;

static inline void fill(run *r, uint64_t seed)
{
    for (int64_t i = 0; i < r->x.w.elements; i++) {
        uint32_t bits = draw_bits(&seed); /* any pattern: NaN, -0 and denormals too */
        memcpy(&r->c.weights[i], &bits, sizeof bits);
    }
    for (int64_t i = 0; i < r->x.w.trained; i++) {
        r->c.exp_avg[i] = draw_real(&seed);
        r->c.exp_avg_sq[i] = draw_real(&seed);
    }
}

static inline void run_init(run *r, const char *name, const char *overrides)
{
    loaded_init(&r->x, name, overrides);
    r->folder = scratch_make(r->x.a);
    r->c = (checkpoint){.s = r->x.s, .w = &r->x.w, .weights = r->x.flat};
    r->c.exp_avg = calloc((size_t)r->x.w.trained, sizeof(float));
    r->c.exp_avg_sq = calloc((size_t)r->x.w.trained, sizeof(float));
}

static inline void run_release(run *r)
{
    scratch_remove(r->folder);
    free(r->c.exp_avg);
    free(r->c.exp_avg_sq);
    loaded_release(&r->x);
}

static inline void save(run *r, int64_t iteration, int keep)
{
    r->c.state.iteration = iteration;
    if (checkpoint_save(&r->c, r->folder, keep, &r->x.err)) fail_msg("%s", r->x.err.text);
}

/* What files hold: not the padding between weights. */
static inline void same_weights(const run *a, const float *x, const float *y, bool trained)
{
    for (int i = 0; i < a->x.w.n; i++) {
        const weight *w = &a->x.w.list[i];
        if (trained && !w->row->trained) continue;
        assert_memory_equal(x + w->offset, y + w->offset, (size_t)w->n * sizeof *x);
    }
}

static inline void same_runs(const run *a, const run *b)
{
    same_weights(a, a->c.weights, b->c.weights, false);
    same_weights(a, a->c.exp_avg, b->c.exp_avg, true);
    same_weights(a, a->c.exp_avg_sq, b->c.exp_avg_sq, true);
    assert_memory_equal(&a->c.state, &b->c.state, sizeof a->c.state);
}

static inline const char *inside(run *r, int64_t iteration, const char *name)
{
    return arena_text(r->x.a, "%s/iter_%07" PRId64 "/%s", r->folder, iteration, name);
}

/* FOLDER/NAME.KIND-OWNER as a process of this machine that has ended would have called it. */
static inline const char *left_beside(run *r, const char *name, const char *kind)
{
    char path[1024] = "";
    int ends[2], child;
    assert_int_equal(pipe(ends), 0);
    if ((child = fork()) == 0) {
        const char *here =
            owner_beside(r->x.a, arena_text(r->x.a, "%s/%s", r->folder, name), kind, HELD_ALONE);
        _exit(write(ends[1], here, strlen(here) + 1) < 0);
    }
    assert_true(read(ends[0], path, sizeof path - 1) > 0);
    assert_true(waitpid(child, NULL, 0) == child);
    close(ends[0]);
    close(ends[1]);
    return arena_copy(r->x.a, path, strlen(path));
}

/* How many names in the folder have this part. */
static inline int count_names(const char *folder, const char *part)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    if (d) closedir(d);
    return n;
}

#define WEIGHTS "weights-00000-of-00001.safetensors"

static const char tiny[] =
    "model.num_layers=2 model.hidden_size=8 model.num_attention_heads=2 model.num_query_groups=1 "
    "model.kv_channels=4 model.vocab_size=12 model.num_moe_experts=2 model.moe_router_topk=1 "
    "model.moe_ffn_hidden_size=4 model.moe_router_enable_expert_bias=true "
    "model.moe_router_score_function=sigmoid";

#endif
