/* Every pair of conflicting accesses of a program is ordered by its WAITs: two steps of every rank
 * of many layouts, on streams that know nothing of each other. A WAIT less is noticed. */
#include "ir/testing.h"

#include "predict/audit/audit.h"
#include "predict/audit/order_check.h"
#include "config/models/models.h"
#include "rules/rules.h"

/* WAITs that are taken out. */
static struct {
    const op *wait;
    const item *it;   /* in this item alone; NULL: wherever it stands */
    unsigned streams; /* bits: all of these */
} deaf;

bool planted_deaf(const op *wait, const item *it)
{
    if (deaf.streams >> wait->stream & 1) return true;
    return wait == deaf.wait && (!deaf.it || deaf.it == it);
}

#define M       "model."
#define TP2     " " M "tensor_model_parallel_size=2"
#define CP2     " " M "context_parallel_size=2"
#define PP2     " " M "pipeline_model_parallel_size=2"
#define PP4     " " M "pipeline_model_parallel_size=4"
#define VPP2    " " M "virtual_pipeline_model_parallel_size=2"
#define EP2     " " M "expert_model_parallel_size=2"
#define EP4     " " M "expert_model_parallel_size=4"
#define ETP1    " " M "expert_tensor_parallel_size=1"
#define ETP2    " " M "expert_tensor_parallel_size=2"
#define A2A     " " M "moe_token_dispatcher_type=alltoall"
#define GATHER  " " M "moe_token_dispatcher_type=allgather"
#define FLEX    " " M "moe_token_dispatcher_type=flex " M "moe_flex_dispatcher_backend="
#define GPUS    " cluster.n_gpus="
#define GBS     " train.global_batch_size="
#define EP_PAIR " comm_overlap.overlap_moe_expert_parallel_comm=true"
#define DELAY   " comm_overlap.delay_wgrad_compute=true"
#define P2P     " comm_overlap.overlap_p2p_comm=true"
#define BESIDE  " ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=3000"
#define WHOLE   " ddp.use_distributed_optimizer=false"
#define OFFLOAD                                                                                    \
    " " M "fine_grained_activation_offloading=true " M "min_offloaded_tensor_size=0 " M            \
    "offload_modules=[core_attn,attn_proj,expert_fc1,moe_act,attn_norm,mlp_norm,qkv_linear]"
#define FULL                                                                                       \
    " " M "recompute_granularity=full " M "recompute_method=uniform " M "recompute_num_layers=1"
#define SOME                                                                                       \
    " " M "recompute_granularity=selective " M "recompute_modules=[core_attn,layernorm,moe_act]"

static const char *const layouts[] = {
    GPUS "1" GBS "4",
    TP2 EP2 ETP1 GPUS "4" GBS "4" A2A,
    TP2 GPUS "4" GBS "4" BESIDE " comm_overlap.tp_comm_overlap=true",
    CP2 EP2 GPUS "4" GBS "4" GATHER BESIDE,
    CP2 GPUS "2" GBS "2 " M "cp_comm_type=[all_gather]",
    CP2 GPUS "2" GBS "2 " M "cp_comm_type=[a2a]",
    TP2 CP2 EP4 ETP1 PP2 GPUS "8" GBS "4" A2A,
    PP2 GPUS "4" GBS "8" P2P BESIDE,
    PP2 GPUS "4" GBS "8" WHOLE " ddp.overlap_grad_reduce=true",
    PP2 VPP2 EP2 GPUS "4" GBS "8" P2P A2A EP_PAIR BESIDE,
    EP2 GPUS "2" GBS "8" A2A EP_PAIR DELAY,
    PP2 VPP2 EP2 GPUS "4" GBS "8" A2A EP_PAIR DELAY " " M
                      "ep_overlap_early_attn_memory_release=true",
    PP4 VPP2 GPUS "4" GBS "8",
    PP4 VPP2 GPUS "4" GBS "8 comm_overlap.overlap_p2p_comm=false",
    PP2 VPP2 GPUS "2" GBS "12 " M "microbatch_group_size_per_vp_stage=6",
    PP4 VPP2 GPUS "4" GBS "8 comm_overlap.overlap_p2p_comm=false " M
                  "microbatch_group_size_per_vp_stage=8",
    EP4 GPUS "4" GBS "4" FLEX "deepep cluster.gpus_per_node=2 cluster.nvlink_domain=4" BESIDE,
    EP4 GPUS "4" GBS "4" FLEX "hybridep cluster.gpus_per_node=2 cluster.nvlink_domain=4",
    EP2 GPUS "2" GBS "4" A2A " " M "moe_shared_expert_overlap=true",
    TP2 EP2 ETP2 GPUS "4" GBS "4" SOME,
    TP2 CP2 GPUS "4" GBS "2" FULL,
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

typedef struct tally {
    int programs;
    int64_t ops, compared;
} tally;

typedef void see(const program *p, const char *words, tally *t);

/* Calls `seen` with programs of a layout that no rule stands against. */
static void see_layout(const char *family, const char *words, int64_t ranks, see *seen, tally *t)
{
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    violations found;
    setup_of_words(s, a, family, words);
    rules_check(&found, s, false, a);
    for (int64_t r = 0; found.n_errors == 0 && r < s->lay.world && r < ranks; r++) {
        program *p = ARENA_NEW(a, program);
        program_build(p, s, r, a);
        seen(p, words, t);
    }
    arena_destroy(a);
}

static tally see_layouts(const char *more, int64_t ranks, see *seen)
{
    tally t = {0};
    arena *a = arena_create();
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++)
            see_layout(family_cases[c], arena_text(a, "%s %s", layouts[l], more), ranks, seen, &t);
    arena_destroy(a);
    return t;
}

