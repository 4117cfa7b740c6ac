/* expected.h - how many rows an exchange sends where routing is uniform.
 *
 * Counts of an EXCHANGE are data. What is expected of them is what the audit's bytes and the price
 * of a message are made of: each token chooses its K different experts, any as likely as others. */
#ifndef PREDICT_AUDIT_EXPECTED_H
#define PREDICT_AUDIT_EXPECTED_H

#include "ir/segment.h"

typedef struct exchange_shape {
    comm_group group;
    int hop;   /* of flex: 1 to another domain, 2 inside the domain; else 0 */
    bool back; /* on the way from the experts to the tokens' ranks */
} exchange_shape;

/* What an EXCHANGE of a segment is: its table says it. */
exchange_shape exchange_shape_of(const segment *seg, const op *o);

/* How likely one of a token's topk of `all` experts is among n of them. */
double expected_chance(double all, double n, int64_t topk);

/* Rows that a rank sends to another member of its group. */
double exchange_expected(const setup *s, const exchange_shape *x, int64_t from, int64_t to);

#endif
