/* other_routing.h - a recipe with the other routing: forced balance where it is priced with a
 * natural one, natural routing where it forces balance. */
#ifndef LIBRARY_OTHER_ROUTING_H
#define LIBRARY_OTHER_ROUTING_H

#include "answer/answer.h"
#include "predict/price.h"

typedef struct other_routing {
    bool there; /* false: no two ranks share experts */
    bool natural, fits;
    double skew, step_s;
    int64_t peak_bytes;
} other_routing;

void price_other_routing(other_routing *out, const recipe *given, const price_job *j);
const other_routings_answer *other_routing_answer_of(const other_routing *x, arena *a);

#endif
