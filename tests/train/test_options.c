/* test_options.c - an option on equals the option off, over layouts and families: gradients of the
 * first step, weights and losses of five, to the bit, or as near as its sums in another order are.
 *
 * A row says what turns an option on; what it promises to leave alone is looked at in every layout
 * of the list in which it is legal, on or off. An option that changes no program is one that nobody
 * hears: that fails, too. `make test` looks at one combination in four, MOEFOLD_LAYOUTS=all at
 * all. */
#include "train/layout_rig.c"

#include "guard/layouts_testing.h"
#include "train/bits_testing.h"

#define NAMES(list) OFFLOAD(list)
#define OURS        "cluster.gpu=H200 moefold.target=moefold moefold.device=cpu "
#define LOSSES                                                                                     \
    M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 " M                                     \
      "moe_router_load_balancing_type=aux_loss " M "should_pad_vocab=false "                       \
      "moefold.moe_buffer_factor=64 "
#define DROPS  M "moe_expert_capacity_factor=0.75 "
#define GRAPHS M "cuda_graph_impl="
#define CHUNKS "moefold.sequence_chunks=3 "
#define GROUPS "moefold.attention_head_groups=2 "
#define PACKED "moefold.pack_step=true "
#define APART  "moefold.pack_step=false "

typedef struct option {
    const char *name, *on, *off; /* off: what the other run has instead */
    const char *both;            /* without which it is not heard */
    const char *device;          /* of the run with it; NULL: the CPU */
    double limit;                /* of gradients, weights and losses; 0: the same to the bit */
    double sinks;                /* the same of models with attention sinks, where it is larger */
} option;

static const option options[] = {
    {"recompute of modules", .on = SOME},
    {"recompute of MLPs", .on = MLPS},
    {"recompute of whole layers", .on = FULL},
    {"recompute of some layers", .on = BLOCK},
    {"offload of all activations", .on = NAMES("core_attn,attn_proj,expert_fc1,moe_act,attn_norm,"
                                               "mlp_norm,qkv_linear")},
    {"offload of some", .on = NAMES("core_attn,attn_proj,moe_act")},
    {"offload beside recompute", .on = NAMES("expert_fc1"), .both = SOME},
    /* Sums of sinks' gradients are added to the weight's at the end of a layer, not one by one. */
    {"heads in groups", .on = GROUPS, .sinks = 1e-6},
    {"the sequence in chunks", .on = CHUNKS, .limit = 3e-5},
    {"fused kinds", .on = "moefold.fusion=[qkv,add_norm,norm_back] ", .off = "moefold.fusion=[] "},
    {"packing of the whole step", .on = PACKED, .off = APART},
    {"packing beside recompute", .on = PACKED, .off = APART, .both = FULL},
    {"packing beside chunks", .on = PACKED, .off = APART, .both = MLPS CHUNKS},
    {"packing beside groups of heads", .on = PACKED, .off = APART, .both = GROUPS},
    {"graphs of modules",
     .on = GRAPHS "transformer_engine " M "cuda_graph_modules=[attn,moe_router] ", .both = OURS},
    {"graphs of the whole step", .on = GRAPHS "full_iteration ", .both = OURS},
    {"late gathers of weights", .on = DP_ASYNC, .off = REDUCE_ASYNC},
    {"reductions beside backward", .on = "ddp.overlap_grad_reduce=true ",
     .both = "ddp.bucket_size=8000 "},
    {"EP communication beside compute", .on = EP_ASYNC, .limit = 1e-5},
    {"delayed weight gradients", .on = EP_ASYNC DELAYED, .off = EP_ASYNC},
    {"shared experts beside dispatch", .on = SHARED_ASYNC},
    {"products in chunks beside TP", .on = SP TP_ASYNC, .off = SP, .limit = 1e-5},
    {"streams that run late", .on = "", .device = "deferred:3"},
    {"ranks that move their messages", .on = "", .device = "peers"},
    {"the same, staged and late", .on = "", .device = "peers:late=5"},
};

static const char *const layouts[] = {
    RANKS(1),
    DROPS "train.micro_batch_size=2 " RANKS(1),
    EP2 A2A RANKS(2),
    EP4 DEEPEP RANKS(4),
    TP2 EP2 ETP1 GATHER RANKS(2),
    CP2 ULYSSES EP2 A2A RANKS(2),
    PP2 VPP2 EP2 A2A RANKS(4),
    PP2 CP2 EP2 HYBRIDEP RANKS(4),
    TP2 RANKS(2),
};
enum { N_OPTIONS = sizeof options / sizeof *options, N_LAYOUTS = sizeof layouts / sizeof *layouts };