/* ---- all is ordered */

static void see_order(const program *p, const char *words, tally *t)
{
    arena *a = arena_create();
    const order_map *m = order_map_make(p, a);
    order_report r;
    order_check(&r, m, a);
    if (r.first[0].o || r.unordered || r.unfinished)
        fail_msg("%s rank %d: %s", words, (int)p->at.rank, order_text(&r, a));
    t->programs++;
    t->ops += m->n_ops;
    t->compared += r.compared;
    arena_destroy(a);
}

static void all_accesses_are_ordered(void **state)
{
    (void)state;
    static const char *const more[] = {"mixed_precision=fp32", "mixed_precision=bf16_mixed",
                                       "mixed_precision=bf16_mixed" OFFLOAD};
    for (int i = 0; i < 3; i++) {
        tally t = see_layouts(more[i], i ? 2 : INT64_MAX, see_order);
        print_message("%s: %d programs, %lld operations a step, %lld accesses compared\n", more[i],
                      t.programs, (long long)t.ops, (long long)t.compared);
        assert_true(t.programs > 120 && t.compared > 100000);
    }
}

/* The same at the sizes that people train: FP8 formats, hundreds of layers and microbatches. */
static void recipes_are_ordered(void **state)
{
    (void)state;
    static const char *const recipes[] = {
        "recipes/dsv3-4k-h100.yaml", "recipes/dsv3-256k-h100-tp.yaml",
        "recipes/qwen3-30b-4k-overlap-h100.yaml", "recipes/qwen3-next-8k-gb200.yaml"};
    tally t = {0};
    for (int i = 0; i < 4; i++) {
        arena *a = arena_create();
        recipe *r = ARENA_NEW(a, recipe);
        setup *s = ARENA_NEW(a, setup);
        error err = {{0}};
        recipe_init(r, a, recipes[i]);
        status st = recipe_read_yaml(r, recipes[i], &err);
        if (!st) st = model_fill(r, &err);
        if (!st) st = setup_init(s, r, a, &err);
        if (st) fail_msg("%s: %s", recipes[i], err.text);
        program *p = ARENA_NEW(a, program);
        program_build(p, s, layout_stage_rank(&s->lay, s->pipe.pp / 2), a);
        see_order(p, recipes[i], &t);
        arena_destroy(a);
    }
    print_message("%d recipes, %lld operations a step\n", t.programs, (long long)t.ops);
    assert_true(t.programs == 4 && t.ops > 1000000);
}

/* ---- a wait less */

typedef enum wait_kind {
    COMPUTE_FOR_MESSAGE,
    BESIDE_FOR_COMPUTE,
    BESIDE_FOR_BESIDE,
    FOR_COPY,
    FOR_THE_START,
    FOR_THE_PROGRAM,
    WAIT_KINDS
} wait_kind;

static const char *const kind_names[WAIT_KINDS] = {
    "compute for a message",     "a message or copy for compute",
    "a message for another",     "for a copy to or from the host",
    "for the start of the list", "for an event of the program"};

static int64_t noticed[WAIT_KINDS], redundant[WAIT_KINDS];

static wait_kind kind_of(const segment *seg, int phase, const op *wait)
{
    int64_t event = wait->dim[DIM_WAIT_EVENT];
    if (wait->flags & ACROSS) return FOR_THE_PROGRAM;
    if (!event) return FOR_THE_START;
    for (int i = 0; i < seg->n_ops[phase]; i++) {
        const op *o = &seg->ops[phase][i];
        if (o->kind == OP_WAIT || (o->flags & ACROSS) || o->event != event) continue;
        if (op_is_copy(o->kind)) return FOR_COPY;
        if (o->stream == STREAM_COMPUTE) return BESIDE_FOR_COMPUTE;
        return wait->stream == STREAM_COMPUTE ? COMPUTE_FOR_MESSAGE : BESIDE_FOR_BESIDE;
    }
    fail_msg("a WAIT of %s names no operation", seg->name);
    return WAIT_KINDS;
}

