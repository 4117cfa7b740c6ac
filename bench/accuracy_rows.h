/* accuracy_rows.h - the rows that are judged: which, what they report, and our price of each.
 *
 * The lists: the accuracy set (one row a configuration, the newest), every other row of
 * published.csv that can be a recipe here (one a configuration, not one of the set's; natural
 * routing and dense models by themselves), and the rows that report memory. The set's ids, sorted
 * by name, are halved: the first, third, fifth ... may be used to fit parameters, the second,
 * fourth ... never are. */
#ifndef BENCH_ACCURACY_ROWS_H
#define BENCH_ACCURACY_ROWS_H

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "predict/price.h"
#include "predict/published.h"

#define PUBLISHED_CSV "tests/data/published/published.csv"
#define SET_CSV       "tests/data/published/accuracy-set.csv"

enum { ROWS_MAX = 1024, MACHINES_MAX = 16 };

/* LIST_NATURAL: speeds with routing as it comes, priced at our default skew. LIST_DENSE: models
 * without experts. */
typedef enum row_list {
    LIST_SET,
    LIST_OTHER,
    LIST_NATURAL,
    LIST_DENSE,
    LIST_MEMORY,
    LIST_COUNT
} row_list;

typedef struct judged {
    published p;
    row_list list;
    const char *id, *source, *model, *gpu, *stack, *key;
    bool fitted; /* of the half that parameters may be fitted on */
    setup *s;
    const char *broken;  /* the first of our rules that it breaks; NULL: none */
    const char *refused; /* the recipe could not be made: why */
    double tokens;       /* published, a second and GPU */
    double gigabytes;    /* published peak */
    double bytes;        /* ours of that, of an unseen row */
    bool told;           /* another row of the same run stands for it */
    price pr;
} judged;

typedef struct refusal {
    const char *why, *model;
    int rows;
} refusal;

typedef struct judging {
    arena *a;
    csv t, set;
    judged *rows;
    int n_rows;
    csv unseen_rows, unseen_jobs;
    judged *unseen; /* accuracy_unseen.h */
    int n_unseen;
    refusal refusals[ROWS_MAX];
    int n_refusals, n_refused;
    const char *folder; /* of machines */
    hardware machines[MACHINES_MAX];
    int n_machines;
} judging;

static inline double judged_error(const judged *j)
{
    return j->tokens > 0 ? j->pr.tokens_per_s_per_gpu / j->tokens - 1 : 0;
}

/* ---- machines */

static inline status machine_read(judging *b, const char *name, error *err)
{
    char *path = arena_text(b->a, "%s/%s.yaml", b->folder, name);
    if (!file_exists(path))
        for (char *c = path + strlen(b->folder); *c; c++) *c = (char)tolower((unsigned char)*c);
    hardware *hw = &b->machines[b->n_machines];
    status st = hardware_read(hw, path, b->a, err);
    if (st) return st;
    hw->name = name;
    b->n_machines++;
    return OK;
}

static inline const hardware *machine_of(judging *b, const char *name, error *err)
{
    for (int i = 0; i < b->n_machines; i++)
        if (strcmp(b->machines[i].name, name) == 0) return &b->machines[i];
    if (b->n_machines == MACHINES_MAX || machine_read(b, name, err)) return NULL;
    return &b->machines[b->n_machines - 1];
}

/* ---- which rows */

/* What makes two rows the same configuration. */
static inline const char *row_key(const csv *t, int row, arena *a)
{
    static const char *const parts[] = {"model", "gpu", "n_gpus", "seq_len", "mbs", "gbs"};
    static const char *const sizes[] = {"TP", "CP", "EP", "PP", "VPP"};
    static const char *const features[] = {"precision",  "dispatcher", "recompute",
                                           "cuda_graph", "overlap_ep", "offload"};
    textbuf k = text_init(a);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        text_add(&k, "%s|", csv_cell(t, row, parts[i]));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        text_add(&k, "%" PRId64 "|", csv_int(t, row, sizes[i], 1));
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        const char *cell = csv_cell(t, row, features[i]);
        bool off = !strcmp(cell, "none") || !strcmp(cell, "off") || !strcmp(cell, "alltoall");
        text_add(&k, "%s|", off ? "" : cell);
    }
    return k.s;
}

static inline bool row_reports(const csv *t, int row, const char *metric)
{
    return strcmp(csv_cell(t, row, "metric"), metric) == 0;
}

static inline bool row_reports_speed(const csv *t, int row)
{
    return row_reports(t, row, "tflops_per_gpu") || row_reports(t, row, "tokens_per_sec_per_gpu") ||
           row_reports(t, row, "step_time_s");
}

/* Named in the set, or as an older or newer measurement of one of its rows. */
static inline bool row_in_set(const judging *b, const char *id)
{
    for (int i = 0; i < b->set.n_rows; i++)
        if (strcmp(b->set.row[i][0], id) == 0 || text_in(csv_cell(&b->set, i, "also"), ' ', id))
            return true;
    return false;
}

