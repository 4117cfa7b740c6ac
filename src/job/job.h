/* job.h - what is trained, where and how: a field a knob, in the types of C.
 *
 * The knobs, their words and the fields are made from src/config/knobs.def (tools/job_fields): a
 * knob's field has its name in small letters, and a word of an ENUM is J_<knob>_<word>. A number
 * that is null reads as 0, a flag as false, a text as NULL and a word as 0 (J_<knob>_NULL): where
 * null and 0 differ, job_has tells them apart. Who wanted a value, and why, is the recipe's
 * (config/recipe.h): what is built, priced or run does not depend on it. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/gpus.h"
#include "job/fields.h"

/* Of a knob that holds one value or a list: its items, one where it is no list. */
typedef struct job_numbers {
    const int64_t *item;
    int n;
    bool listed; /* written as a list */
} job_numbers;

typedef struct job_reals {
    const double *item;
    int n;
    bool listed;
} job_reals;

typedef struct job_texts {
    const char *const *item;
    int n;
} job_texts;

typedef struct job_words {
    const signed char *item; /* J_..., in the order of the list */
    int n;
    bool listed;
    unsigned set; /* a bit for each: see job_lists */
} job_words;

typedef struct job {
    JOB_FIELDS
    const struct gpu *machine;           /* of cluster.gpu; NULL: a word that nobody knows */
    uint64_t given[(K_COUNT + 63) / 64]; /* a bit for each knob that is not null */
} job;

static inline bool job_has(const job *j, knob_id k)
{
    return j->given[k / 64] >> k % 64 & 1;
}

/* Is the word J_... one of the list? */
static inline bool job_lists(job_words list, int word)
{
    return list.set >> word & 1;
}

static inline bool job_on_cpu(const job *j)
{
    return j->machine && j->machine->arch == ARCH_CPU;
}

/* Is it for our own runtime? A word that nobody knows reads as Megatron. */
static inline bool job_is_ours(const job *j)
{
    return j->target == J_TARGET_MOEFOLD;
}

/* Do Megatron-LM's defaults and habits hold (moefold.system)? Else Megatron-Bridge's. */
static inline bool job_is_lm(const job *j)
{
    return j->system == J_SYSTEM_MEGATRON_LM;
}

/* Does NVLink reach beyond a node, as in NVL72? */
static inline bool job_spans_nodes(const job *j)
{
    return j->machine && j->machine->nvlink_domain > j->machine->gpus_per_node;
}

/* Does it name files for training, validation or test alone? Files to train on at all? */
static inline bool job_names_separate(const job *j)
{
    return job_has(j, K_TRAIN_DATA) || job_has(j, K_VALID_DATA) || job_has(j, K_TEST_DATA) ||
           job_has(j, K_SPLIT_ARGS);
}
static inline bool job_names_data(const job *j)
{
    return job_has(j, K_DATA_PATH) || job_has(j, K_DATA_ARGS) || job_names_separate(j);
}

/* Sequences of one length in a batch, and which part of its tokens they have. A sequence is one
 * document today, and all are as long as model.seq_length. */
typedef struct job_length {
    int64_t length, count;
    double share;
} job_length;

typedef struct job_lengths {
    job_length item[1];
    int n;
} job_lengths;

static inline job_lengths job_lengths_of(const job *j)
{
    return (job_lengths){{{j->seq, j->gbs, 1}}, 1};
}

#endif
