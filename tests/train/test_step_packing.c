/* Packed steps: every buffer has its place between its first and its last operation, and gradients
 * lend theirs until they are written.
 *
 * What is planned is used; and, told by another hand than the packer's, no operation finds a buffer
 * of which somebody has taken a byte. That nothing computed changes by a bit: test_options.c. */
#include "train/chunks_testing.h"

#include "ir/target.h"

#define PACKED "moefold.pack_step=true "
#define PLAIN  "moefold.pack_step=false "
#define ONE    "cluster.n_gpus=1 train.micro_batch_size=8 "
#define NORMS  M "recompute_granularity=selective " M "recompute_modules=[layernorm,moe_act] "
#define H200                                                                                       \
    "cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold optimizer.optimizer=none " EVEN
#define BLOCKS  "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed "
#define OVERLAP "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true "

static const char *const kinds[] = {
    ONE,
    ONE FULL,
    ONE MOE,
    ONE NORMS,
    ONE CHUNKS MOE,
    ONE GROUPS,
    ONE DROPS,
    MOE "cluster.n_gpus=1 train.micro_batch_size=2 ", /* several microbatches */
    EP2 A2A "cluster.n_gpus=2 train.micro_batch_size=4 ",
    EP2 A2A CHUNKS FULL "cluster.n_gpus=2 train.micro_batch_size=2 ",
    EP4 DEEP "cluster.n_gpus=4 train.micro_batch_size=2 ",
    EP2 AG OVERLAP NORMS "cluster.n_gpus=4 ",
    TP2 ETP1 EP2 A2A "cluster.n_gpus=2 train.micro_batch_size=8 ",
    TP2 CP2 "cluster.n_gpus=4 train.micro_batch_size=8 ",
    CP2 ULY EP2 A2A "cluster.n_gpus=2 ",
    OVERLAP "cluster.n_gpus=2 train.micro_batch_size=4 ",
    ONE "optimizer.optimizer=none ",
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- bytes */

static void planned_bytes_are_used(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int k = 0; k < N_KINDS; k++) {
            const char *words = arena_text(a, EVEN PACKED LOSSES "%s", kinds[k]);
            if (strstr(words, DROPS) || !rig_is_legal(family_cases[c], words, a)) continue;
            if (k > 2 && (c + k) % 2) continue;
            assert_all_used(family_cases[c], words);
            ran++;
        }
    assert_true(ran >= 20);
    arena_destroy(a);
}

/* A program of which the planner knows the sizes. */
static program *planned(const char *name, const char *words, arena *a)
{
    program *p = built(name, words, a);
    program_size *sizes = ARENA_ARRAY(a, program_size, p->s->pipe.pp);
    program_sizes(sizes, p->s, a);
    assert_int_equal(sizes[0].arena_bytes, p->arena_bytes);
    assert_memory_equal(sizes[0].bytes, p->bytes, sizeof p->bytes);
    return p;
}

typedef struct goal {
    const char *model, *words;
    double gib;
} goal;

#define QWEN M "num_layers=4 " M "max_position_embeddings=131072 "
#define DEEPSEEK                                                                                   \
    M "num_layers=3 " M "moe_layer_freq=[0,1,1] " M "num_moe_experts=32 " M "mtp_num_layers=0 " M  \
      "moe_router_num_groups=null " M "moe_router_group_topk=null "
#define BATCH(b, s)                                                                                \
    "train.micro_batch_size=" b " train.global_batch_size=" b " " M "seq_length=" s " "

static const goal goals[] = {
    {"qwen3-30b-a3b", QWEN BATCH("8", "4096"), 33},
    {"qwen3-30b-a3b", QWEN BATCH("1", "32768"), 33},
    {"qwen3-30b-a3b", QWEN BATCH("1", "65536"), 52},
    {"qwen3-30b-a3b", QWEN BATCH("8", "4096") BLOCKS, 37},
    {"qwen3-30b-a3b", QWEN BATCH("8", "4096") NORMS, 33},
    {"deepseek-v3", DEEPSEEK BATCH("4", "4096"), 50},
    {"deepseek-v3", DEEPSEEK BATCH("1", "32768"), 70},
};

