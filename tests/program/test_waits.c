/* Nothing touches memory that a message still needs, no message begins before what it needs is
 * there: checked over whole programs by addresses, without a look at how waits are derived. */
#include "program/testing.h"

#include <stdlib.h>

#include "audit/order_check.h"
#include "rules/rules.h"

enum { UNDER_WAY_MAX = 512 };

typedef struct message {
    const op *o;
    int event;
    bool across;
    int64_t in[OP_IN_MAX][2], out[OP_OUT_MAX][2]; /* start, end in the arena */
} message;

typedef struct watch {
    const program *p;
    message list[UNDER_WAY_MAX];
    int n;
    const char *words;
} watch;

static message look_at(const watch *w, const item *it, const op *o)
{
    message m = {.o = o, .event = o->event, .across = (o->flags & ACROSS) != 0};
    for (int i = 0; i < OP_IN_MAX; i++) {
        int64_t at = o->in[i] < 0 ? -1 : program_place(w->p, it, o->in[i]);
        if (o->in[i] >= 0 && at < 0) fail_msg("%s reads a buffer without a place", o->name);
        m.in[i][0] = at;
        m.in[i][1] = at < 0 ? -1 : at + it->seg->bufs[o->in[i]].bytes;
    }
    for (int i = 0; i < OP_OUT_MAX; i++) {
        int64_t at = o->out[i] < 0 ? -1 : program_place(w->p, it, o->out[i]);
        if (o->out[i] >= 0 && at < 0) fail_msg("%s writes a buffer without a place", o->name);
        m.out[i][0] = at;
        m.out[i][1] = at < 0 ? -1 : at + it->seg->bufs[o->out[i]].bytes;
    }
    return m;
}

static bool meet(const int64_t a[2], const int64_t b[2])
{
    return a[0] >= 0 && b[0] >= 0 && a[0] < b[1] && b[0] < a[1];
}

static bool disturbs(const message *a, const message *b)
{
    for (int i = 0; i < OP_OUT_MAX; i++) {
        for (int k = 0; k < OP_IN_MAX; k++)
            if (meet(a->out[i], b->in[k])) return true;
        for (int k = 0; k < OP_OUT_MAX; k++)
            if (meet(a->out[i], b->out[k])) return true;
    }
    return false;
}

/* Copies of one stream end in their order. */
static bool ends_with(const message *m, const op *target, bool across, int64_t event)
{
    if (m->across != across) return false;
    if (m->event == event) return true;
    return target && op_is_copy(target->kind) && m->o->stream == target->stream && m->event < event;
}

static void end_message(watch *w, const op *wait)
{
    bool across = (wait->flags & ACROSS) != 0;
    const op *target = NULL;
    for (int i = 0; i < w->n; i++)
        if (w->list[i].across == across && w->list[i].event == wait->dim[0]) target = w->list[i].o;
    for (int i = 0; i < w->n; i++)
        if (ends_with(&w->list[i], target, across, wait->dim[0])) {
            w->list[i--] = w->list[--w->n];
            if (across) return;
        }
}

static void see_op(watch *w, const item *it, const op *o)
{
    if (o->kind == OP_WAIT) {
        end_message(w, o);
        return;
    }
    message m = look_at(w, it, o);
    for (int i = 0; i < w->n; i++) {
        if (disturbs(&w->list[i], &m) || disturbs(&m, &w->list[i]))
            fail_msg("%s of %s touches memory of the message %s, which is under way (%s)", o->name,
                     it->seg->name, w->list[i].o->name, w->words);
        if (m.across && w->list[i].across && m.event == w->list[i].event)
            fail_msg("%s starts while its event is taken by %s", o->name, w->list[i].o->name);
    }
    if (op_is_beside(o->kind)) {
        assert_true(w->n < UNDER_WAY_MAX);
        w->list[w->n++] = m;
    }
}

