/* rows.h - layouts that a search found, as rows. */
#ifndef ANSWER_ROWS_H
#define ANSWER_ROWS_H

#include "answer/answer.h"
#include "plan/search.h"

const row_answer *answer_rows(const found *list, int n, arena *a);

#endif