static void long_steps_are_within_their_goals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++) {
        arena *a = arena_create();
        const goal *g = &goals[i];
        const program *off = planned(g->model, arena_text(a, H200 PLAIN "%s", g->words), a);
        const program *on = planned(g->model, arena_text(a, H200 PACKED "%s", g->words), a);
        double gib = (double)on->arena_bytes / (1 << 30);
        assert_true(on->packed && !off->packed);
        if (gib > g->gib || on->arena_bytes >= off->arena_bytes)
            fail_msg("%s %s: %.2f GiB", g->model, g->words, gib);
        assert_true(on->bytes[REGION_SAVED] >= on->saved_live);
        assert_true((on->bytes[REGION_SAVED] - on->saved_live) * 20 <= on->arena_bytes);
        arena_destroy(a);
    }
}

/* ---- who owns which byte */

typedef struct owned {
    int64_t start, end, owner;
} owned;

typedef struct owners {
    owned *list;
    int64_t n, room;
    arena *a;
} owners;

/* From now on these bytes are the owner's. */
static void claim(owners *w, int64_t start, int64_t end, int64_t owner)
{
    owned *old = w->list;
    int64_t n = w->n;
    w->list = ARENA_RAW(w->a, owned, 2 * n + 2);
    w->n = 0;
    for (int64_t i = 0; i < n; i++) {
        if (old[i].start < start)
            w->list[w->n++] =
                (owned){old[i].start, old[i].end < start ? old[i].end : start, old[i].owner};
        if (old[i].end > end)
            w->list[w->n++] =
                (owned){old[i].start > end ? old[i].start : end, old[i].end, old[i].owner};
    }
    w->list[w->n++] = (owned){start, end, owner};
}

static bool owns(const owners *w, int64_t start, int64_t end, int64_t owner)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < w->n; i++) {
        const owned *x = &w->list[i];
        int64_t from = x->start > start ? x->start : start, to = x->end < end ? x->end : end;
        if (x->owner == owner && to > from) bytes += to - from;
    }
    return bytes == end - start;
}

/* A buffer by itself: of an instance where it is saved, of an item where it is a temporary, of the
 * model where it is a gradient. */
static int64_t owner_of(const program *p, const item *it, int64_t item_id, int id)
{
    enum { BUFS = 4096, INSTANCES = 64 };
    const buf *b = &it->seg->bufs[id];
    int64_t own = it->at[0].instance + it->at[0].micro * INSTANCES;
    switch (b->life) {
    case LIFE_TEMP:
        return (1 << 30) + item_id * BUFS + id;
    case LIFE_SAVED:
        return 1 + own * BUFS + id;
    case LIFE_OUTPUT:
        return 1 + (own + 1) * BUFS;
    case LIFE_GRADIENT:
        return ((int64_t)1 << 40) + program_place(p, it, id);
    default:
        return -1;
    }
}

typedef struct replay {
    const program *p;
    owners bytes;
    int checked;
} replay;

/* State and what a step works in are allocations of their own, with nothing between their places:
 * without an optimizer, gradients are the last of the one and saved buffers the first of the
 * other. */
static bool is_in_one(const program *p, int64_t start, int64_t end)
{
    const int64_t cut = p->offset[REGION_SAVED];
    return start >= 0 && end <= p->arena_bytes && (end <= cut || start >= cut);
}

static void touch_buffer(replay *w, const item *it, int64_t item_id, int used, bool first)
{
    if (used < 0) return;
    int id = seg_root(it->seg, used);
    int64_t owner = owner_of(w->p, it, item_id, id), at = program_place(w->p, it, id);
    if (owner < 0) return;
    int64_t end = at + it->seg->bufs[id].bytes;
    if (!is_in_one(w->p, at, end))
        fail_msg("%s of %s lies across two allocations", it->seg->bufs[id].name, it->seg->name);
    if (first) claim(&w->bytes, at, end, owner);
    if (!owns(&w->bytes, at, end, owner))
        fail_msg("%s of %s has lost bytes", it->seg->bufs[id].name, it->seg->name);
    w->checked++;
}

/* Is it the first operation of the step that touches this buffer? */
static bool is_first(const replay *w, const item *it, int64_t item_id, int used)
{
    if (used < 0) return false;
    int64_t owner = owner_of(w->p, it, item_id, seg_root(it->seg, used));
    for (int64_t i = 0; i < w->bytes.n; i++)
        if (w->bytes.list[i].owner == owner) return false;
    return owner >= 0;
}

