/* bands.h - how far a price may be off, and whether others have published what it is about.
 *
 * Published runs that were priced (bands.def, written by `make accuracy`) say how wrong prices are.
 * The band of a time is what covers four in five of the errors of its nearest published rows, and
 * what a source has in common with itself; that of a difference comes from pairs of published runs
 * and grows with the knobs that differ. Halves of bands are logarithms: a price p lies between
 * p exp(-half) and p exp(half).
 *
 * A row is supported if each of its features, taken alone, occurs in a published run on the same
 * family of GPUs, with a container of the row's generation or an older one. Recompute is judged
 * module by module. A graph of the full iteration is one feature in each number format: it needs a
 * grouped GEMM that reads the rows of its experts on the device, and the op fuser has that kernel
 * for some formats only. */
#ifndef PREDICT_BANDS_H
#define PREDICT_BANDS_H

#include "base/text.h"
#include "job/dispatcher.h"
#include "layout/setup.h"

/* Features that runs are told apart by; two runs with the same words have the same feature. */
#define BAND_FEATURES_TABLE(X)                                                                     \
    X(DISPATCH, "dispatcher") /* and its reach: "deepep across", "alltoall node" */                \
    X(RECOMPUTE, "recompute") /* "none", "selective", "full" */                                    \
    X(PRECISION, "precision") /* "bf16", "blockwise", "mxfp8" ... */                               \
    X(OVERLAP, "EP overlap")  /* "off", "on", "delayed", "wgrad" */                                \
    X(GRAPHS, "CUDA graphs")  /* "none", "parts", "full_iteration", "full_iteration bf16" ... */

typedef enum band_feature {
#define BAND_ENUM(id, name) BAND_##id,
    BAND_FEATURES_TABLE(BAND_ENUM)
#undef BAND_ENUM
        BAND_FEATURES
} band_feature;

const char *band_feature_name(band_feature f);

/* What a run is known by; words live as long as the recipe. */
typedef struct band_traits {
    char family;      /* H: Hopper (and Ampere), B: Blackwell, 0: others */
    const char *gpu;  /* as cluster.gpu has it */
    const char *name; /* of the published model that has this one's shape; "": none has */
    int64_t seq;
    const char *stack; /* generation of containers; NULL: the newest */
    const char *feature[BAND_FEATURES];
    unsigned drops;   /* what is recomputed, as ir/segment.h names it */
    int64_t sizes[8]; /* TP CP EP ETP PP VPP MBS and quarters of the optimizer on the host */
} band_traits;

band_traits band_traits_of(const setup *s);

/* So many ranks, of which a node and an NVLink domain have so many. */
typedef struct band_reach {
    int64_t ranks, node, domain;
} band_reach;

/* The word of a dispatcher over ranks: "alltoall node"; "none" over one. */
const char *band_dispatch(const dispatcher *d, const band_reach *r);

/* Family of a GPU's name. */
char band_family(const char *gpu_name);

/* Knobs that differ: features and sizes. */
int band_differences(const band_traits *x, const band_traits *y);

/* Half of the band of a time. `skip`: a row of bands.def that does not count, -1: none. */
double band_of_time(const band_traits *t, int skip);

/* Half of the band of a difference between two runs that differ in n knobs, which is that of one
 * knob times its growth. */
double band_of_difference(int n);
double band_growth(int n);

/* The first feature that no published run on this family has; BAND_FEATURES: all are there. */
band_feature band_unsupported(const band_traits *t);

/* Is it known of this family that somebody ran it, in such a container or an older one? `stack`
 * NULL: in any. */
bool band_supports(char family, band_feature f, const char *word, const char *stack);

/* Is that known of each of these modules, recomputed? */
bool band_supports_drops(char family, unsigned drops, const char *stack);

/* The word for a recipe's number format: "bf16", "mxfp8" ... */
const char *band_precision(const job *j);

/* The word for a graph of the full iteration in a number format. */
const char *band_full_iteration(const char *precision);

/* Rows of bands.def, for whoever judges them. */
typedef struct band_row {
    const char *id, *gpu, *name;
    int64_t seq, n_gpus;
    int64_t sizes[8]; /* as in band_traits */
    const char *feature[BAND_FEATURES];
    double tokens; /* a second and GPU, published */
    double error;  /* log of ours over the published time */
} band_row;

const band_row *band_rows(int *n);

/* A published speed, also of runs whose layout nobody printed; the fastest of each job. */
typedef struct band_run {
    const char *id, *gpu, *name;
    int64_t seq, n_gpus; /* n_gpus 0: not printed */
    const char *precision;
    bool natural;  /* routing as it comes; else balance is forced */
    double tokens; /* a second and GPU */
} band_run;

/* The fastest published run of this model and length on this GPU: of this precision if there is
 * one, and of those on so many GPUs if there is one; NULL: there is none at all. */
const band_run *band_fastest_like(const band_traits *t, int64_t n_gpus);

/* The fastest in any precision and on any number of GPUs. */
const band_run *band_fastest(const band_traits *t);

/* The row of a run that was priced; NULL: it was not. */
const band_row *band_row_of(const band_run *run);

/* What a run has otherwise than a row: "EP 16 (32), EP overlap on (off)". Returns how many. */
int band_unlike(textbuf *out, const band_traits *t, const band_row *r);

/* Knobs (sizes and features) that nobody has published: those in which a run differs from the
 * published run of its model, length and family of GPUs that it is most like. 0 where there is
 * none: nothing is known of any. */
int band_untried(const band_traits *t);

/* How unlike a run a row is. */
double band_distance(const band_traits *t, const band_row *r);

#endif
