/* adds_up.h - what is true of every profile that was taken, whatever its source. */
#ifndef TESTS_FUZZ_ADDS_UP_H
#define TESTS_FUZZ_ADDS_UP_H

#include <math.h>

#include "base/text.h"
#include "fuzz/fuzz.h"
#include "measure/profile/profile.h"

static inline void fuzz_adds_up(const profile *p, arena *a)
{
    double sum = p->mixed;
    for (int k = 0; k < PROFILE_KINDS; k++) {
        MUST(isfinite(p->busy[k]) && p->busy[k] >= 0);
        sum += p->busy[k];
    }
    for (int c = 0; c < CAUSE_COUNT; c++) {
        MUST(isfinite(p->idle[c]));
        sum += p->idle[c];
    }
    MUST(isfinite(p->span) && p->span >= 0 && p->steps >= 1);
    if (p->source != SOURCE_LOG) MUST(fabs(sum - p->span) <= 1e-6 * p->span + 1e-9);
    if (p->gpu) MUST(text_is_plain(p->gpu));
    price predicted = {.usable = 1 << 30, .peak_bytes = 1 << 20, .fits = true, .step_s = 1};
    price m;
    profile_as_price(&m, p, &predicted, a);
}

#endif
