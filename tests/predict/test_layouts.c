/* Layouts by a seeded sampler: whatever the rules accept has no fault, and ranks that are taken for
 * alike are alike: building every rank finds the same classes, bytes and messages. */
#include "rules/testing.h"

#include <stdlib.h>

#include "predict/audit/audit.h"
#include "ir/testing.h"

enum { TRIES = 6000, WANTED = 150 };

static uint64_t state_ = 20260711;

static int draw(int n)
{
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state_ >> 33) % (uint64_t)n);
}

static const char *const dispatchers[] = {
    "",
    "DISPATCHER=allgather",
    "DISPATCHER=alltoall",
    "DISPATCHER=flex FLEX=deepep",
    "DISPATCHER=flex FLEX=hybridep",
    "SHARED_OVERLAP=true",
};
static const char *const rings[] = {"", "CP_COMM=p2p", "CP_COMM=all_gather", "CP_COMM=a2a"};
static const char *const overlaps[] = {
    "",
    "GRAD_OVERLAP=true",
    "GRAD_OVERLAP=true PARAM_OVERLAP=true",
    "EP_OVERLAP=true",
    "EP_OVERLAP=true DELAY_WGRAD=true",
    "TP_OVERLAP=true",
    "OVERLAP_P2P=true",
    "OVERLAP_P2P=true GRAD_OVERLAP=true PARAM_OVERLAP=true",
    "DIST_OPT=false",
};
static const char *const recomputes[] = {
    "", "RECOMPUTE=full RECOMPUTE_METHOD=uniform RECOMPUTE_LAYERS=1",
    "RECOMPUTE=selective RECOMPUTE_MODULES=[moe,layernorm]"};

#define PICK(list) list[draw((int)(sizeof list / sizeof list[0]))]

static const char *sample(arena *a)
{
    int tp = 1 << draw(3), cp = 1 << draw(3), pp = 1 << draw(3), ep = 1 << draw(4);
    int etp = 1 << draw(2), vpp = draw(3) ? 1 : 2, dp = 1 << draw(3);
    int world = tp * cp * pp * dp;
    textbuf t = text_init(a);
    text_add(&t,
             "GPU=cpu N_GPUS=%d GPUS_PER_NODE=%d NVLINK=%d TP=%d CP=%d PP=%d EP=%d ETP=%d MBS=1 "
             "GBS=%d SEQ=64 VOCAB_PAD=true",
             world, 1 << (1 + draw(3)), 1 << (2 + draw(3)), tp, cp, pp, ep, etp,
             dp * (pp * (1 + draw(3)) + draw(2)));
    if (tp > 1) text_add(&t, " SP=true");
    if (vpp > 1) text_add(&t, " VPP=%d", vpp);
    text_add(&t, " %s %s", PICK(dispatchers), PICK(overlaps));
    if (cp > 1) text_add(&t, " %s", PICK(rings));
    text_add(&t, " %s", PICK(recomputes));
    return t.s;
}

static void same_result(const audit_result *x, const audit_result *y, const char *what)
{
    for (int64_t r = 0; r < x->ranks; r++) {
        const audit_class *a = &x->classes[x->class_of[r]], *b = &y->classes[y->class_of[r]];
        if (a->rank != b->rank || a->n != b->n || a->arena_bytes != b->arena_bytes ||
            memcmp(a->bytes, b->bytes, sizeof a->bytes) != 0)
            fail_msg("%s: rank %d is taken for one like %d, but is like %d", what, (int)r,
                     (int)a->rank, (int)b->rank);
    }
    assert_int_equal(x->messages, y->messages);
    assert_memory_equal(x->link_bytes, y->link_bytes, sizeof x->link_bytes);
    assert_int_equal(x->fullest->rank, y->fullest->rank);
}

/* Returns whether the rules accept it. */
static bool audit_one(const char *model_name, const char *words)
{
    made m;
    bool good = made_init(&m, model_name, words) == OK && m.found.n_errors == 0;
    if (good) {
        audit_result x, y;
        const audit_options every = {.every = true};
        assert_int_equal(audit_run(&x, &m.s, NULL, m.a, &m.err), OK);
        assert_int_equal(audit_run(&y, &m.s, &every, m.a, &m.err), OK);
        if (x.why_not) fail_msg("%s %s: %s", model_name, words, x.why_not);
        if (!x.ok) fail_msg("%s %s: %s", model_name, words, x.faults[0].text);
        if (!y.ok) fail_msg("%s %s, every: %s", model_name, words, y.faults[0].text);
        same_result(&x, &y, words);
    }
    made_release(&m);
    return good;
}

static void sampled_layouts_have_no_fault(void **state)
{
    (void)state;
    int good = 0;
    for (int i = 0; i < TRIES && good < WANTED; i++) {
        arena *a = arena_create();
        good += audit_one(family_cases[draw(N_FAMILY_CASES)], sample(a));
        arena_destroy(a);
    }
    print_message("%d layouts\n", good);
    assert_true(good >= WANTED / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sampled_layouts_have_no_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
