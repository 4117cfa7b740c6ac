/* A message begins when the one before it on its stream is complete, and a stream has a
 * communicator of its own in each group: what follows from both is found. */
#include "rules/testing.h"

#include "predict/audit/audit.h"

#define TINY       "tests/data/golden/qwen3-moe-tiny"
#define TWO_STAGES "GPU=cpu N_GPUS=2 PP=2 MBS=1 GBS=8 SEQ=64 GRAD_OVERLAP=false PARAM_OVERLAP=false"
#define SMALL                                                                                      \
    "GPU=cpu N_GPUS=16 GPUS_PER_NODE=4 NVLINK=8 TP=2 SP=true CP=2 PP=2 EP=4 MBS=1 GBS=8 SEQ=64 "   \
    "GRAD_OVERLAP=false PARAM_OVERLAP=false"

/* Moves messages of a group (and a kind; OP_WAIT: of all) from one stream to another, on one rank
 * or on all. */
typedef struct move {
    int64_t rank; /* -1: all */
    comm_group group;
    op_kind kind;
    int nth; /* -1: all */
    op_stream from, to;
    bool swap; /* with the next message of the group */
    int moved;
} move;

static bool is_meant(const move *m, const audit_entry *e)
{
    return e->kind != OP_WAIT && e->group == m->group && e->stream == m->from &&
           (m->kind == OP_WAIT || e->kind == m->kind);
}

static void swap_with_next(audit_list *l, int k)
{
    for (int j = k + 1; j < l->n; j++) {
        if (l->entries[j].kind == OP_WAIT || l->entries[j].group != l->entries[k].group) continue;
        audit_entry e = l->entries[k];
        int first = e.event, second = l->entries[j].event;
        l->entries[k] = l->entries[j];
        l->entries[j] = e;
        l->entries[k].event = first;
        l->entries[j].event = second;
        return;
    }
    fail_msg("no second message to swap with");
}

static void plant_one(void *with, int64_t rank, audit_book *book, audit_trace *trace)
{
    move *m = with;
    int left = m->nth;
    if (m->rank >= 0 && rank != m->rank) return;
    audit_part *p = trace_own_part(book, trace, PART_STEP);
    for (int64_t i = 0; i < p->n; i++) {
        for (int k = 0; k < p->items[i].list->n; k++) {
            if (!is_meant(m, &p->items[i].list->entries[k]) || (m->nth >= 0 && left-- != 0))
                continue;
            audit_list *own = part_own_list(book, p, i);
            own->entries[k].stream = m->to;
            if (m->swap && rank == 3) swap_with_next(own, k);
            m->moved++;
        }
    }
}

static void plant_list(void *with, int64_t rank, audit_book *book, audit_trace *trace)
{
    for (move *m = with; m->from != m->to; m++) plant_one(m, rank, book, trace);
}

static move all_of(op_stream from, op_stream to)
{
    return (move){
        .rank = -1, .group = GROUP_PP, .kind = OP_WAIT, .nth = -1, .from = from, .to = to};
}

typedef struct found {
    made x;
    audit_result r;
} found;

static void audit_with(found *f, const char *words, move *list)
{
    made_good(&f->x, TINY, words);
    const audit_options o = {.plant = plant_list, .with = list};
    assert_int_equal(audit_run(&f->r, &f->x.s, &o, f->x.a, &f->x.err), OK);
    assert_null(f->r.why_not);
    for (move *m = list; m->from != m->to; m++) assert_true(m->moved > 0);
}

static void expect(found *f, fault_kind kind, const char *text)
{
    for (int i = 0; i < f->r.n_faults; i++)
        if (f->r.faults[i].kind == kind && strstr(f->r.faults[i].text, text)) return;
    fail_msg("no fault %s with '%s'; %d faults, the first: %s", fault_kind_name(kind), text,
             f->r.n_faults, f->r.n_faults ? f->r.faults[0].text : "none");
}