static void see_program(const program *p, const char *words)
{
    watch *w = calloc(1, sizeof *w);
    w->p = p;
    w->words = words;
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            for (int k = 0; k < it->seg->n_ops[it->phase]; k++)
                see_op(w, it, &it->seg->ops[it->phase][k]);
            for (int k = 0; k < w->n; k++) /* a list leaves none of its own behind */
                if (!w->list[k].across) fail_msg("%s ends before its message", it->seg->name);
        }
    if (w->n) fail_msg("%s is never waited for", w->list[0].o->name);
    free(w);
}

#define TPV    "model.tensor_model_parallel_size="
#define CPV    " model.context_parallel_size="
#define PPV    " model.pipeline_model_parallel_size="
#define EPV    " model.expert_model_parallel_size="
#define ETPV   " model.expert_tensor_parallel_size="
#define VPV    " model.virtual_pipeline_model_parallel_size="
#define GPUS   " cluster.n_gpus="
#define GBS    " train.global_batch_size="
#define A2A    " model.moe_token_dispatcher_type=alltoall"
#define BESIDE " ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=3000"

static const char *const layouts[] = {
    TPV "2" EPV "2" ETPV "1" GPUS "4" GBS "4" A2A,
    TPV "2" CPV "2" EPV "4" ETPV "1" PPV "2" GPUS "8" GBS "4" A2A,
    PPV "2" GPUS "4" GBS "8 comm_overlap.overlap_p2p_comm=true" BESIDE,
    PPV "2" VPV "2" EPV "2" GPUS "4" GBS "8 comm_overlap.overlap_p2p_comm=true" A2A
        " comm_overlap.overlap_moe_expert_parallel_comm=true" BESIDE,
    EPV "2" GPUS "2" GBS "8" A2A " comm_overlap.overlap_moe_expert_parallel_comm=true "
        "comm_overlap.delay_wgrad_compute=true",
    PPV "2" VPV "2" EPV "2" GPUS "4" GBS "8" A2A
        " comm_overlap.overlap_moe_expert_parallel_comm=true"
        " comm_overlap.delay_wgrad_compute=true"
        " model.ep_overlap_early_attn_memory_release=true",
    PPV "4" VPV "2" GPUS "4" GBS "8",
    PPV "4" VPV "2" GPUS "4" GBS "8 comm_overlap.overlap_p2p_comm=false",
    TPV "2" EPV "2" ETPV "2" GPUS "4" GBS "4 model.recompute_granularity=selective "
        "model.recompute_modules=[core_attn,layernorm,moe_act]",
    TPV "2" CPV "2" GPUS "4" GBS "2 model.recompute_granularity=full "
        "model.recompute_method=uniform model.recompute_num_layers=1",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

#define OFFLOAD                                                                                    \
    " model.fine_grained_activation_offloading=true model.min_offloaded_tensor_size=0 "            \
    "model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act,attn_norm,mlp_norm,qkv_linear]"

typedef void see(const program *p, const char *words);

/* Of how many setups the programs were seen; `ranks`: of each, at most. */
static int see_layouts(const char *more, int64_t ranks, see *program_is_seen)
{
    int seen = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            arena *a = arena_create();
            setup *s = ARENA_NEW(a, setup);
            setup_of_words(s, a, family_cases[c], arena_text(a, "%s%s", layouts[l], more));
            violations found;
            rules_check(&found, s, false, a);
            if (found.n_errors == 0) {
                for (int64_t r = 0; r < s->lay.world && r < ranks; r++) {
                    program *p = ARENA_NEW(a, program);
                    program_build(p, s, r, a);
                    program_is_seen(p, layouts[l]);
                }
                seen++;
            }
            arena_destroy(a);
        }
    return seen;
}

/* ---- every pair of conflicting accesses, the compute stream's too */

/* The first item of each list of a program stands for all: of one list only addresses differ. */
static bool is_new(bool *seen, const item *it)
{
    bool *was = &seen[2 * it->seg->id + it->phase];
    bool fresh = !*was;
    *was = true;
    return fresh;
}

