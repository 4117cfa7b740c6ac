/* test_space.c - what the space of a search leaves out is what rules forbid: over random jobs and
 * layouts, each layout that is left out breaks a rule that says ERROR, or cannot be laid out. */
#include "plan/searching.h"

#include "plan/search_space.h"

static uint64_t state_of_random = 20261119;

/* As a search asks, level by level; NULL: it is in the space. */
static const char *left_out_by(const space *s, const choice *c)
{
    return !space_dense_ok(s, c)     ? "dense"
           : !space_kind_ok(s, c)    ? "kind"
           : !space_experts_ok(s, c) ? "experts"
           : !space_stages_ok(s, c)  ? "stages"
           : !space_inner_ok(s, c)   ? "inner"
                                     : NULL;
}

/* What a search does not try though no rule forbids it: it is slower, or runs as nobody wants. */
static bool is_not_tried(const space *s, const choice *c)
{
    const setup *base = choice_base(s->m, c->precision, c->tp);
    const dispatcher *d = choice_dispatcher(s->m, c);
    bool experts = base->m.moe->experts > 0;
    for (pick_id p = 0; p < PICKS; p++)
        if (c->pick[p] && !choice_may_pick(c, p, &base->j)) return true;
    if (c->ep * c->etp == 1 && c->to != TO_ALLTOALL) return true; /* nothing is dispatched */
    if (c->overlap == OVERLAP_SHARED &&
        (!experts || !base->m.moe->shared_ffn || !d->shared_overlap))
        return true;
    if (c->overlap == OVERLAP_WGRAD && c->ep == 1) return true;
    if (c->graphs == SCOPE_STEP && (c->offload || !space_captures_step(s, c))) return true;
    return c->graphs && c->drop & DROP_LAYERNORM && !d->norm_recompute;
}

static choice draw(const space *s)
{
    static const int sizes[] = {1, 1, 1, 2, 4, 8, 3, 16, 6};
    static const unsigned drops[] = {0, 0, DROP_LAYERNORM, DROP_MOE, DROP_MOE_ACT, DROP_FULL};
    const setup *base = choice_base(s->m, 0, 1);
    choice c = {.tp = DRAW(sizes), .cp = DRAW(sizes), .mbs = DRAW(sizes), .ep = 1, .etp = 1};
    bool experts = base->m.moe->experts > 0;
    c.ep = experts ? DRAW(sizes) : 1;
    c.etp = experts && searching_draw(&state_of_random, 3) == 0 ? DRAW(sizes) : 1;
    c.pp = DRAW(sizes);
    c.vpp = c.pp > 1 ? DRAW(sizes) : 1;
    c.kind = c.cp > 1 ? (cp_kind)searching_draw(&state_of_random, CP_KINDS) : CP_RING;
    c.to = experts ? (dispatch_choice)searching_draw(&state_of_random, TO_KINDS) : TO_ALLTOALL;
    c.overlap = experts ? (overlap_kind)searching_draw(&state_of_random, OVERLAP_KINDS) : 0;
    c.graphs = experts ? (graph_scope)searching_draw(&state_of_random, SCOPES) : SCOPE_NONE;
    c.drop = DRAW(drops) & (drop_of_model(&base->m) | DROP_FULL);
    c.offload = (int)searching_draw(&state_of_random, OFFLOAD_ALL + 1);
    return c;
}

/* A job of which nothing is pinned; the number of layouts that were left out. */
static int judge_job(const char *name, const char *chip, int gpus, int length)
{
    enum { LAYOUTS = 400 };
    arena *a = arena_create();
    const char *const words[] = {
        arena_text(a, "cluster.gpu=%s", chip), arena_text(a, "cluster.n_gpus=%d", gpus),
        arena_text(a, "model.seq_length=%d", length), "train.global_batch_size=768", NULL};
    const recipe *given = searching_recipe(name, words, a);
    choice_maker m;
    space s;
    int n = 0;
    choice_open(&m, given, a);
    m.precisions[m.n_precisions++] = J_PRECISION_BF16_MIXED;
    m.aware = true;
    space_init(&s, &m, false, NULL);
    assert_non_null(choice_base(&m, 0, 1));
    for (int i = 0; i < LAYOUTS; i++) {
        arena *own = arena_create();
        const choice c = draw(&s);
        const char *by = choice_base(&m, 0, c.tp) ? left_out_by(&s, &c) : NULL;
        recipe *r = ARENA_NEW(own, recipe);
        setup *t = ARENA_NEW(own, setup);
        error err = {{0}};
        const rule *broken[1];
        *r = *given;
        r->a = own;
        choice_set(r, &m, &c);
        if (by && !is_not_tried(&s, &c) && !setup_init(t, r, own, &err) && t->possible &&
            !t->pipe.why_not && !rules_errors(broken, 1, t, NULL, own))
            fail_msg("%s on %d %s at %d: %s %s drop %x overlap %d graphs %d offload %d: %s\n", name,
                     gpus, chip, length, choice_text(own, &c), choice_dispatcher_word(c.to), c.drop,
                     (int)c.overlap, (int)c.graphs, c.offload, by);
        n += by != NULL;
        arena_destroy(own);
    }
    arena_destroy(a);
    return n;
}

static void what_is_left_out_breaks_a_rule(void **state)
{
    (void)state;
    static const char *const models[] = {"qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b",
                                         "mixtral-8x7b",  "llama-3-70b", "qwen3-next-80b-a3b"};
    static const char *const chips[] = {"H100", "B200", "GB200", "A100"};
    static const int worlds[] = {16, 24, 64, 96}, lengths[] = {4096, 6144, 32768};
    int n = 0;
    for (int i = 0; i < 60; i++)
        n += judge_job(DRAW(models), DRAW(chips), DRAW(worlds), DRAW(lengths));
    assert_true(n > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_left_out_breaks_a_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