static void replay_op(replay *w, const item *it, int64_t item_id, int k)
{
    const op *o = &it->seg->ops[it->phase][k];
    const bool writes = o->flags & OVERWRITE;
    int64_t room = workspace_bytes(target_row_of(w->p->s), it->seg, o);
    for (int i = 0; i < OP_IN_MAX; i++) touch_buffer(w, it, item_id, o->in[i], false);
    for (int i = 0; i < OP_OUT_MAX; i++) {
        bool gradient = o->out[i] >= 0 && it->seg->bufs[o->out[i]].life == LIFE_GRADIENT;
        bool begins = gradient ? writes : is_first(w, it, item_id, o->out[i]);
        touch_buffer(w, it, item_id, o->out[i], begins);
    }
    if (!room) return;
    assert_true(is_in_one(w->p, it->work[k], it->work[k] + room));
    claim(&w->bytes, it->work[k], it->work[k] + room, 0);
    for (int i = 0; i < OP_IN_MAX; i++) touch_buffer(w, it, item_id, o->in[i], false);
    for (int i = 0; i < OP_OUT_MAX; i++) touch_buffer(w, it, item_id, o->out[i], false);
}

/* Gradients that begin as zeros are there from the start. */
static void claim_zeros(replay *w)
{
    const item_list *l = &w->p->items[PART_STEP];
    for (int64_t i = 0; i < l->n; i++) {
        const item *it = &l->list[i];
        bool *written = ARENA_ARRAY(w->bytes.a, bool, it->seg->n_bufs);
        for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
            const op *o = &it->seg->ops[it->phase][k];
            for (int j = 0; j < OP_OUT_MAX; j++) {
                int id = o->out[j];
                if (id < 0 || it->seg->bufs[id].life != LIFE_GRADIENT) continue;
                if (o->flags & OVERWRITE) written[id] = true;
                if (written[id]) continue;
                int64_t at = program_place(w->p, it, id);
                claim(&w->bytes, at, at + it->seg->bufs[id].bytes, owner_of(w->p, it, i, id));
            }
        }
    }
}

static int replay_step(const program *p, arena *a)
{
    replay w = {.p = p, .bytes = {.a = a}};
    const item_list *l = &p->items[PART_STEP];
    claim_zeros(&w);
    for (int64_t i = 0; i < l->n; i++)
        for (int k = 0; k < l->list[i].seg->n_ops[l->list[i].phase]; k++)
            replay_op(&w, &l->list[i], i, k);
    for (int64_t i = 0; i < l->n; i++) /* and all gradients are whole at the end */
        for (int id = 0; id < l->list[i].seg->n_bufs; id++)
            if (l->list[i].seg->bufs[id].life == LIFE_GRADIENT && l->list[i].phase == SEG_BACKWARD)
                touch_buffer(&w, &l->list[i], i, id, false);
    return w.checked;
}

static void no_buffer_loses_a_byte_while_it_lives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++) {
        arena *a = arena_create();
        program *p = planned(goals[i].model, arena_text(a, H200 PACKED "%s", goals[i].words), a);
        assert_true(replay_step(p, a) > 300);
        arena_destroy(a);
    }
}

/* ---- where less is to be had, and nothing */

static void later_microbatches_have_the_places_of_the_first(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *more = QWEN BATCH("1", "4096") "train.global_batch_size=3 ";
    const program *off = planned("qwen3-30b-a3b", arena_text(a, H200 PLAIN "%s", more), a);
    const program *on = planned("qwen3-30b-a3b", arena_text(a, H200 PACKED "%s", more), a);
    assert_true(on->packed && on->arena_bytes < off->arena_bytes);
    assert_true(replay_step(on, a) > 900);
    arena_destroy(a);
}

static void stages_stay_in_regions(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *two = arena_text(a, H200 "%s", QWEN BATCH("1", "4096") PP2 "cluster.n_gpus=2 ");
    const program *off = planned("qwen3-30b-a3b", two, a);
    const program *on = planned("qwen3-30b-a3b", arena_text(a, PACKED "%s", two), a);
    assert_false(on->packed);
    assert_int_equal(on->arena_bytes, off->arena_bytes);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_bytes_are_used),
        cmocka_unit_test(long_steps_are_within_their_goals),
        cmocka_unit_test(no_buffer_loses_a_byte_while_it_lives),
        cmocka_unit_test(later_microbatches_have_the_places_of_the_first),
        cmocka_unit_test(stages_stay_in_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
