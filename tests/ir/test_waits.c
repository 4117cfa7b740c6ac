/* Nothing touches memory that a message still needs, where a host walks the lists and calls are
 * complete when they return. (Streams that know nothing of each other: tests/test_order.c) */
#include "ir/testing.h"

#include <stdlib.h>

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
    if (op_is_async(o->kind)) {
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_are_left_alone),
                                       cmocka_unit_test(copies_are_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
