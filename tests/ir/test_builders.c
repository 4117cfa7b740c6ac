/* Dense modules under TP and CP: the lists of operations give what one rank gives. */
#include "lockstep.h"

static int64_t layer_of_case; /* which layer attention_alone builds */

/* Attention, then a dense MLP where the layer has one: a layer without experts. */
static void attention_alone(builder *b, segment *seg)
{
    int64_t size = b->T * b->s->m.hidden;
    segment_init(seg, b, SEGMENT_LAYER, b->s, b->a);
    b->module = MODULE_LAYER;
    b->layer = layer_of_case;
    const layer_kind *l = model_layer(&b->s->m, b->layer);
    bool dense = layer_block(l, BLOCK_MLP) != NULL;
    block_bufs t[2];
    int x = seg_saved(b, "x", size, 0), y = seg_other(b, "y", LIFE_OUTPUT, size);
    int h = dense ? seg_saved(b, "h", size, 0) : y;
    block_forward(b, &t[0], l->block[0], x, h);
    if (dense) block_forward(b, &t[1], l->block[1], h, y);
    int dh = seg_other(b, "dh", LIFE_DHIDDEN, size);
    if (dense) block_backward(b, &t[1], l->block[1], dh);
    block_backward(b, &t[0], l->block[0], dh);
}

#define SIZES   "model.seq_length=32 train.micro_batch_size=2 train.global_batch_size=2 "
#define TP(n)   "model.tensor_model_parallel_size=" #n " "
#define CP(n)   "model.context_parallel_size=" #n " "
#define N(n)    "cluster.n_gpus=" #n " "
#define KIND(k) "model.cp_comm_type=" #k " "
#define LEVELS(a, b)                                                                               \
    "model.cp_comm_type=a2a+p2p model.hierarchical_context_parallel_sizes=[" #a "," #b "] "

#define GOLDEN "tests/data/golden/"

static void compare(const lockstep *many, const lockstep *one, const lock_case *c)
{
    const double most = 3e-5;
    int64_t n = one->B * one->seq * one->H;
    double y = distance(many->y, one->y, n * c->out_parts);
    double dx = distance(many->dx, one->dx, n * c->in_parts);
    if (!(y < most)) fail_msg("%s %s: outputs are %g apart", c->model_name, c->words, y);
    if (!(dx < most)) fail_msg("%s %s: dx are %g apart", c->model_name, c->words, dx);
    for (int i = 0; i < one->s.params.n_rows; i++) {
        const param *row = &one->s.params.rows[i];
        double d = distance(many->gradients[i], one->gradients[i], param_elements(row));
        if (!(d < most))
            fail_msg("%s %s: gradients of %s are %g apart", c->model_name, c->words, row->name, d);
    }
    for (int i = 0; i < 2; i++)
        if (!(fabs(many->loss[i] - one->loss[i]) <= 1e-5 * fabs(one->loss[i])))
            fail_msg("%s: losses %g, %g", c->words, many->loss[i], one->loss[i]);
}

/* One rank against each of the layouts. */
static void equal_one_rank(lock_case c, const char *const *layouts, int n)
{
    arena *a = arena_create();
    unsigned drop = c.drop;
    const char *own = c.words ? c.words : "";
    c.words = arena_text(a, SIZES N(1) "%s", own);
    c.drop = 0;
    const lockstep *one = lockstep_run(a, &c);
    c.drop = drop;
    for (int i = 0; i < n; i++) {
        arena *b = arena_create();
        c.words = arena_text(b, SIZES "%s%s", own, layouts[i]);
        compare(lockstep_run(b, &c), one, &c);
        arena_destroy(b);
    }
    arena_destroy(a);
}

#define COUNT(list) (int)(sizeof(list) / sizeof(list)[0])

#define OVERLAP "comm_overlap.tp_comm_overlap=true "
#define LATENT  "moefold.mla_latent_ring=true "

static void layer_equals(const char *name, int64_t layer, unsigned drop, const char *const *layouts,
                         int n)
{
    layer_of_case = layer;
    equal_one_rank((lock_case){name, NULL, attention_alone, drop, 1, 1}, layouts, n);
}