/* Of the four streams between stages some are made one. */
static void join_streams(found *f, const char *words, unsigned which)
{
    move list[5];
    int n = 0;
    for (int k = STREAM_SEND_FORWARD; k <= STREAM_RECV_BACKWARD; k++)
        if (which & 1u << k) list[n++] = all_of((op_stream)k, STREAM_DP);
    list[n] = (move){.from = STREAM_DP, .to = STREAM_DP};
    audit_with(f, words, list);
}

#define BIT(x)  (1u << STREAM_##x)
#define FORWARD (BIT(SEND_FORWARD) | BIT(RECV_FORWARD))
#define BOTH    (FORWARD | BIT(SEND_BACKWARD) | BIT(RECV_BACKWARD))

static void two_stages_on_one_stream_deadlock(void **state)
{
    (void)state;
    found f;
    join_streams(&f, TWO_STAGES, BOTH);
    assert_int_equal(f.r.n_faults, 1); /* all agree; only playing shows that they stop */
    expect(&f, FAULT_DEADLOCK, "on stream replicas");
    expect(&f, FAULT_DEADLOCK, "waits for itself (2 ranks are deadlocked)");
    expect(&f, FAULT_DEADLOCK, "SEND hidden state");
    expect(&f, FAULT_DEADLOCK, "SEND gradient");
    made_release(&f.x);
}

static void posted_receives_on_one_stream_deadlock(void **state)
{
    (void)state;
    found f;
    join_streams(&f,
                 "GPU=cpu N_GPUS=2 PP=2 VPP=2 MBS=1 GBS=8 SEQ=64 GRAD_OVERLAP=false "
                 "PARAM_OVERLAP=false OVERLAP_P2P=true BATCH_P2P=false",
                 BOTH);
    expect(&f, FAULT_DEADLOCK, "waits for itself");
    made_release(&f.x);
}

/* Two stages whose directions have a stream each do not wait in a circle. */
static void one_stream_for_each_direction_is_enough_for_two_stages(void **state)
{
    (void)state;
    found f;
    join_streams(&f, TWO_STAGES, FORWARD);
    assert_int_equal(f.r.n_faults, 0);
    assert_true(f.r.ok && f.r.simulated);
    made_release(&f.x);
}

/* Every member has the message, but one starts it in another communicator. */
static void another_stream_is_another_communicator(void **state)
{
    (void)state;
    found f;
    move one[] = {{.rank = 5,
                   .group = GROUP_TP,
                   .kind = OP_ALL_GATHER,
                   .nth = 2,
                   .from = STREAM_COMM,
                   .to = STREAM_DP},
                  {0}};
    audit_with(&f, SMALL, one);
    expect(&f, FAULT_MISSING, "differ in group tp (ranks 4 5; stream layers)");
    expect(&f, FAULT_DEADLOCK, "has not started");
    made_release(&f.x);
    move sends[] = {{.rank = 1,
                     .group = GROUP_PP,
                     .kind = OP_SEND,
                     .nth = 0,
                     .from = STREAM_SEND_FORWARD,
                     .to = STREAM_SEND_BACKWARD},
                    {0}};
    audit_with(&f, SMALL, sends);
    expect(&f, FAULT_MISSING, "from rank 1 to rank 9");
    made_release(&f.x);
}

/* Rank 3 starts two messages of a group in another order than rank 2. */
static void order_counts_inside_a_communicator_alone(void **state)
{
    (void)state;
    found f;
    move swapped[] = {{.rank = -1,
                       .group = GROUP_EP,
                       .kind = OP_EXCHANGE,
                       .nth = 0,
                       .from = STREAM_COMM,
                       .to = STREAM_DP,
                       .swap = true},
                      {0}};
    audit_with(&f, SMALL, swapped);
    assert_true(f.r.ok);
    made_release(&f.x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_on_one_stream_deadlock),
        cmocka_unit_test(posted_receives_on_one_stream_deadlock),
        cmocka_unit_test(one_stream_for_each_direction_is_enough_for_two_stages),
        cmocka_unit_test(another_stream_is_another_communicator),
        cmocka_unit_test(order_counts_inside_a_communicator_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
