/* carry.h - files that go with a model and say nothing of its weights: the tokenizer's, the
 * generation's, chat templates, Python code that config.json or the tokenizer names. Private to
 * hf_save. */
#ifndef TRAIN_HF_CARRY_H
#define TRAIN_HF_CARRY_H

#include "base/arena.h"
#include "base/status.h"

/* Copies those of folder `from` into folder `to`, which has none of them yet; links are followed.
 * *names is what was copied, by name, from `a`. ERR_INPUT: one cannot be read. */
status hf_carry(arena *a, const char *from, const char *to, const char *const **names, int *n,
                error *err);

#endif