/* The same with options of the model. */
static void option_equals(const char *name, const char *words, const char *const *layouts, int n)
{
    layer_of_case = 1;
    equal_one_rank((lock_case){name, words, attention_alone, 0, 1, 1}, layouts, n);
}

static const char *const two_groups[] = {
    TP(2) N(2),
    TP(2) N(2) OVERLAP,
    CP(2) N(2) KIND(p2p),
    CP(4) N(4) KIND(p2p),
    CP(2) N(2) KIND(all_gather),
    CP(4) N(4) KIND(all_gather),
    CP(2) N(2) KIND(a2a),
    CP(4) N(4) LEVELS(2, 2),
    CP(8) N(8) LEVELS(2, 4),
    TP(2) CP(2) N(4) KIND(p2p),
    TP(2) CP(2) N(4) KIND(all_gather),
    TP(4) N(4),
    TP(4) N(4) OVERLAP,
    TP(4) CP(2) N(8) KIND(p2p),
};

static void grouped_queries_equal_one_rank(void **state)
{
    (void)state;
    layer_equals(GOLDEN "qwen3-moe-tiny", 0, 0, two_groups, COUNT(two_groups));
    layer_equals(GOLDEN "mixtral-tiny", 1, 0, two_groups, COUNT(two_groups));
}

static void gated_queries_equal_one_rank(void **state)
{
    (void)state;
    layer_equals(GOLDEN "qwen3-next-tiny", 3, 0, two_groups, COUNT(two_groups));
}

static void sinks_and_windows_equal_one_rank(void **state)
{
    (void)state;
    static const char *const layouts[] = {TP(2) N(2), TP(4) N(4), TP(2) N(2) OVERLAP,
                                          CP(2) N(2) KIND(a2a)};
    for (int64_t layer = 0; layer < 2; layer++)
        layer_equals(GOLDEN "gpt-oss-tiny", layer, 0, layouts, COUNT(layouts));
}

static const char *const four_heads[] = {
    TP(2) N(2),
    TP(4) N(4) OVERLAP,
    CP(2) N(2) KIND(p2p),
    CP(4) N(4) KIND(all_gather),
    CP(4) N(4) KIND(a2a),
    CP(4) N(4) LEVELS(2, 2),
    CP(4) N(4) KIND(p2p) LATENT,
    TP(2) CP(2) N(4) KIND(p2p),
    TP(2) CP(2) N(4) KIND(a2a),
    TP(2) CP(2) N(4) KIND(p2p) LATENT,
    TP(2) CP(2) N(4) KIND(p2p) LATENT OVERLAP,
    TP(2) CP(4) N(8) LEVELS(2, 2),
};

static void latent_attention_equals_one_rank(void **state)
{
    (void)state;
    layer_equals(GOLDEN "deepseek-v3-tiny", 0, 0, four_heads, COUNT(four_heads)); /* dense MLP */
    layer_equals(GOLDEN "deepseek-v3-tiny", 1, 0, four_heads, COUNT(four_heads));
}

/* Without a latent for queries their GEMM adds to the gradient that the keys' left. */
static void full_queries_equal_one_rank(void **state)
{
    (void)state;
    option_equals(GOLDEN "deepseek-v3-tiny", "model.q_lora_rank=null ", four_heads,
                  COUNT(four_heads));
}

static void windows_go_round(void **state)
{
    (void)state;
    option_equals(GOLDEN "mixtral-tiny", "model.window_size=[5,0] ", two_groups, COUNT(two_groups));
}

