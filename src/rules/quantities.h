/* quantities.h - one function a row of quantities.def; they live in fits.c and phrases.c. */
#ifndef RULES_QUANTITIES_H
#define RULES_QUANTITIES_H

#include "rules/words.h"

#define NUMBER(name) int64_t q_##name(const setup *s);
#define WORDS(name)  const char *q_##name(const setup *s, const char *argument, arena *a);
#include "rules/quantities.def"
#undef NUMBER
#undef WORDS

#endif
