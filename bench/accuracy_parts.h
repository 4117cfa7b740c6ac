/* accuracy_parts.h - where a step goes, in parts: for whoever asks why a price is off. */
#ifndef BENCH_ACCURACY_PARTS_H
#define BENCH_ACCURACY_PARTS_H

#include "accuracy_rows.h"

/* Microseconds a token and GPU by part, the largest first; what is hidden behind a +. */
static inline void print_parts(const char *title, const price *p)
{
    step_part parts[STEP_PARTS];
    price_parts(parts, p);
    double each = 1e6 / (p->tokens_per_s_per_gpu * p->step_s);
    printf("%s %.2f us:", title, each * p->step_s);
    for (int n = 0; n < STEP_PARTS; n++) {
        int most = 0;
        for (int i = 1; i < STEP_PARTS; i++)
            if (parts[i].seconds + parts[i].hidden > parts[most].seconds + parts[most].hidden)
                most = i;
        step_part *x = &parts[most];
        if (x->seconds + x->hidden < 0.005 * p->step_s) break;
        printf(" %s %.2f", x->name, each * x->seconds);
        if (x->hidden > 0) printf("+%.2f", each * x->hidden);
        printf(n + 1 < STEP_PARTS ? "," : "");
        x->seconds = x->hidden = 0;
    }
    printf("\n");
}

static inline void print_all_parts(const judging *b)
{
    for (int i = 0; i < b->n_rows; i++) {
        const judged *j = &b->rows[i];
        if (j->refused || !(j->tokens > 0) || j->list == LIST_MEMORY) continue;
        printf("%s %+.1f %% (published %.2f us)\n", j->id, 100 * judged_error(j), 1e6 / j->tokens);
        print_parts("   ", &j->pr);
    }
}

#endif