static void layers_may_differ_in_kind(void **state)
{
    (void)state;
    static const char *const layouts[] = {CP(2) N(2) "model.cp_comm_type=[p2p,a2a,p2p,p2p] ",
                                          CP(2)
                                              N(2) "model.cp_comm_type=[a2a,all_gather,a2a,a2a] "};
    static const op_kind kinds[] = {OP_ALL_TO_ALL, OP_ALL_GATHER};
    layer_equals(GOLDEN "qwen3-moe-tiny", 1, 0, layouts, COUNT(layouts));
    for (int i = 0; i < 2; i++) {
        arena *a = arena_create();
        lock_case c = {GOLDEN "qwen3-moe-tiny", NULL, attention_alone, 0, 1, 1};
        c.words = arena_text(a, SIZES "%s", layouts[i]);
        const segment *seg = &lockstep_run(a, &c)->ranks[0].seg;
        bool found = false;
        for (int k = 0; k < seg->n_ops[0]; k++) found |= seg->ops[0][k].kind == kinds[i];
        assert_true(found);
        arena_destroy(a);
    }
}

static void delta_net_equals_one_rank(void **state)
{
    (void)state;
    static const char *const layouts[] = {TP(2) N(2), CP(2) N(2), TP(2) N(2) OVERLAP};
    layer_equals(GOLDEN "qwen3-next-tiny", 0, 0, layouts, COUNT(layouts));
}

/* What is dropped is made again, messages included. */
static void recompute_changes_nothing(void **state)
{
    (void)state;
    static const unsigned drops[] = {DROP_CORE_ATTN, DROP_LAYERNORM,    DROP_MLA_UP_PROJ,
                                     DROP_MLP,       DROP_GDN_NORM_OUT, DROP_FULL};
    static const char *const linear[] = {TP(2) N(2), CP(2) N(2)};
    for (int i = 0; i < COUNT(drops); i++) {
        layer_equals(GOLDEN "deepseek-v3-tiny", 0, drops[i], four_heads, COUNT(four_heads));
        layer_equals(GOLDEN "qwen3-next-tiny", 3, drops[i], two_groups, COUNT(two_groups));
        layer_equals(GOLDEN "qwen3-next-tiny", 0, drops[i], linear, COUNT(linear));
    }
}

/* ---- embedding, head, prediction module */

static const char *const any_layouts[] = {TP(2) N(2), TP(2) N(2) OVERLAP, CP(2) N(2),
                                          TP(2) CP(2) N(4), TP(4) CP(2) N(8)};

static void embedding_and_head_equal_one_rank(void **state)
{
    (void)state;
    const lock_case cases[] = {{GOLDEN "qwen3-moe-tiny", NULL, build_embedding, 0, 0, 1},
                               {GOLDEN "qwen3-moe-tiny", NULL, build_head, 0, 1, 0},
                               {GOLDEN "mtp-tiny", NULL, build_final, 0, 1, 1},
                               {GOLDEN "mtp-tiny", NULL, build_head, 0, 2, 0}};
    for (int i = 0; i < COUNT(cases); i++)
        equal_one_rank(cases[i], any_layouts, COUNT(any_layouts));
}

/* More rows than one chunk of logits has, and a last chunk with fewer. */
static void large_vocabulary_equals_one_rank(void **state)
{
    (void)state;
    static const char *const layouts[] = {TP(2) N(2)};
    equal_one_rank(
        (lock_case){GOLDEN "qwen3-moe-tiny", "model.vocab_size=100000 ", build_head, 0, 1, 0},
        layouts, 1);
}

/* The prediction module, with a dense layer. */
static void prediction_module_equals_one_rank(void **state)
{
    (void)state;
    lock_case c = {GOLDEN "mtp-tiny", "model.moe_layer_freq=[0,0,0] ", build_mtp, 0, 1, 2};
    equal_one_rank(c, any_layouts, COUNT(any_layouts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grouped_queries_equal_one_rank),
        cmocka_unit_test(gated_queries_equal_one_rank),
        cmocka_unit_test(sinks_and_windows_equal_one_rank),
        cmocka_unit_test(latent_attention_equals_one_rank),
        cmocka_unit_test(full_queries_equal_one_rank),
        cmocka_unit_test(windows_go_round),
        cmocka_unit_test(layers_may_differ_in_kind),
        cmocka_unit_test(delta_net_equals_one_rank),
        cmocka_unit_test(embedding_and_head_equal_one_rank),
        cmocka_unit_test(large_vocabulary_equals_one_rank),
        cmocka_unit_test(prediction_module_equals_one_rank),
        cmocka_unit_test(recompute_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