static uint64_t mixed(uint64_t h, int64_t x)
{
    return (h ^ (uint64_t)x) * 0x100000001b3u;
}

/* Of what rank 0 does in a step: kinds, streams and sizes of its memory. */
static uint64_t shape_of_program(const char *folder, const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    uint64_t h = 0xcbf29ce484222325u;
    setup_of_words(s, a, folder, common_words(a, words));
    program_build(p, s, 0, a);
    h = mixed(mixed(h, p->arena_bytes), p->host_bytes);
    h = mixed(h,
              (int64_t)s->j.graphs + 10 * p->gathers_late + 20 * p->posts_early + 40 * p->packed);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++)
                h = mixed(mixed(h, it->seg->ops[it->phase][k].kind),
                          it->seg->ops[it->phase][k].stream);
        }
    return h;
}

static double apart(const char *x, const char *y, int64_t bytes)
{
    const float *p = (const float *)x, *q = (const float *)y;
    double d = 0, n = 0;
    for (int64_t i = 0; i < bytes / 4; i++) {
        d += ((double)p[i] - q[i]) * ((double)p[i] - q[i]);
        n += (double)p[i] * p[i];
    }
    return sqrt(d / (n + 1e-300));
}

/* Where arrays lie in another order (buckets), losses speak for them. */
static double apart_most(const bits *x, const bits *y)
{
    double most = 0;
    for (int i = 0; i < RIG_STEPS; i++) most = fmax(most, fabs(y->g.loss[i] / x->g.loss[i] - 1));
    if (x->n_gradients == y->n_gradients)
        most = fmax(most, apart(x->gradients, y->gradients, x->n_gradients));
    if (x->n_weights == y->n_weights)
        most = fmax(most, apart(x->weights, y->weights, x->n_weights));
    return most;
}

/* Which token an expert drops at its capacity is a choice, and may hang on the order of a sum:
 * where it flips after an update, losses were 1.8e-5 to 1.8e-4 apart. */
static double limit_of(const option *o, const char *folder, const char *words)
{
    double limit = strstr(folder, "gpt-oss") ? fmax(o->limit, o->sinks) : o->limit;
    return limit > 0 && strstr(words, DROPS) ? 1e-3 : limit;
}

static void compare(const option *o, const char *folder, const char *on, const char *off, arena *a)
{
    static bits is[RIG_RANKS_MAX], was[RIG_RANKS_MAX];
    double limit = limit_of(o, folder, on);
    int n = run_bits(was, folder, common_words(a, off));
    if (o->device) setenv("MOEFOLD_DEVICE", o->device, 1);
    run_bits(is, folder, common_words(a, on));
    unsetenv("MOEFOLD_DEVICE");
    for (int i = 0; i < n; i++) {
        double far = same_bits(&was[i], &is[i]) ? 0 : apart_most(&was[i], &is[i]);
        if (!(far <= limit) || !(is[i].g.loss[0] > 0))
            fail_msg("%s, %s %s: rank %d is %g apart from the run without", o->name, folder, on, i,
                     far);
    }
    free_bits(was, n), free_bits(is, n);
}

static void an_option_changes_no_result(void **state)
{
    (void)state;
    const char *asked = getenv("MOEFOLD_LAYOUTS"), *only = getenv("MOEFOLD_OPTION");
    bool all = asked && strcmp(asked, "all") == 0;
    for (int k = 0; k < N_OPTIONS; k++) {
        const option *o = &options[k];
        int ran = 0, heard = 0, legal = 0;
        if (only && !strstr(o->name, only)) continue;
        for (int c = 0; c < N_FAMILY_CASES; c++)
            for (int l = 0; l < N_LAYOUTS; l++) {
                arena *a = arena_create();
                const char *both = arena_text(a, LOSSES "%s%s", layouts[l], o->both ? o->both : "");
                const char *on = arena_text(a, "%s%s", both, o->on);
                const char *off = arena_text(a, "%s%s", both, o->off ? o->off : "");
                bool fits =
                    rig_is_legal(family_cases[c], on, a) && rig_is_legal(family_cases[c], off, a);
                bool changes = fits && (o->device || shape_of_program(family_cases[c], on, a) !=
                                                         shape_of_program(family_cases[c], off, a));
                legal += fits, heard += changes;
                if (changes && (all || (heard + k) % 4 == 0)) {
                    compare(o, family_cases[c], on, off, a);
                    ran++;
                }
                arena_destroy(a);
            }
        if (ran < 2) fail_msg("%s: legal in %d layouts, heard in %d", o->name, legal, heard);
        print_message("%-42s %2d of %2d layouts\n", o->name, ran, heard);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_option_changes_no_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
