/* lists.h - lists of messages and waits, each once; shared by lists.c and trace.c. */
#ifndef PREDICT_AUDIT_LISTS_H
#define PREDICT_AUDIT_LISTS_H

#include "predict/audit/trace.h"

/* The list of a phase of a segment; NULL: it has no message and waits for none. */
const audit_list *list_of(audit_book *book, const segment *seg, int phase, arena *scratch);

/* The book's list that equals this one, after numbering its entries anew. */
const audit_list *list_sealed(audit_book *book, audit_list *l);

audit_list *list_copy(const audit_list *l, arena *a);

/* Room for one more in a growing array of addresses. */
void *list_grown(arena *a, void *list, int n, int *room);

#endif
