/* Planted mistakes: each is found, and named by rank, operation, place and size. */
#include "rules/testing.h"

#include "predict/audit/audit.h"

/* What to plant where: the `nth` message of a kind in a group, on one rank. */
typedef struct mistake mistake;
typedef void alter(mistake *m, audit_book *book, audit_part *p, int64_t item_id, int entry_id);

struct mistake {
    int64_t rank;
    op_kind kind;
    comm_group group;
    int nth;
    alter *make;
    item_part part;
    char name[64]; /* of the operation that was altered */
};

static mistake at(int64_t rank, op_kind kind, comm_group group, int nth, alter *make)
{
    return (mistake){rank, kind, group, nth, make, PART_STEP, ""};
}

static mistake in_finish(mistake m)
{
    m.part = PART_FINISH;
    return m;
}

static bool find(const mistake *m, const audit_part *p, int64_t *item_id, int *entry_id)
{
    int left = m->nth;
    for (int64_t i = 0; i < p->n; i++)
        for (int k = 0; k < p->items[i].list->n; k++) {
            const audit_entry *e = &p->items[i].list->entries[k];
            if (e->kind != m->kind || e->group != m->group || left-- > 0) continue;
            *item_id = i;
            *entry_id = k;
            return true;
        }
    return false;
}

static void plant(void *with, int64_t rank, audit_book *book, audit_trace *trace)
{
    mistake *m = with;
    int64_t item_id = 0;
    int entry_id = 0;
    if (rank != m->rank) return;
    audit_part *p = trace_own_part(book, trace, m->part);
    if (!find(m, p, &item_id, &entry_id)) fail_msg("nothing to alter on rank %d", (int)rank);
    strncpy(m->name, p->items[item_id].list->entries[entry_id].name, sizeof m->name - 1);
    m->make(m, book, p, item_id, entry_id);
}

/* ---- mistakes */

static void other_size(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m;
    part_own_list(book, p, i)->entries[k].n += 16;
}

static void other_tag(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m;
    part_own_list(book, p, i)->entries[k].tag += 7;
}

static void other_kind(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m;
    part_own_list(book, p, i)->entries[k].kind = OP_ALL_REDUCE;
}

static void take_out(audit_list *l, int k)
{
    memmove(&l->entries[k], &l->entries[k + 1], sizeof l->entries[0] * (size_t)(l->n - k - 1));
    l->n--;
}

/* The message and the wait for it. */
static void leave_out(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m;
    audit_list *l = part_own_list(book, p, i);
    int event = l->entries[k].event;
    take_out(l, k);
    for (k = l->n - 1; k >= 0; k--)
        if (l->entries[k].kind == OP_WAIT && l->entries[k].event == event) take_out(l, k);
}

static void forget_to_wait(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m;
    audit_list *l = part_own_list(book, p, i);
    int event = l->entries[k].event;
    for (k = l->n - 1; k >= 0; k--)
        if (l->entries[k].kind == OP_WAIT && l->entries[k].event == event) take_out(l, k);
}

/* With the next message of the same group in the list; both keep their events. */
static void swap_with_next(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    audit_list *l = part_own_list(book, p, i);
    for (int j = k + 1; j < l->n; j++) {
        if (l->entries[j].kind == OP_WAIT || l->entries[j].group != m->group) continue;
        audit_entry e = l->entries[k];
        l->entries[k] = l->entries[j];
        l->entries[j] = e;
        int first = l->entries[k].event;
        l->entries[k].event = l->entries[j].event;
        l->entries[j].event = first;
        return;
    }
    fail_msg("no second message to swap with");
}

/* The item with the one that comes next with the same list: two microbatches change places. */
static void swap_microbatches(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m, (void)book, (void)k;
    for (int64_t j = i + 1; j < p->n; j++)
        if (p->items[j].list == p->items[i].list) {
            audit_item it = p->items[i];
            p->items[i] = p->items[j];
            p->items[j] = it;
            return;
        }
    fail_msg("no second microbatch");
}

