/* job_of.h - from words to the typed job. */
#ifndef CONFIG_JOB_OF_H
#define CONFIG_JOB_OF_H

#include "job/job.h"
#include "config/recipe.h"

/* The job that a resolved recipe describes. Lists are taken from the recipe's arena; texts stay
 * the recipe's. */
void job_of(job *j, const recipe *r);

/* One knob of it, after that knob was set in a resolved recipe. */
void job_take(job *j, const recipe *r, knob_id k);

/* A recipe that is being resolved, and its job: what is filled in one stands in the other at once,
 * so that derivations read the job. */
typedef struct resolving {
    recipe *r;
    job *j;
} resolving;

/* Has nobody set or filled it? */
bool resolve_is_open(const resolving *d, knob_id k);

/* Fills a knob that nobody has set (recipe_fill); gives it, or every knob, its default. */
void resolve_fill(resolving *d, knob_id k, value v, origin from, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void resolve_default(resolving *d, knob_id k);
void resolve_defaults(resolving *d);
/* Sets one knob of a job. Items of lists are the caller's. */
void job_put_null(job *j, knob_id k);
void job_put_flag(job *j, knob_id k, bool flag);
void job_put_int(job *j, knob_id k, int64_t whole);
void job_put_real(job *j, knob_id k, double real);
void job_put_word(job *j, knob_id k, int word); /* J_...; null is null */
void job_put_words(job *j, knob_id k, const signed char *item, int n);
void job_put_ints(job *j, knob_id k, const int64_t *item, int n);

/* What a knob of that type holds, for tables of knobs. */
bool job_flag(const job *j, knob_id k);
int64_t job_int(const job *j, knob_id k);
int job_word_of(const job *j, knob_id k);

/* One knob as another job has it. */
void job_put_as(job *j, const job *from, knob_id k);

/* J_... as users write it; NULL: null, or a word that nobody knows. */
const char *job_word(knob_id k, int word);

/* Do both say the same of a knob? Words that nobody knows are the same. */
bool job_same(const job *a, const job *b, knob_id k);

/* The same of every knob: the same work, whoever asked for it and by whatever name. Equal jobs have
 * equal hashes; neither reads room between fields. */
bool job_equal(const job *a, const job *b);
uint64_t job_hash(const job *j);

#endif