/* Speeds with balanced routing, with routing as it comes, and memory are told apart. */
static inline bool row_is_known(const judging *b, row_list list, const char *key)
{
    for (int i = 0; i < b->n_rows; i++)
        if ((b->rows[i].list == LIST_MEMORY) == (list == LIST_MEMORY) &&
            (b->rows[i].list == LIST_NATURAL) == (list == LIST_NATURAL) &&
            strcmp(b->rows[i].key, key) == 0)
            return true;
    return false;
}

static inline void refuse(judging *b, const char *why, const char *name)
{
    b->n_refused++;
    for (int i = 0; i < b->n_refusals; i++)
        if (!strcmp(b->refusals[i].why, why) && !strcmp(b->refusals[i].model, name)) {
            b->refusals[i].rows++;
            return;
        }
    if (b->n_refusals < ROWS_MAX) b->refusals[b->n_refusals++] = (refusal){why, name, 1};
}

static inline void row_add(judging *b, row_list list, int row)
{
    published p;
    published_recipe(&p, &b->t, row, b->a);
    const char *id = csv_cell(&b->t, row, "id"), *key = row_key(&b->t, row, b->a);
    bool natural = published_is_natural(&p);
    const published_name *known = published_known(csv_cell(&b->t, row, "model"));
    if (natural && list == LIST_OTHER) list = LIST_NATURAL;
    if (known && known->dense && list == LIST_OTHER) list = LIST_DENSE;
    if (natural && list == LIST_MEMORY && !p.why_not) p.why_not = "natural routing";
    if (p.why_not) {
        refuse(b, p.why_not, csv_cell(&b->t, row, "model"));
        if (list != LIST_SET) return;
    }
    if (b->n_rows == ROWS_MAX || (list != LIST_SET && row_is_known(b, list, key))) return;
    judged *j = &b->rows[b->n_rows++];
    *j = (judged){.p = p, .list = list, .id = id, .key = key, .refused = p.why_not};
    j->model = known ? known->preset : csv_cell(&b->t, row, "model");
    j->gpu = csv_cell(&b->t, row, "gpu");
    j->source = arena_copy(b->a, id, strcspn(id, "-"));
    j->stack = published_stack(&p);
}

static inline int rows_by_name(const void *x, const void *y)
{
    const judged *a = x, *b = y;
    return strcmp(a->id, b->id);
}

static inline status rows_read(judging *b, error *err)
{
    status st = csv_read(&b->t, PUBLISHED_CSV, b->a, err);
    if (!st) st = csv_read(&b->set, SET_CSV, b->a, err);
    if (st) return st;
    b->rows = ARENA_ARRAY(b->a, judged, ROWS_MAX);
    for (int i = 0; i < b->set.n_rows; i++) {
        int row = csv_find(&b->t, b->set.row[i][0]);
        if (row < 0)
            return error_set(err, ERR_INPUT, "%s: %s is not in %s", SET_CSV, b->set.row[i][0],
                             PUBLISHED_CSV);
        row_add(b, LIST_SET, row);
    }
    qsort(b->rows, (size_t)b->n_rows, sizeof b->rows[0], rows_by_name);
    for (int i = 0; i < b->n_rows; i++) b->rows[i].fitted = i % 2 == 0;
    for (int i = 0; i < b->t.n_rows; i++)
        if (row_reports_speed(&b->t, i) && !row_in_set(b, csv_cell(&b->t, i, "id")))
            row_add(b, LIST_OTHER, i);
    for (int i = 0; i < b->t.n_rows; i++)
        if (row_reports(&b->t, i, "peak_mem_GB")) row_add(b, LIST_MEMORY, i);
    return OK;
}

/* ---- prices */

static inline status row_setup(judging *b, judged *j)
{
    error err = {{0}};
    violations found = {0};
    if (j->refused) return OK;
    j->s = ARENA_NEW(b->a, setup);
    if (published_setup(&j->p, j->s, &found, &err)) {
        j->refused = arena_text(b->a, "%s", err.text);
        return OK;
    }
    if (found.n_errors) j->broken = found.list[0].rule->id;
    if (!j->s->possible || j->s->pipe.why_not)
        j->refused = found.n ? found.list[0].message : "it cannot be laid out";
    j->tokens = published_tokens(&j->p, j->s);
    if (row_reports(&b->t, j->p.row, "peak_mem_GB"))
        j->gigabytes = csv_real(&b->t, j->p.row, "value");
    return OK;
}

static inline void row_price(judged *j, const hardware *hw, arena *scratch)
{
    arena_place place = arena_mark(scratch);
    price_setup(&j->pr, j->s, hw, &(price_options){.stack = j->stack}, scratch);
    j->pr.evidence = NULL; /* it lived in the scratch arena */
    arena_release(scratch, place);
}

static inline status rows_price(judging *b, error *err)
{
    arena *scratch = arena_create();
    status st = OK;
    for (int i = 0; i < b->n_rows && !st; i++) {
        judged *j = &b->rows[i];
        st = row_setup(b, j);
        if (st || j->refused) continue;
        const hardware *hw = machine_of(b, j->gpu, err);
        if (!hw)
            st = ERR_INPUT;
        else
            row_price(j, hw, scratch);
    }
    arena_destroy(scratch);
    return st;
}

#endif
