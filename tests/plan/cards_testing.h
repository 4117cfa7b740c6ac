/* cards_testing.h - cards and sums over ranks for a recipe and a machine. */
#ifndef TESTS_PLAN_CARDS_TESTING_H
#define TESTS_PLAN_CARDS_TESTING_H

#include "plan/searching.h"

#include "plan/card_ranks.h"

typedef struct fixture {
    arena *a, *scratch; /* cards live in the one, the other is released while they are made */
    hardware hw;
    recipe *given;
    choice_maker m;
    cards *k;
    ranks *r;
    setup *again; /* patched again and again */
    patch_log log;
} fixture;

/* With the arena, the machine and the maker set. */
static inline void make_cards(fixture *f)
{
    f->scratch = arena_create();
    f->again = ARENA_NEW(f->a, setup);
    f->log = (patch_log){0};
    f->k = cards_create(&f->m, &f->hw, NULL, f->a);
    f->r = ranks_create(f->k, &f->m, &f->hw, NULL, f->a);
}

static inline void close_cards(fixture *f)
{
    cards_release(f->k);
    ranks_release(f->r);
    arena_destroy(f->scratch);
    arena_destroy(f->a);
}

#endif