/* The first gradient is awaited before the item: before what it needs is sent. */
static void wait_too_early(mistake *m, audit_book *book, audit_part *p, int64_t i, int k)
{
    (void)m, (void)book, (void)k;
    for (int64_t j = i + 1; j < p->n; j++) {
        const audit_list *l = p->items[j].list;
        if (l->phase != SEG_BACKWARD || l->entries[0].kind != OP_RECV) continue;
        audit_item it = p->items[j];
        memmove(&p->items[i + 1], &p->items[i], sizeof it * (size_t)(j - i));
        p->items[i] = it;
        return;
    }
    fail_msg("no gradient is received");
}

/* ---- what is found */

#define SMALL                                                                                      \
    "GPU=cpu N_GPUS=16 GPUS_PER_NODE=4 NVLINK=8 TP=2 SP=true CP=2 PP=2 EP=4 MBS=1 GBS=8 SEQ=64 "   \
    "GRAD_OVERLAP=false PARAM_OVERLAP=false"

static const audit_fault *find_fault(const audit_result *r, fault_kind kind, const char *text)
{
    for (int i = 0; i < r->n_faults; i++)
        if (r->faults[i].kind == kind && strstr(r->faults[i].text, text)) return &r->faults[i];
    return NULL;
}

static void expect_at(mistake m, fault_kind kind, const char *words, const char *text)
{
    made x;
    made_good(&x, "tests/data/golden/qwen3-moe-tiny", words);
    audit_result r;
    const audit_options o = {.plant = plant, .with = &m};
    assert_int_equal(audit_run(&r, &x.s, &o, x.a, &x.err), OK);
    assert_null(r.why_not);
    assert_false(r.ok);
    const audit_fault *f = find_fault(&r, kind, text);
    if (!f)
        fail_msg("no fault %s with '%s'; %d faults, the first: %s", fault_kind_name(kind), text,
                 r.n_faults, r.n_faults ? r.faults[0].text : "none");
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d", (int)m.rank);
    if (f->rank != m.rank && f->peer != m.rank) fail_msg("rank %d: %s", (int)m.rank, f->text);
    if (!strstr(f->text, rank) || !strstr(f->text, m.name))
        fail_msg("'%s' or '%s' is not in: %s", rank, m.name, f->text);
    made_release(&x);
}

static void expect(mistake m, fault_kind kind, const char *text)
{
    expect_at(m, kind, SMALL, text);
}

static void without_mistake_all_agree(void **state)
{
    (void)state;
    made x;
    audit_result r;
    made_good(&x, "tests/data/golden/qwen3-moe-tiny", SMALL);
    assert_int_equal(audit_run(&r, &x.s, NULL, x.a, &x.err), OK);
    assert_true(r.ok);
    assert_true(r.simulated);
    assert_int_equal(r.n_faults, 0);
    made_release(&x);
}

static void swapped_order_is_found(void **state)
{
    (void)state;
    expect(at(5, OP_EXCHANGE, GROUP_EP, 0, swap_with_next), FAULT_ORDER, "differ in group ep");
    expect(at(14, OP_EXCHANGE, GROUP_EP, 9, swap_with_next), FAULT_ORDER, "backward");
}

static void wrong_size_is_found(void **state)
{
    (void)state;
    expect(at(3, OP_ALL_GATHER, GROUP_TP, 4, other_size), FAULT_SIZE, "differ in group tp");
    expect(at(9, OP_EXCHANGE, GROUP_EP, 3, other_size), FAULT_SIZE, "room for");
    expect(at(6, OP_SEND, GROUP_PP, 0, other_size), FAULT_SIZE, "from rank 6 to rank 14");
    expect(at(12, OP_RECV, GROUP_PP, 2, other_size), FAULT_SIZE, "microbatch 2");
    expect(in_finish(at(7, OP_REDUCE_SCATTER, GROUP_DP_CP, 0, other_size)), FAULT_SIZE,
           "group dp-cp");
}

static void wrong_kind_is_found(void **state)
{
    (void)state;
    expect(at(2, OP_ALL_GATHER, GROUP_TP, 0, other_kind), FAULT_KIND, "ALL_REDUCE");
}

static void wrong_tag_is_found(void **state)
{
    (void)state;
    expect(at(1, OP_SEND, GROUP_PP, 1, other_tag), FAULT_MISSING, "tag 7");
    expect(at(1, OP_SEND, GROUP_PP, 1, other_tag), FAULT_DEADLOCK, "are deadlocked");
}

