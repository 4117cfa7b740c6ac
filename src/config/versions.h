/* versions.h - which Transformer Engine, PyTorch, cuDNN and NCCL the recipe is for.
 *
 * moefold.versions says it ("te=2.12,torch=2.9"); of what it leaves out, the container
 * (moefold.stack) says it, as far as NVIDIA publishes what is in it (containers.def). */
#ifndef CONFIG_VERSIONS_H
#define CONFIG_VERSIONS_H

#include "config/recipe.h"
#include "job/job.h"

enum { VERSION_NUMBERS = 4, VERSION_TEXT = 32 };

typedef struct part_version {
    int64_t number[VERSION_NUMBERS]; /* 0 where there are fewer */
    int n;
    char text[VERSION_TEXT];
    bool given; /* by moefold.versions, not by the container */
} part_version;

/* Can moefold.versions be read? The error names the word, the nearest right one and the repair. */
status recipe_versions_read(const recipe *r, error *err);

/* The version of "te", "torch", "cudnn", "nccl", or "container" itself. False: not known. */
bool version_of(const job *j, const char *part, part_version *out);

/* Is the version of that part known, and in [since, until)? "": without such an end. */
bool version_is(const job *j, const char *part, const char *since, const char *until);

/* The i-th part of which moefold.versions says something else than the container has, and both; the
 * shorter of two versions leaves open what it does not say. NULL: no more. */
const char *version_conflict(const job *j, int i, part_version *said, part_version *held);

/* Is there any? */
bool versions_clash(const job *j);

/* The name that people know: "Transformer Engine" of "te". */
const char *version_part_title(const char *part);

#endif
