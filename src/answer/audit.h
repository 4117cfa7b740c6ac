/* audit.h - the audit of all ranks as an answer. */
#ifndef ANSWER_AUDIT_H
#define ANSWER_AUDIT_H

#include "answer/answer.h"
#include "predict/audit/audit.h"

/* The rank that check calls the fullest, and the one with least. */
typedef struct extremes {
    fit *stages; /* [pp] */
    int64_t most, least;
    int64_t alike; /* ranks that hold as much */
} extremes;

extremes answer_extremes(const setup *s, const fit *f, arena *a);

/* What adds up to a rank's peak; returns how many. */
int answer_peak_parts(peak_part *out, const fit *f, arena *a);

/* `f` is the fit of the setup. `rank` below 0: no rank was asked for. NULL: no program can be
 * built. */
const audit_answer *answer_audit(const setup *s, const audit_result *r, const fit *f,
                                 double seconds, int64_t rank, arena *a);

#endif