static void missing_rank_is_found(void **state)
{
    (void)state;
    expect(at(11, OP_ALL_GATHER, GROUP_TP, 2, leave_out), FAULT_MISSING, "group tp");
    expect(at(0, OP_REDUCE_SCATTER, GROUP_TP, 1, leave_out), FAULT_MISSING, "group tp");
    expect(at(0, OP_REDUCE_SCATTER, GROUP_TP, 1, leave_out), FAULT_DEADLOCK, "has not started");
}

static void missing_receive_is_found(void **state)
{
    (void)state;
    expect(at(10, OP_RECV, GROUP_PP, 1, leave_out), FAULT_MISSING, "from rank 2 to rank 10");
    expect(at(10, OP_SEND, GROUP_PP, 0, leave_out), FAULT_MISSING, "from rank 10 to rank 2");
}

static void microbatches_in_another_order_are_found(void **state)
{
    (void)state;
    expect(at(4, OP_SEND, GROUP_PP, 0, swap_microbatches), FAULT_ORDER, "microbatch 1");
}

static void circles_are_found(void **state)
{
    (void)state;
    expect(at(0, OP_SEND, GROUP_PP, 0, wait_too_early), FAULT_DEADLOCK, "waits for itself");
}

/* All ranks do the same, so nothing differs: only playing shows that they stop. */
static void all_wait_too_early(void *with, int64_t rank, audit_book *book, audit_trace *trace)
{
    mistake m = *(mistake *)with;
    m.rank = rank;
    if (rank < 8) plant(&m, rank, book, trace);
}

static void circles_of_whole_stages_are_found(void **state)
{
    (void)state;
    made x;
    audit_result r;
    mistake m = at(0, OP_SEND, GROUP_PP, 0, wait_too_early);
    const audit_options o = {.plant = all_wait_too_early, .with = &m};
    made_good(&x, "tests/data/golden/qwen3-moe-tiny", SMALL);
    assert_int_equal(audit_run(&r, &x.s, &o, x.a, &x.err), OK);
    assert_int_equal(r.n_faults, 1);
    assert_int_equal(r.faults[0].kind, FAULT_DEADLOCK);
    assert_non_null(strstr(r.faults[0].text, "16 ranks are deadlocked"));
    made_release(&x);
}

static void forgotten_waits_are_found(void **state)
{
    (void)state;
    expect(at(13, OP_ALL_GATHER, GROUP_TP, 1, forget_to_wait), FAULT_EVENT, "no operation waits");
}

static void one_rank_of_many_is_found(void **state)
{
    (void)state;
    expect_at(at(777, OP_ALL_GATHER, GROUP_TP, 3, other_size), FAULT_SIZE,
              "GPU=cpu N_GPUS=1024 TP=2 SP=true CP=2 PP=2 EP=4 MBS=1 GBS=512 SEQ=64", "rank 776");
}

/* What the rule about groups of microbatches says is what the audit sees. */
static void uneven_groups_wait_for_each_other(void **state)
{
    (void)state;
    made x;
    audit_result r;
    made_good(&x, "recipes/dsv3-4k-h100.yaml", "GBS=320");
    assert_int_equal(times_reported(&x.found, "microbatches-fill-groups"), 1);
    assert_int_equal(audit_run(&r, &x.s, NULL, x.a, &x.err), OK);
    assert_non_null(find_fault(&r, FAULT_DEADLOCK, "microbatch"));
    made_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_mistake_all_agree),
        cmocka_unit_test(swapped_order_is_found),
        cmocka_unit_test(wrong_size_is_found),
        cmocka_unit_test(wrong_kind_is_found),
        cmocka_unit_test(wrong_tag_is_found),
        cmocka_unit_test(missing_rank_is_found),
        cmocka_unit_test(missing_receive_is_found),
        cmocka_unit_test(microbatches_in_another_order_are_found),
        cmocka_unit_test(circles_are_found),
        cmocka_unit_test(circles_of_whole_stages_are_found),
        cmocka_unit_test(forgotten_waits_are_found),
        cmocka_unit_test(one_rank_of_many_is_found),
        cmocka_unit_test(uneven_groups_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
