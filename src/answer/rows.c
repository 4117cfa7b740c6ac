/* rows.c - layouts that a search found, as rows. */
#include "answer/rows.h"

#include <math.h>

static const char *const overlap_words[OVERLAP_KINDS] = {"-", "shared", "wgrad", "ep", "ep+delay"};

static const judged_row_answer *judged_of(const found *f, arena *a)
{
    judged_row_answer *x = ARENA_NEW(a, judged_row_answer);
    band_answer *band = ARENA_NEW(a, band_answer);
    routed_row_answer *routings = ARENA_ARRAY(a, routed_row_answer, FOUND_ROUTINGS);
    double seconds = f->priced ? f->exact.step_s : f->step_s;
    *band = (band_answer){seconds * exp(-f->band), seconds * exp(f->band)};
    *x = (judged_row_answer){band, f->tie, f->supported, f->before, routings, 0};
    for (int i = 0; i < FOUND_ROUTINGS; i++)
        if (f->routed[i].step_s > 0)
            routings[x->n_routings++] = (routed_row_answer){f->routed[i].skew, f->routed[i].step_s,
                                                            f->routed[i].peak_bytes};
    return x;
}

static row_answer row_of(const found *f, arena *a)
{
    const choice *c = &f->c;
    row_answer x = {.tp = c->tp,
                    .cp = c->cp,
                    .cp_kind = c->cp > 1 ? cp_kinds[c->kind].name : "none",
                    .ep = c->ep,
                    .etp = c->etp,
                    .pp = c->pp,
                    .vpp = c->vpp,
                    .dp = f->dp,
                    .micro_batch_size = c->mbs,
                    .microbatches = f->micros,
                    .dispatcher = choice_dispatcher_word(c->to),
                    .beside = overlap_words[c->overlap],
                    .recompute = choice_modules(a, c->drop),
                    .offload = choice_on_host(c),
                    .graphs = choice_graphs(c->graphs),
                    .tp_overlap = c->pick[PICK_TP_OVERLAP],
                    .step_s = f->priced ? f->exact.step_s : f->step_s,
                    .peak_bytes = f->peak_bytes,
                    .judged = f->band > 0 ? judged_of(f, a) : NULL};
    if (!f->priced) return x;
    priced_row_answer *priced = ARENA_NEW(a, priced_row_answer);
    *priced = (priced_row_answer){f->exact.tokens_per_s_per_gpu, f->exact.tflops_per_gpu,
                                  wall_name(f->exact.wall)};
    x.priced = priced;
    return x;
}

const row_answer *answer_rows(const found *list, int n, arena *a)
{
    row_answer *rows = ARENA_ARRAY(a, row_answer, n);
    for (int i = 0; i < n; i++) rows[i] = row_of(&list[i], a);
    return rows;
}