static void leave_out(const order_map *m, const item *it, const op *wait, bool here, arena *a)
{
    wait_kind k = kind_of(it->seg, it->phase, wait);
    order_report r;
    deaf.wait = wait;
    deaf.it = here ? it : NULL;
    order_check(&r, m, a);
    deaf.wait = NULL;
    if (r.unordered || r.unfinished)
        noticed[k]++;
    else
        redundant[k]++;
}

/* A WAIT of a list stands for all items with the list; those for events of the program, whose order
 * among items counts, are taken out of one item at a time. */
static void see_each_wait(const program *p, const char *words, tally *t)
{
    (void)words;
    arena *a = arena_create();
    const order_map *m = order_map_make(p, a);
    bool *known = ARENA_ARRAY(a, bool, 2 * p->n_segments);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            bool *seen = &known[2 * it->seg->id + it->phase];
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++) {
                const op *o = &it->seg->ops[it->phase][k];
                bool across = (o->flags & ACROSS) != 0;
                if (o->kind != OP_WAIT || (*seen && !across)) continue;
                leave_out(m, it, o, across, a);
                t->ops++;
            }
            *seen = true;
        }
    t->programs++;
    arena_destroy(a);
}

static void a_missing_wait_is_noticed(void **state)
{
    (void)state;
    static const char *const more[] = {"", OFFLOAD};
    tally t = {0};
    arena *a = arena_create();
    for (int c = 0; c < 2; c++)
        for (int l = 0; l < N_LAYOUTS; l++)
            for (int k = 0; k < 2; k++)
                see_layout(family_cases[c], arena_text(a, "%s%s", layouts[l], more[k]), 1,
                           see_each_wait, &t);
    arena_destroy(a);
    print_message("%lld waits of %d programs\n", (long long)t.ops, t.programs);
    for (int k = 0; k < WAIT_KINDS; k++) {
        print_message("  %-32s %6lld noticed when missing, %6lld redundant\n", kind_names[k],
                      (long long)noticed[k], (long long)redundant[k]);
        assert_true(noticed[k] > 0);
    }
}

/* ---- in the audit */

#define SMALL PP2 EP2 GPUS "4" GBS "8" A2A

static void run_audit(audit_result *r, audit_options o, const char *words, arena *a)
{
    setup *s = ARENA_NEW(a, setup);
    error err = {{0}};
    setup_of_words(s, a, family_cases[0], words);
    assert_int_equal(audit_run(r, s, &o, a, &err), OK);
    assert_null(r->why_not);
}

/* A stream whose WAITs are gone. */
static void a_deaf_stream_is_a_fault_of_the_audit(void **state)
{
    (void)state;
    static const op_stream streams[] = {STREAM_COMPUTE, STREAM_COMM, STREAM_SEND_BACKWARD};
    arena *a = arena_create();
    audit_result r;
    run_audit(&r, (audit_options){.one = true, .rank = 3}, SMALL, a);
    assert_true(r.ok && r.replayed == r.n_classes && r.replayed_rank);
    for (int i = 0; i < 3; i++) {
        deaf.streams = 1u << streams[i];
        run_audit(&r, (audit_options){.one = false}, SMALL, a);
        deaf.streams = 0;
        assert_false(r.ok);
        assert_int_equal(r.faults[0].kind, FAULT_RACE);
        assert_string_equal(fault_kind_name(FAULT_RACE), "race");
        assert_true(r.faults[0].times > 0);
        print_message("%s\n", r.faults[0].text);
        const char *text = r.faults[0].text; /* the compute stream does not end its lists, either */
        bool raced = strstr(text, " access the same memory without an order between them") != NULL;
        assert_true(raced ? strstr(text, op_stream_names[streams[i]]) != NULL
                          : streams[i] == STREAM_COMPUTE && strstr(text, " is never waited for"));
    }
    arena_destroy(a);
}

/* What is too long for all ranks is said, and checked for one that is asked for. */
static void long_programs_are_checked_by_rank(void **state)
{
    (void)state;
    arena *a = arena_create();
    audit_result r;
    deaf.streams = 1u << STREAM_COMM;
    run_audit(&r, (audit_options){.one = false}, EP2 GPUS "2" GBS "800" A2A, a);
    assert_true(r.ok && r.replayed == 0 && r.most_ops > 1 << 16);
    run_audit(&r, (audit_options){.one = true, .rank = 1}, EP2 GPUS "2" GBS "800" A2A, a);
    deaf.streams = 0;
    assert_true(!r.ok && r.replayed_rank && r.replayed_ops == r.most_ops);
    assert_non_null(strstr(r.faults[0].text, "rank 1: "));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_accesses_are_ordered),
                                       cmocka_unit_test(recipes_are_ordered),
                                       cmocka_unit_test(a_missing_wait_is_noticed),
                                       cmocka_unit_test(a_deaf_stream_is_a_fault_of_the_audit),
                                       cmocka_unit_test(long_programs_are_checked_by_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