static int64_t pairs;

static void see_list(const order_list *l, order_model m, const char *words, arena *a)
{
    order_report r;
    order_check(&r, l, 1, (order_options){.model = m}, a);
    if (r.unordered)
        fail_msg("%s: %s and %s touch the same memory in no order (model %d, %s)", l->seg->name,
                 r.first[0]->name, r.first[1]->name, m, words);
    if (r.unfinished) fail_msg("%s ends before %s (%s)", l->seg->name, r.first[0]->name, words);
    pairs += r.pairs;
}

static void see_order(const program *p, const char *words)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            order_list l = order_list_of(p, &p->items[part].list[i], a);
            for (int m = 0; m < ORDER_MODELS; m++) see_list(&l, (order_model)m, words, a);
            arena_release(a, mark);
        }
    arena_destroy(a);
}

static void all_accesses_are_ordered(void **state)
{
    (void)state;
    pairs = 0;
    assert_true(see_layouts("", INT64_MAX, see_order) > N_FAMILY_CASES * N_LAYOUTS / 2);
    assert_true(see_layouts(OFFLOAD, 1, see_order) > N_FAMILY_CASES * N_LAYOUTS / 2);
    print_message("%lld conflicting pairs\n", (long long)pairs);
    assert_true(pairs > 10000);
}

/* ---- a wait less */

/* WAITs by who waits for what: they are noticed when they are missing, or told by others. */
typedef enum wait_kind {
    COMPUTE_FOR_MESSAGE,
    MESSAGE_FOR_COMPUTE,
    MESSAGE_FOR_MESSAGE,
    WITH_COPIES,
    FOR_THE_START,
    WAIT_KINDS
} wait_kind;
static int64_t noticed[WAIT_KINDS], redundant[WAIT_KINDS];

static wait_kind kind_of(const segment *seg, int phase, const op *wait)
{
    const op *target = NULL;
    if (wait->dim[DIM_WAIT_EVENT] == 0) return FOR_THE_START;
    for (int i = 0; i < seg->n_ops[phase] && !target; i++) {
        const op *o = &seg->ops[phase][i];
        bool own = o->kind != OP_WAIT && !(o->flags & ACROSS);
        if (own && o->event == wait->dim[DIM_WAIT_EVENT]) target = o;
    }
    assert_non_null(target);
    bool copies = wait->stream == STREAM_COPY || wait->stream == STREAM_COPY_BACK;
    if (copies || op_is_copy(target->kind)) return WITH_COPIES;
    if (wait->stream == STREAM_COMPUTE) return COMPUTE_FOR_MESSAGE;
    return target->stream == STREAM_COMPUTE ? MESSAGE_FOR_COMPUTE : MESSAGE_FOR_MESSAGE;
}

static void take_out_each(const order_list *l, arena *a)
{
    for (int i = 0; i < l->seg->n_ops[l->phase]; i++) {
        const op *o = &l->seg->ops[l->phase][i];
        if (o->kind != OP_WAIT || (o->flags & ACROSS)) continue;
        wait_kind k = kind_of(l->seg, l->phase, o);
        if (k == FOR_THE_START) continue; /* those order lists: below */
        order_report r[ORDER_MODELS];
        for (int m = 0; m < ORDER_MODELS; m++)
            order_check(&r[m], l, 1, (order_options){(order_model)m, o}, a);
        if (r[0].unordered || r[0].unfinished || r[1].unordered || r[1].unfinished)
            noticed[k]++;
        else
            redundant[k]++;
    }
}

static void see_each_wait(const program *p, const char *words)
{
    (void)words;
    arena *a = arena_create();
    bool *seen = ARENA_ARRAY(a, bool, 2 * p->n_segments);
    arena_place mark = arena_mark(a);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i < p->items[part].n; i++) {
            if (!is_new(seen, &p->items[part].list[i])) continue;
            order_list l = order_list_of(p, &p->items[part].list[i], a);
            take_out_each(&l, a);
            arena_release(a, mark);
        }
    arena_destroy(a);
}

static void a_missing_wait_is_noticed(void **state)
{
    (void)state;
    static const char *const names[WAIT_KINDS] = {"compute for a message", "a message for compute",
                                                  "a message for another", "with copies",
                                                  "for the start"};
    memset(noticed, 0, sizeof noticed);
    memset(redundant, 0, sizeof redundant);
    see_layouts("", 1, see_each_wait);
    see_layouts(OFFLOAD, 1, see_each_wait);
    for (int k = 0; k < FOR_THE_START; k++) {
        print_message("waits, %s: %lld noticed when missing, %lld redundant\n", names[k],
                      (long long)noticed[k], (long long)redundant[k]);
        assert_true(noticed[k] > 0);
    }
}

/* ---- across items */

static int64_t across_pairs;

/* Two items, one after the other, whoever runs them. */
static void see_two(const program *p, const item *one, const item *next, const char *words,
                    arena *a)
{
    order_list both[2] = {order_list_of(p, one, a), order_list_of(p, next, a)};
    for (int m = 0; m < ORDER_MODELS; m++) {
        order_report r;
        order_check(&r, both, 2, (order_options){.model = (order_model)m}, a);
        if (r.unordered)
            fail_msg("%s, then %s: %s and %s touch the same memory in no order (model %d, %s)",
                     one->seg->name, next->seg->name, r.first[0]->name, r.first[1]->name, m, words);
        across_pairs += r.pairs;
    }
    for (int i = 0; i < next->seg->n_ops[next->phase]; i++) {
        const op *o = &next->seg->ops[next->phase][i];
        if (o->kind != OP_WAIT || (o->flags & ACROSS) || o->dim[DIM_WAIT_EVENT]) continue;
        order_report r;
        order_check(&r, both, 2, (order_options){ORDER_QUEUES, o}, a);
        if (r.unordered)
            noticed[FOR_THE_START]++;
        else
            redundant[FOR_THE_START]++;
    }
}

static void see_neighbours(const program *p, const char *words)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    for (int part = 0; part < PART_COUNT; part++)
        for (int64_t i = 0; i + 1 < p->items[part].n; i++) {
            const item *it = &p->items[part].list[i];
            see_two(p, it, it + 1, words, a);
            arena_release(a, mark);
        }
    arena_destroy(a);
}

/* Nothing rests on calls that are complete when they return: the wait for the start of a list
 * orders it behind the one before. */
static void neighbours_are_ordered(void **state)
{
    (void)state;
    across_pairs = 0;
    noticed[FOR_THE_START] = redundant[FOR_THE_START] = 0;
    see_layouts("", 1, see_neighbours);
    see_layouts(OFFLOAD, 1, see_neighbours);
    print_message("%lld conflicting pairs of neighbouring items; waits for the start of a list: "
                  "%lld noticed when missing, %lld not between neighbours\n",
                  (long long)across_pairs, (long long)noticed[FOR_THE_START],
                  (long long)redundant[FOR_THE_START]);
    assert_true(noticed[FOR_THE_START] > 0);
}

static void messages_are_left_alone(void **state)
{
    (void)state;
    assert_true(see_layouts("", INT64_MAX, see_program) > N_FAMILY_CASES * N_LAYOUTS / 2);
}

static void copies_are_left_alone(void **state)
{
    (void)state;
    assert_true(see_layouts(OFFLOAD, INT64_MAX, see_program) > N_FAMILY_CASES * N_LAYOUTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_left_alone), cmocka_unit_test(copies_are_left_alone),
        cmocka_unit_test(all_accesses_are_ordered), cmocka_unit_test(a_missing_wait_is_noticed),
        cmocka_unit_test(neighbours_are_ordered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
